"""Compiled loops: exact scores, and scans of a tile of approximate scores.

A *tile* holds approximate scores of some queries (lines) and some consecutive rows (columns), float32, or
bfloat16 seen as int16. A scan looks at every entry once, vectorised, and evaluates the exact score
(`indexes.exact`) only where the bound cannot decide. The answer so far of every query is a heap of its k best
rows, the worst at the root, in the promised order (score, then row number); a place that nothing fills yet
has score -inf and row `UNFILLED`.

**Limits in a low precision.** An entry of the tile is the first pass's result a, rounded once to the tile's
type by a monotone rounding that keeps representable values (whether to nearest or cut off). So a >= L
implies entry >= down(L), the largest representable value up to L, and entry > up(H) implies a > H. Comparing
with down(L) and up(H) needs no allowance for the rounding of the output. bfloat16 entries are compared as
integers, where -0.0 is below 0.0: a lower limit of zero is moved down to it.

Every loop releases the interpreter's lock, holds no state, and writes only into its arguments. Array bounds
are not checked: callers are `indexes.exact`, `indexes.validate` and `indexes.certify`, which have.

All of it is one file because numba keeps a compiled loop as long as the file that defines it is unchanged: a
loop that calls one of another file would go on with that one's old code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.extending import overload

GROUP = 128  # columns that one vectorised comparison decides on; a power of two
LEAST_GROUPS = 128  # that columns are dealt into to find what k of them reach
GROUPS_PER_WANTED = 4
UNFILLED = np.int64(np.iinfo(np.int64).max)
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # float16 bits -> value
SCALE = 2.0**62
UNSCALE = np.float32(2.0**-62)

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop, **options: Any) -> Loop:
    """Compile when first called and keep the result on disk; in memory only where no folder can be
    written. `options` are further ones of numba."""
    try:
        result: Loop = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(loop)
    except RuntimeError:  # numba found no folder for its cache
        result = numba.njit(nogil=True, error_model="numpy", **options)(loop)
    return result


def by_type(stub: Callable[..., Any]) -> Callable[[Loop], Loop]:
    """Declare which code stands for `stub`, chosen by the types of its arguments when it is compiled."""
    declare: Callable[[Loop], Loop] = overload(stub)
    return declare


def _row(rows: Any, number: Any, halves: Any, scratch: Any) -> Any:
    """A row as float32 [d]: a view, or decoded into `scratch` where rows are float16 bits (uint16)."""
    raise NotImplementedError("compiled code only")


@by_type(_row)
def _row_of_type(rows: Any, number: Any, halves: Any, scratch: Any) -> Any:
    if rows.dtype == numba.types.float32:

        def view(rows: Any, number: Any, halves: Any, scratch: Any) -> Any:
            return rows[number]

        return view

    def decode(rows: Any, number: Any, halves: Any, scratch: Any) -> Any:
        row = rows[number]
        for i in range(len(row)):
            scratch[i] = halves[row[i]]
        return scratch

    return decode


@compiled
def _scaled(query: Any, scaled: Any) -> None:
    """The query times 2**62 in float64, exactly."""
    for i in range(len(query)):
        scaled[i] = np.float64(query[i]) * SCALE


@compiled
def _exact(scaled: Any, row: Any) -> Any:
    """The exact score of a scaled query and a float32 row, by the definition in `indexes.exact`."""
    total = np.int64(0)
    for i in range(len(row)):
        total += np.int64(np.rint(scaled[i] * np.float64(row[i])))
    return np.float32(total) * UNSCALE


def _sum_of_products(query: Any, row: Any) -> Any:
    total = np.float32(0)
    for i in range(len(row)):
        total += query[i] * row[i]
    return total


# summed in any order, multiplied and added in one step: without that no vector could be used
_product = compiled(_sum_of_products, fastmath={"reassoc", "contract", "nsz"})


@compiled
def exact_pairs_into(
    queries: Any, rows: Any, query_numbers: Any, row_numbers: Any, halves: Any, out: Any
) -> None:
    """Exact scores of (query_numbers[i], row_numbers[i]) into out float32 [n]; rows float32 or float16
    bits."""
    scaled = np.empty(queries.shape[1], np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    last = np.int64(-1)
    for i in range(len(out)):
        if query_numbers[i] != last:
            last = query_numbers[i]
            _scaled(queries[last], scaled)
        out[i] = _exact(scaled, _row(rows, row_numbers[i], halves, scratch))


@compiled
def exact_block_into(queries: Any, rows: Any, halves: Any, out: Any) -> None:
    """Exact scores of all pairs into out float32 [n, m]."""
    scaled = np.empty((len(queries), queries.shape[1]), np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    for i in range(len(queries)):
        _scaled(queries[i], scaled[i])
    for j in range(len(rows)):
        row = _row(rows, j, halves, scratch)
        for i in range(len(queries)):
            out[i, j] = _exact(scaled[i], row)


@compiled
def norms_into(rows: Any, halves: Any, out: Any) -> None:
    """Euclidean norms in float64 into out [n]; NaN and infinity pass through."""
    scratch = np.empty(rows.shape[1], np.float32)
    lanes = np.empty(8, np.float64)
    for i in range(len(rows)):
        row = _row(rows, i, halves, scratch)
        whole = len(row) // 8 * 8
        lanes[:] = 0.0
        for j in range(0, whole, 8):
            for lane in range(8):  # eight sums: a float64 sum is vectorised only when its order is given
                value = np.float64(row[j + lane])
                lanes[lane] += value * value
        for j in range(whole, len(row)):
            value = np.float64(row[j])
            lanes[0] += value * value
        out[i] = np.sqrt(lanes.sum())


@compiled
def rounding_norms_into(rows: Any, center: Any, low: Any, halves: Any, residues: Any, norms: Any) -> None:
    """Norms of (rows - center) - low into residues, and of low into norms, float64 [n]; low is float32."""
    scratch = np.empty(rows.shape[1], np.float32)
    rest_lanes = np.empty(8, np.float64)
    low_lanes = np.empty(8, np.float64)
    for i in range(len(rows)):
        row = _row(rows, i, halves, scratch)
        rounded = low[i]
        whole = len(row) // 8 * 8
        rest_lanes[:] = 0.0
        low_lanes[:] = 0.0
        for j in range(0, whole, 8):
            for lane in range(8):
                value = np.float64(rounded[j + lane])
                rest = (np.float64(row[j + lane]) - np.float64(center[j + lane])) - value
                rest_lanes[lane] += rest * rest
                low_lanes[lane] += value * value
        for j in range(whole, len(row)):
            value = np.float64(rounded[j])
            rest = (np.float64(row[j]) - np.float64(center[j])) - value
            rest_lanes[0] += rest * rest
            low_lanes[0] += value * value
        residues[i] = np.sqrt(rest_lanes.sum())
        norms[i] = np.sqrt(low_lanes.sum())


@compiled
def center_products_into(rows: Any, center: Any, out: Any) -> None:
    """Inner products of float32 rows with a float64 vector, in float64, into out [n]."""
    lanes = np.empty(8, np.float64)
    for i in range(len(rows)):
        row = rows[i]
        whole = len(row) // 8 * 8
        lanes[:] = 0.0
        for j in range(0, whole, 8):
            for lane in range(8):
                lanes[lane] += np.float64(row[j + lane]) * center[j + lane]
        for j in range(whole, len(row)):
            lanes[0] += np.float64(row[j]) * center[j]
        out[i] = lanes.sum()


@compiled
def _worse(score: Any, row: Any, other_score: Any, other_row: Any) -> Any:
    """Whether (score, row) stands behind the other in the promised order."""
    return score < other_score or (score == other_score and row > other_row)


@compiled
def _sink(scores: Any, rows: Any, size: Any, score: Any, row: Any) -> None:
    """Put (score, row) at the root of a heap of that size, the worst at the root, and let it sink."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and _worse(scores[right], rows[right], scores[child], rows[child]):
            child = right
        if not _worse(scores[child], rows[child], score, row):
            break
        scores[place] = scores[child]
        rows[place] = rows[child]
        place = child
    scores[place] = score
    rows[place] = row


