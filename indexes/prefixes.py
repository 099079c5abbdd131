"""One pass over a shard, the answers for many of its prefixes: rows [0, n) for every asked n.

A gallery that grows is a row of prefixes, and what a query finds in a longer one is what it found in the
shorter one and in the rows that came to it: counts add up, leaders are compared. So the whole curve costs one
reading and one search of the largest prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.certify import (
    BLOCK_SCORES,
    DENSE_SHARE,
    count_lines,
    float32_above,
    float32_below,
    verify_proposed,
)
from indexes.errors import SearchInputError
from indexes.exact import exact_at, exact_block
from indexes.protocol import Counts
from indexes.streaming import StreamedBackend, StreamScan, spans
from indexes.validate import check_queries, check_thresholds

NO_ROW = -1


@dataclass(frozen=True)
class Leaders:
    """The best row of every query; arrays [queries].

    `scores` float32, `rows` int64 the lowest row with that score, `tied` int64 how many rows have it.
    """

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]
    tied: NDArray[np.int64]

    @classmethod
    def nobody(cls, queries: int) -> Leaders:
        """No row yet: -inf, `NO_ROW`, 0."""
        return cls(
            np.full(queries, -np.inf, np.float32),
            np.full(queries, NO_ROW, np.int64),
            np.zeros(queries, np.int64),
        )

    def copy(self) -> Leaders:
        """Arrays of their own."""
        return Leaders(self.scores.copy(), self.rows.copy(), self.tied.copy())

    def merge(self, queries: NDArray[np.int64], later: Leaders) -> None:
        """Take in, in place, the leaders of rows that all come after those before, for some of the queries.

        `queries` int64 [n] has none twice; `later` has an entry for each.
        """
        before = self.scores[queries]
        tied = np.where(later.scores == before, self.tied[queries] + later.tied, self.tied[queries])
        better = later.scores > before
        self.tied[queries] = np.where(better, later.tied, tied)
        self.rows[queries] = np.where(better, later.rows, self.rows[queries])
        self.scores[queries] = np.maximum(before, later.scores)


def lead_pairs(
    queries: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]
) -> tuple[NDArray[np.int64], Leaders]:
    """The queries of aligned (query, row, score), each once, and who leads them.

    Pairs ascend by query, then by row.
    """
    if not len(queries):
        return queries, Leaders.nobody(0)
    asked, starts, line = np.unique(queries, return_index=True, return_inverse=True)
    best = np.maximum.reduceat(scores, starts)
    leading = np.flatnonzero(scores == best[line])
    _, lowest, tied = np.unique(line[leading], return_index=True, return_counts=True)
    return asked, Leaders(best, rows[leading[lowest]], tied)


def lead_lines(scores: NDArray[np.float32], first: int) -> Leaders:
    """Who leads every line of [n, m], the columns being the rows from number `first` on."""
    best = scores.max(axis=1)
    leading = scores == best[:, None]
    return Leaders(best, first + leading.argmax(axis=1), count_lines(leading))


@dataclass(frozen=True)
class Prefix:
    """What the first `rows` rows of a shard are to every query: counts at its threshold, and the best row."""

    rows: int
    counts: Counts
    leaders: Leaders


@dataclass(frozen=True)
class PrefixScan:
    """The running answers for all queries [n, d] over the rows seen so far; changed in place."""

    scan: StreamScan
    queries: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    bounds: NDArray[np.float64]
    counts: Counts
    leaders: Leaders

    @classmethod
    def start(
        cls, scan: StreamScan, queries: NDArray[np.float32], thresholds: NDArray[np.float32]
    ) -> PrefixScan:
        """No row seen yet."""
        zeros = Counts(np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64))
        bounds = scan.proposer.bound(queries, scan.largest_norm)
        return cls(scan, queries, thresholds, bounds, zeros, Leaders.nobody(len(queries)))

    def so_far(self, rows: int) -> Prefix:
        """The answers at this moment."""
        counts = Counts(self.counts.above.copy(), self.counts.tied.copy())
        return Prefix(rows, counts, self.leaders.copy())

    def see(self, first: int, rows: NDArray[np.float32]) -> None:
        """Take in a block of rows, the number of the first being `first`."""
        step = max(1, min(self.scan.query_block, BLOCK_SCORES // len(rows)))
        for start in range(0, len(self.queries), step):
            self._see(slice(start, min(start + step, len(self.queries))), first, rows)

    def _see(self, part: slice, first: int, rows: NDArray[np.float32]) -> None:
        """Rescore what may tie with the threshold or lead, count the rest as it is."""
        queries, thresholds, bounds = self.queries[part], self.thresholds[part], self.bounds[part]
        leaders = Leaders(self.leaders.scores[part], self.leaders.rows[part], self.leaders.tied[part])
        scores = self.scan.proposer.propose(queries, rows)
        clear = scores > float32_above(thresholds + bounds)[:, None]
        open_cells = np.greater_equal(scores, float32_below(thresholds - bounds)[:, None])
        open_cells ^= clear
        mark_leading(open_cells, scores, leaders.scores, bounds)
        dense = count_lines(open_cells) > len(rows) // DENSE_SHARE
        open_cells[dense] = False
        above = count_lines(clear)
        query_numbers, row_numbers = np.divmod(np.flatnonzero(open_cells), len(rows))
        exact = exact_at(queries, rows, query_numbers, row_numbers)
        verify_proposed(scores[query_numbers, row_numbers], exact, bounds[query_numbers])
        uncounted = ~clear[query_numbers, row_numbers]
        del scores, clear, open_cells
        limits = thresholds[query_numbers]
        above += np.bincount(query_numbers[uncounted & (exact > limits)], minlength=len(queries))
        tied = np.bincount(query_numbers[exact == limits], minlength=len(queries))
        leaders.merge(*lead_pairs(query_numbers, row_numbers + first, exact))
        numbers = np.flatnonzero(dense)
        for start, tile in exact_block(queries[numbers], rows) if len(numbers) else ():
            chosen = numbers[start : start + len(tile)]
            above[chosen] = count_lines(tile > thresholds[chosen, None])
            tied[chosen] = count_lines(tile == thresholds[chosen, None])
            leaders.merge(chosen, lead_lines(tile, first))
        self.counts.above[part] += above
        self.counts.tied[part] += tied


def mark_leading(
    cells: NDArray[np.bool_],
    scores: NDArray[np.float32],
    leading: NDArray[np.float32],
    bounds: NDArray[np.float64],
) -> None:
    """Set cells [n, m], in place, whose exact score may be as high as the leader's and as the block's best.

    A cell as good as the leader has an approximate score of at least the leader's exact one less the bound;
    one as good as the best of the block, at least the highest approximate one less twice the bound.
    """
    highest = scores.max(axis=1)
    limits = leading - bounds
    hopeful = np.flatnonzero(highest >= float32_below(limits))
    reached = np.maximum(limits[hopeful], highest[hopeful] - 2 * bounds[hopeful])
    chosen = scores if len(hopeful) == len(scores) else scores[hopeful]
    cells[hopeful] |= chosen >= float32_below(reached)[:, None]


def search_prefixes(
    backend: StreamedBackend,
    queries: NDArray[Any],
    thresholds: NDArray[np.float32],
    sizes: Sequence[int],
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[Prefix, ...]:
    """The answers for the first n rows of a shard, for every n in `sizes`, in one pass over the largest.

    `queries` float32 or float16 [n, d], L2-normalised; `thresholds` float32 [n], exact scores; `sizes` ascend
    from at least 1. `advance` is told how many rows were just searched. Raises `SearchInputError` for sizes
    that do not ascend or that the shard does not have, for queries and rows that are not valid.
    """
    check_sizes(sizes, backend.shard.rows, backend.shard.name)
    valid = check_queries(queries, backend.shard.dim)
    running = PrefixScan.start(backend.scan, valid, check_thresholds(thresholds, len(valid)))
    found: list[Prefix] = []
    with backend.scan.prefetch(spans(sizes[-1], backend.scan.block_rows, sizes)) as blocks:
        for (first, stop), rows in blocks:
            running.see(first, rows)
            if stop in sizes:
                found.append(running.so_far(stop))
            advance(stop - first)
    return tuple(found)


def check_sizes(sizes: Sequence[int], rows: int, name: str) -> None:
    """Raise `SearchInputError` unless the sizes ascend from at least 1 to at most `rows`."""
    if not sizes or sizes[0] < 1 or any(later <= size for size, later in pairwise(sizes)):
        raise SearchInputError(
            f"sizes {list(sizes)} of shard {name!r}: expected them to ascend from 1 or more"
        )
    if sizes[-1] > rows:
        raise SearchInputError(f"size {sizes[-1]:,} of shard {name!r}: it has {rows:,} rows; ask for fewer")