@compiled
def sort_heaps(scores: Any, rows: Any) -> None:
    """Turn every line's heap [n, k] into the promised order, the best first."""
    for i in range(len(scores)):
        line, numbers = scores[i], rows[i]
        for size in range(len(line) - 1, 0, -1):
            score, row = line[size], numbers[size]
            line[size], numbers[size] = line[0], numbers[0]
            _sink(line, numbers, size, score, row)


@compiled
def push_all(scores: Any, rows: Any, new_scores: Any, new_rows: Any) -> None:
    """Put entries [n, m] into the heaps [n, k]; unfilled ones change nothing."""
    for i in range(len(scores)):
        line, numbers = scores[i], rows[i]
        for j in range(new_scores.shape[1]):
            score, row = new_scores[i, j], new_rows[i, j]
            if _worse(line[0], numbers[0], score, row):
                _sink(line, numbers, len(line), score, row)


@compiled
def _ordered(value: Any, single: Any, bits: Any) -> Any:
    """float32 bits as an int64 that orders like the value; `bits` is `single` seen as int32."""
    single[0] = value
    whole = np.int64(bits[0])
    return whole if whole >= 0 else whole ^ 0x7FFFFFFF


@compiled
def _toward(value: Any, up: bool) -> Any:
    """A float32 at most (`up`: at least) the float64 value."""
    near = np.float32(value)
    if up:
        return near if near >= value else np.nextafter(near, np.float32(np.inf))
    return near if near <= value else np.nextafter(near, np.float32(-np.inf))


def _limit(tile: Any, value: Any, up: bool, single: Any, bits: Any) -> Any:
    """down(value), or up(value), as entries of the tile are compared: float32, or int16 for bfloat16."""
    raise NotImplementedError("compiled code only")


@by_type(_limit)
def _limit_of_type(tile: Any, value: Any, up: Any, single: Any, bits: Any) -> Any:
    if tile.dtype == numba.types.float32:

        def as_float32(tile: Any, value: Any, up: Any, single: Any, bits: Any) -> Any:
            return _toward(value, up)

        return as_float32

    def as_bfloat16(tile: Any, value: Any, up: Any, single: Any, bits: Any) -> Any:
        # a bfloat16 is the upper half of a float32; a negative one ends in ones where bits are ordered
        whole = _ordered(_toward(value, up), single, bits)
        if up:
            return np.int16((whole + 0xFFFF if whole >= 0 else whole) >> 16)
        limit = (whole if whole >= 0 else whole - 0xFFFF) >> 16
        return np.int16(-1 if limit == 0 else limit)  # entry >= 0.0 must be true of -0.0

    return as_bfloat16


def _rank(entry: Any) -> Any:
    """The entry as something that `>` orders."""
    raise NotImplementedError("compiled code only")


@by_type(_rank)
def _rank_of_type(entry: Any) -> Any:
    if isinstance(entry, numba.types.Float):

        def itself(entry: Any) -> Any:
            return entry

        return itself

    def integer(entry: Any) -> Any:
        return np.int16(entry ^ ((entry >> 15) & 0x7FFF))

    return integer


def _candidate(entry: Any, low: Any, high: Any) -> Any:
    """low <= entry, and entry <= high unless `high` is None; true for NaN in float32, which is then found out
    when the row is scored."""
    raise NotImplementedError("compiled code only")


@by_type(_candidate)
def _candidate_of_type(entry: Any, low: Any, high: Any) -> Any:
    if isinstance(high, numba.types.NoneType):

        def reaches(entry: Any, low: Any, high: Any) -> Any:
            return not (_rank(entry) < low)

        return reaches

    def between(entry: Any, low: Any, high: Any) -> Any:
        return not (_rank(entry) < low or _rank(entry) > high)

    return between


@compiled
def _first_group_by_rank(line: Any, start: Any, low: Any, high: Any) -> Any:
    while start < len(line):
        found = False
        for j in range(np.uint64(start), np.uint64(min(start + GROUP, len(line)))):
            found |= _candidate(line[j], low, high)
        if found:
            return start
        start += GROUP
    return len(line)


def _first_group(line: Any, start: Any, low: Any, high: Any) -> Any:
    """Where the first group of columns that holds a candidate begins, from the group that begins at `start`;
    the length of the line if none does.

    Indices are unsigned, or numba would ask of each whether it counts from the end.
    """
    raise NotImplementedError("compiled code only")


@by_type(_first_group)
def _first_group_of_type(line: Any, start: Any, low: Any, high: Any) -> Any:
    def as_ranked(line: Any, start: Any, low: Any, high: Any) -> Any:
        return _first_group_by_rank(line, start, low, high)

    # positive bfloat16 are ordered as they are, negative ones lie below them: most limits need no rank
    def reaches(line: Any, start: Any, low: Any, high: Any) -> Any:
        if low <= 0:
            return _first_group_by_rank(line, start, low, high)
        while start < len(line):
            largest = line[start]
            for j in range(np.uint64(start), np.uint64(min(start + GROUP, len(line)))):
                largest = max(largest, line[j])
            if largest >= low:
                return start
            start += GROUP
        return len(line)

    def between(line: Any, start: Any, low: Any, high: Any) -> Any:
        if low <= 0:
            return _first_group_by_rank(line, start, low, high)
        while start < len(line):
            found = False
            for j in range(np.uint64(start), np.uint64(min(start + GROUP, len(line)))):
                found |= (line[j] >= low) & (line[j] <= high)
            if found:
                return start
            start += GROUP
        return len(line)

    if line.dtype == numba.types.float32:
        return as_ranked
    return reaches if isinstance(high, numba.types.NoneType) else between


@compiled
def _next_candidate(line: Any, start: Any, low: Any, high: Any) -> Any:
    """The first candidate (`_candidate`) at or after `start`, or the length of the line."""
    while start < len(line):
        if start & (GROUP - 1) == 0:
            start = _first_group(line, start, low, high)
        stop = min((start | (GROUP - 1)) + 1, len(line))
        for j in range(start, stop):
            if _candidate(line[j], low, high):
                return j
        start = stop
    return len(line)


def _surpassing(line: Any, high: Any) -> Any:
    """How many entries are above the limit."""
    raise NotImplementedError("compiled code only")


@by_type(_surpassing)
def _surpassing_of_type(line: Any, high: Any) -> Any:
    # sums as narrow as the entries, so that every lane of a vector holds one; a group does not overflow them
    narrow = np.int32 if line.dtype == numba.types.float32 else np.int16

    def count_of_ranks(line: Any, high: Any) -> Any:
        total = 0
        for start in range(0, len(line), GROUP):
            part = line[start : min(start + GROUP, len(line))]
            some = narrow(0)
            for j in range(len(part)):
                some = narrow(some + narrow(_rank(part[j]) > high))
            total += some
        return total

    return count_of_ranks


def _value(entry: Any, single: Any, bits: Any) -> Any:
    """The entry as float64."""
    raise NotImplementedError("compiled code only")


@by_type(_value)
def _value_of_type(entry: Any, single: Any, bits: Any) -> Any:
    if isinstance(entry, numba.types.Float):

        def widened(entry: Any, single: Any, bits: Any) -> Any:
            return np.float64(entry)

        return widened

    def decoded(entry: Any, single: Any, bits: Any) -> Any:
        bits[0] = np.int32(entry) << 16
        return np.float64(single[0])

    return decoded


def _output_unit(tile: Any) -> Any:
    """The largest relative error of the output's rounding that the bound does not hold already."""
    raise NotImplementedError("compiled code only")


@by_type(_output_unit)
def _output_unit_of_type(tile: Any) -> Any:
    unit = 0.0 if tile.dtype == numba.types.float32 else 2.0**-7

    def constant(tile: Any) -> Any:
        return unit

    return constant


@compiled
def _excess(value: Any, offset: Any, score: Any, bound: Any, unit: Any) -> Any:
    """By how much an entry is further from the exact score than its bound allows; NaN counts as infinite."""
    over = abs(value + offset - score) - bound - abs(value) * unit
    return over if over == over else np.inf


@compiled
def _highest(line: Any) -> Any:
    """The largest entry as `_rank` orders them; NaN only where it comes first."""
    highest = line[0]
    for j in range(1, len(line)):
        highest = max(highest, line[j])
    if highest > 0:  # positive bfloat16 are ordered as they are, above all negative ones
        return _rank(highest)
    best = _rank(line[0])
    for j in range(1, len(line)):
        best = max(best, _rank(line[j]))
    return best


def _maxima_like(tile: Any, size: Any) -> Any:
    """Room for so many results of `_rank`."""
    raise NotImplementedError("compiled code only")


@by_type(_maxima_like)
def _maxima_of_type(tile: Any, size: Any) -> Any:
    if tile.dtype == numba.types.float32:

        def of_float32(tile: Any, size: Any) -> Any:
            return np.empty(size, np.float32)

        return of_float32

    def of_int16(tile: Any, size: Any) -> Any:
        return np.empty(size, np.int16)

    return of_int16


@compiled
def _reached(line: Any, maxima: Any, heap: Any, nothing: Any, unit: Any, single: Any, bits: Any) -> Any:
    """What len(heap) columns of a line reach at least, before its entries were rounded; float64.

    Columns are dealt into len(maxima) groups. Groups have different best columns, so the k-th largest of
    their maxima is reached by k columns, and it is hardly below the k-th largest entry. `heap` and `nothing`
    [k] are scratch.
    """
    groups = len(maxima)
    for j in range(groups):
        maxima[j] = _rank(line[j])
    for turn in range(1, len(line) // groups):
        part = line[turn * groups : (turn + 1) * groups]
        for j in range(groups):
            rank = _rank(part[j])
            maxima[j] = rank if rank > maxima[j] else maxima[j]
    heap[:] = -np.inf
    for j in range(groups):
        value = _value(_rank(maxima[j]), single, bits)  # a rank's rank is its entry
        if value > heap[0]:
            _sink(heap, nothing, len(heap), value, 0)
    return heap[0] - abs(heap[0]) * unit


@compiled
def improve(
    tile: Any,
    bounds: Any,
    offsets: Any,
    queries: Any,
    rows: Any,
    halves: Any,
    first: int,
    scores: Any,
    numbers: Any,
) -> float:
    """Put what is better in a tile into the heaps; returns the largest excess of an entry over its bound.

    tile [n, m]; bounds and offsets float64 [n]: an exact score is within its bound of entry + offset;
    queries float32 [n, d]; rows [m, d], float32 or float16 bits; `first` is the number of rows[0]; heaps
    float32 and int64 [n, k].

    An entry may belong to the answer when it reaches the k-th best exact score less the bound and, while the
    heap is not full, what k entries of the tile reach less twice the bound.
    """
    lines, columns = tile.shape
    k = scores.shape[1]
    maxima = _maxima_like(tile, min(columns, max(LEAST_GROUPS, GROUPS_PER_WANTED * k)))
    heap, nothing = np.empty(k, np.float64), np.zeros(k, np.int64)
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    scaled = np.empty(queries.shape[1], np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    unit = _output_unit(tile)
    worst = -np.inf
    for i in range(lines):
        line, best, best_rows = tile[i], scores[i], numbers[i]
        allowance = bounds[i] + offsets[i]
        floor = np.float64(best[0]) - allowance
        if best_rows[0] == UNFILLED and columns >= k:
            floor = _reached(line, maxima, heap, nothing, unit, single, bits) - 2 * bounds[i]
        limit = _limit(tile, floor, False, single, bits)
        prepared = False
        j = _next_candidate(line, 0, limit, None)
        while j < columns:
            if not prepared:
                _scaled(queries[i], scaled)
                prepared = True
            score = _exact(scaled, _row(rows, j, halves, scratch))
            value = _value(line[j], single, bits)
            worst = max(worst, _excess(value, offsets[i], score, bounds[i], unit))
            if _worse(best[0], best_rows[0], score, first + j):
                _sink(best, best_rows, k, score, first + j)
                limit = _limit(tile, max(floor, best[0] - allowance), False, single, bits)
            j = _next_candidate(line, j + 1, limit, None)
    return worst


@compiled
def count(
    tile: Any,
    bounds: Any,
    offsets: Any,
    queries: Any,
    rows: Any,
    halves: Any,
    thresholds: Any,
    slack: float,
    above: Any,
    tied: Any,
) -> float:
    """Add what scores above and exactly at the thresholds in a tile; returns the largest excess, as
    `improve`.

    `slack`: a float32 product of a query and a row is within it of their exact score."""
    lines, columns = tile.shape
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    scaled = np.empty(queries.shape[1], np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    unit = _output_unit(tile)
    worst = -np.inf
    for i in range(lines):
        line, threshold = tile[i], thresholds[i]
        middle = np.float64(threshold) - offsets[i]
        low = _limit(tile, middle - bounds[i], False, single, bits)
        high = _limit(tile, middle + bounds[i], True, single, bits)
        clear = _surpassing(line, high)
        prepared = False
        j = _next_candidate(line, 0, low, high)
        while j < columns:
            row = _row(rows, j, halves, scratch)
            score = _product(queries[i], row)
            near = slack
            if abs(score - np.float64(threshold)) <= slack:
                if not prepared:
                    _scaled(queries[i], scaled)
                    prepared = True
                score, near = _exact(scaled, row), 0.0
                tied[i] += score == threshold
            clear += score > threshold
            value = _value(line[j], single, bits)
            worst = max(worst, _excess(value, offsets[i], score, bounds[i] + near, unit))
            j = _next_candidate(line, j + 1, low, high)
        above[i] += clear
    return worst


@compiled
def lead(
    tile: Any,
    bounds: Any,
    offsets: Any,
    queries: Any,
    rows: Any,
    halves: Any,
    first: int,
    scores: Any,
    numbers: Any,
    tied: Any,
) -> float:
    """Put what leads in a tile into the leaders; returns the largest excess, as `improve`.

    Leaders of earlier rows: float32, int64 and int64 [n], the best score, the lowest row that has it, and
    how many have it. A leader's entry reaches the leader's score less offset and bound; while there is none,
    the tile's largest entry less its own rounding and twice the bound.
    """
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    scaled = np.empty(queries.shape[1], np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    unit = _output_unit(tile)
    worst = -np.inf
    for i in range(len(tile)):
        line, prepared = tile[i], False
        floor = np.float64(scores[i]) - offsets[i] - bounds[i]
        if tied[i] == 0:
            highest = _value(_rank(_highest(line)), single, bits)  # a rank's rank is its entry
            floor = highest - abs(highest) * unit - 2 * bounds[i]
        limit = _limit(tile, floor, False, single, bits)
        j = _next_candidate(line, 0, limit, None)
        while j < len(line):
            if not prepared:
                _scaled(queries[i], scaled)
                prepared = True
            score = _exact(scaled, _row(rows, j, halves, scratch))
            value = _value(line[j], single, bits)
            worst = max(worst, _excess(value, offsets[i], score, bounds[i], unit))
            if score > scores[i]:
                scores[i], numbers[i], tied[i] = score, first + j, 1
                floor = max(floor, np.float64(score) - offsets[i] - bounds[i])
                limit = _limit(tile, floor, False, single, bits)
            elif score == scores[i]:
                tied[i] += 1
            j = _next_candidate(line, j + 1, limit, None)
    return worst


@compiled
def improve_from_lists(
    listed: Any,
    listed_rows: Any,
    bounds: Any,
    queries: Any,
    rows: Any,
    halves: Any,
    scores: Any,
    numbers: Any,
) -> float:
    """Put listed rows into the heaps: approximate scores, best first, and row numbers, [n, length].

    Returns the largest excess of a rescored entry. A listed row is scored unless its bound rules it out.
    """
    scaled = np.empty(queries.shape[1], np.float64)
    scratch = np.empty(rows.shape[1], np.float32)
    worst = -np.inf
    for i in range(len(listed)):
        best, best_rows = scores[i], numbers[i]
        _scaled(queries[i], scaled)
        for j in range(listed.shape[1]):
            value = np.float64(listed[i, j])
            if best_rows[0] != UNFILLED and value < best[0] - bounds[i]:
                continue
            row = listed_rows[i, j]
            score = _exact(scaled, _row(rows, row, halves, scratch))
            worst = max(worst, _excess(value, 0.0, score, bounds[i], 0.0))
            if _worse(best[0], best_rows[0], score, row):
                _sink(best, best_rows, len(best), score, row)
    return worst
