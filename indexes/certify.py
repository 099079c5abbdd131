"""Propose, certify, rescore: exact answers from approximate scores.

A `Proposer` gives approximate float32 scores of a block of queries and a block of rows, and for every query
a bound on how far any of them can be from the exact score (`indexes.exact`). `BlockScan` turns that into
exact answers:

- `topk`: a row can belong to the k best only if its approximate score is within the bound of a score that k
  rows are known to reach. Those candidates are scored exactly and ordered by (score, highest first; row,
  lowest first).
- `counts`: rows whose approximate score is further from the threshold than the bound are counted as they
  are; the rest are scored exactly.

Where candidates are many (ties, near-ties, k near the number of rows) their block is scored exactly as a
whole, tile by tile. So an answer never depends on the proposer, and memory never on how many rows tie.

**The bound of a float32 matrix product.** Let u = 2**-24, and let a be q.x summed in float32 in any order
or tree, with or without fused multiply-adds. Every term q_i x_i passes through at most d roundings (its
product and d - 1 additions), each a factor (1 + e) with abs(e) <= u, so ``abs(a - q.x) <= gamma_d * sum
abs(q_i x_i) <= gamma_d |q||x|``, gamma_d = d u / (1 - d u): the products of d factors differ from 1 by at
most gamma_d when d u < 1, and Cauchy-Schwarz. Underflow adds at most 2**-126 to each of the 2 d operations,
and for each input that is flushed to zero, even where subnormal numbers are off: below d * 2**-122 in all.
The exact score differs from q.x by at most d * 2**-63 before, and u * (|q||x| + d * 2**-63) by, its one
rounding. Together::

    abs(a - score) <= (gamma_d + u) |q||x| + d * 2**-62 + d * 2**-122

`inner_product_bound` evaluates this in float64 with |x| the largest norm of the shard and a factor 1 +
2**-20 for the rounding of the norms and of the bound itself. What is not covered is arithmetic that is not
float32 (TF32, for instance): every rescored candidate is compared with its approximate score, and a
difference beyond the bound raises `ProposerError` instead of giving an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.exact import exact_at, exact_block
from indexes.protocol import Counts, Shard, TopK
from indexes.validate import read_rows, row_norms

UNIT_FLOAT32 = 2.0**-24
BLOCK_SCORES = 1 << 24  # approximate scores held at once: 64 MiB of float32
TILE_KEYS = 1 << 22  # candidate keys held at once: 32 MiB of int64
DENSE_SHARE = 64  # a query with more than 1 in so many rows as candidates has the whole block scored exactly
GROUPS_PER_WANTED = 4
EMPTY = np.iinfo(np.int64).min  # key of a place in the best rows that nothing fills yet
ROW_MASK = (1 << 32) - 1


class ProposerError(ArithmeticError):
    """Approximate scores are further from the exact ones than the proposer's bound allows."""


class Proposer(Protocol):
    """A fast first pass. Must be safe to call from several threads at once."""

    def propose(self, queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Approximate scores, float32 [n, m], of queries [n, d] and rows [m, d], both C-contiguous."""

    def bound(self, queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
        """float64 [n]: how far any score of a query can be from the exact one; no row's norm is larger."""


def inner_product_bound(queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
    """float64 [n]: the bound of the module docstring for a float32 product summed in any order."""
    dim = queries.shape[1]
    gamma = dim * UNIT_FLOAT32 / (1 - dim * UNIT_FLOAT32)
    tiny = dim * (2.0**-62 + 2.0**-122)
    bounds: NDArray[np.float64] = (gamma + UNIT_FLOAT32) * row_norms(queries) * largest_norm + tiny
    return bounds * (1 + 2.0**-20)


def verify_proposed(
    approximate: NDArray[np.float32], exact: NDArray[np.float32], bounds: NDArray[np.float64]
) -> None:
    """Raise `ProposerError` where an approximate score is NaN or off by more than its bound."""
    errors = np.abs(approximate.astype(np.float64) - exact)
    wrong = ~(errors <= bounds)
    if wrong.any():
        worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors) - bounds))
        raise ProposerError(
            f"a first-pass score is {errors[worst]:.3g} off the exact one, its bound is {bounds[worst]:.3g}: "
            "the matrix library rounds its inputs (is TF32 forced by NVIDIA_TF32_OVERRIDE?)"
        )


def make_keys(scores: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One int64 for each (score, row) that sorts as the promise does, the best largest.

    Rows are below 2**32; scores are never -0.0 or NaN.
    """
    bits = scores.view(np.int32).astype(np.int64)
    ordered = np.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)
    return (ordered << 32) | (ROW_MASK - rows)


def scores_of(keys: NDArray[np.int64]) -> NDArray[np.float32]:
    """The scores in keys of `make_keys`."""
    ordered = (keys >> 32).astype(np.int32)
    return np.where(ordered >= 0, ordered, ordered ^ 0x7FFFFFFF).astype(np.int32).view(np.float32)


def rows_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows in keys of `make_keys`."""
    return ROW_MASK - (keys & ROW_MASK)


def keep_best(best: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64]:
    """The k largest keys, largest first: int64 [n, k] from keys [n, k] and further ones [n, m]."""
    k = best.shape[1]
    merged = np.concatenate([best, new], axis=1)
    if merged.shape[1] > k:
        merged.partition(merged.shape[1] - k, axis=1)
    kept = np.sort(merged[:, -k:], axis=1)
    return kept[:, ::-1]


def float32_below(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32 values that are at most `values`."""
    below: NDArray[np.float32] = np.nextafter(values.astype(np.float32), np.float32(-np.inf))
    return below


def float32_above(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32 values that are at least `values`."""
    above: NDArray[np.float32] = np.nextafter(values.astype(np.float32), np.float32(np.inf))
    return above


def count_lines(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64 [n]: how many are true in every line of [n, m]; `numpy.count_nonzero` is slow along an axis."""
    return np.fromiter((np.count_nonzero(line) for line in mask), np.int64, len(mask))


def reached_by(scores: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """float32 [n]: for every query a score that at least k columns of [n, m] reach, near the k-th best;
    -inf when m < k.

    The columns are dealt into groups; each group's maximum is a different column, so the k-th best maximum
    will do. It costs one pass and a selection among few numbers instead of among all.
    """
    queries, columns = scores.shape
    if columns < k:
        return np.full(queries, -np.inf, np.float32)
    groups = min(columns, max(GROUPS_PER_WANTED * k, 128))
    dealt = scores[:, : columns // groups * groups].reshape(queries, -1, groups)
    maxima: NDArray[np.float32] = dealt.max(axis=1)
    maxima.partition(groups - k, axis=1)
    return maxima[:, groups - k]


@dataclass(frozen=True)
class BlockScan:
    """Exact search that reads a shard once a call, block by block. It holds no rows and no scratch: any
    number of threads may use one at once.

    `largest_norm` is the largest norm of a row of the shard; rows were validated before. A call holds at
    most `block_rows` rows (float32, beside what the source itself holds), 64 MiB of approximate scores and
    their masks, up to about 150 MiB of scratch where many candidates tie or k is large, and its answer.
    """

    proposer: Proposer
    shard: Shard
    largest_norm: float
    block_rows: int
    query_block: int

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]; 1 <= k <= rows of the shard."""
        best = np.full((len(queries), k), EMPTY, np.int64)
        bounds = self.proposer.bound(queries, self.largest_norm)
        for first, rows in self._row_blocks():
            for part in self._query_blocks(len(queries)):
                self._improve(best[part], queries[part], bounds[part], first, rows)
        return TopK(scores_of(best), rows_of(best))

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        counts = Counts(np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64))
        bounds = self.proposer.bound(queries, self.largest_norm)
        for _, rows in self._row_blocks():
            for part in self._query_blocks(len(queries)):
                found = self._count(queries[part], thresholds[part], bounds[part], rows)
                counts.above[part] += found.above
                counts.tied[part] += found.tied
        return counts

    def _row_blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for first in range(0, self.shard.rows, self.block_rows):
            rows = read_rows(self.shard, first, min(first + self.block_rows, self.shard.rows))
            yield first, rows.astype(np.float32, copy=False)

    def _query_blocks(self, queries: int) -> Iterator[slice]:
        step = max(1, min(self.query_block, BLOCK_SCORES // min(self.block_rows, self.shard.rows)))
        return (slice(first, min(first + step, queries)) for first in range(0, queries, step))

    def _improve(
        self,
        best: NDArray[np.int64],
        queries: NDArray[np.float32],
        bounds: NDArray[np.float64],
        first: int,
        rows: NDArray[np.float32],
    ) -> None:
        """Put what is better in a block of rows into `best`, in place."""
        scores = self.proposer.propose(queries, rows)
        candidates, found = find_candidates(scores, best, bounds)
        dense = found > len(rows) // DENSE_SHARE
        candidates[dense] = False
        query_numbers, row_numbers = np.divmod(np.flatnonzero(candidates), len(rows))
        exact = exact_at(queries, rows, query_numbers, row_numbers)
        verify_proposed(scores[query_numbers, row_numbers], exact, bounds[query_numbers])
        del scores, candidates
        keep_sparse(best, query_numbers, make_keys(exact, row_numbers + first))
        for numbers in _tiles(np.flatnonzero(dense), len(rows) + best.shape[1]):
            for start, exact_scores in exact_block(queries[numbers], rows):
                part = numbers[start : start + len(exact_scores)]
                columns = best_columns(exact_scores, best.shape[1])
                kept = np.take_along_axis(exact_scores, columns, axis=1)
                best[part] = keep_best(best[part], make_keys(kept, columns + first))

    def _count(
        self,
        queries: NDArray[np.float32],
        thresholds: NDArray[np.float32],
        bounds: NDArray[np.float64],
        rows: NDArray[np.float32],
    ) -> Counts:
        """The counts of one block of rows."""
        scores = self.proposer.propose(queries, rows)
        clear = scores > float32_above(thresholds + bounds)[:, None]
        above = count_lines(clear)
        near = np.greater_equal(scores, float32_below(thresholds - bounds)[:, None])
        near ^= clear
        dense = count_lines(near) > len(rows) // DENSE_SHARE
        near[dense] = False
        query_numbers, row_numbers = np.divmod(np.flatnonzero(near), len(rows))
        exact = exact_at(queries, rows, query_numbers, row_numbers)
        verify_proposed(scores[query_numbers, row_numbers], exact, bounds[query_numbers])
        del scores, clear, near
        limits = thresholds[query_numbers]
        above += np.bincount(query_numbers[exact > limits], minlength=len(queries))
        tied = np.bincount(query_numbers[exact == limits], minlength=len(queries))
        for numbers in _tiles(np.flatnonzero(dense), len(rows)):
            for start, exact_scores in exact_block(queries[numbers], rows):
                part = numbers[start : start + len(exact_scores)]
                above[part] = count_lines(exact_scores > thresholds[part, None])
                tied[part] = count_lines(exact_scores == thresholds[part, None])
        return Counts(above, tied)


def best_columns(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """int64 [n, min(k, m)]: the best columns of [n, m], in any order; ties for the last place go to the
    first."""
    lines, columns = scores.shape
    if columns <= k:
        return np.broadcast_to(np.arange(columns), scores.shape)
    last = np.partition(scores, columns - k, axis=1)[:, columns - k]
    best = np.empty((lines, k), np.int64)
    for chosen, line, limit in zip(best, scores, last, strict=True):
        above = np.flatnonzero(line > limit)
        chosen[: len(above)] = above
        chosen[len(above) :] = np.flatnonzero(line == limit)[: k - len(above)]
    return best


def find_candidates(
    scores: NDArray[np.float32], best: NDArray[np.int64], bounds: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which columns can still belong to the best, bool [n, m], and how many a query, int64 [n].

    A first limit is the k-th best exact score so far, less the bound. Where it leaves many columns, a
    second one is what k columns of this block reach by their approximate scores, less twice the bound.
    """
    k = best.shape[1]
    last = best[:, -1]
    floor = np.where(last == EMPTY, -np.inf, scores_of(last).astype(np.float64))
    limits = float32_below(floor - bounds)
    candidates = scores >= limits[:, None]
    found = count_lines(candidates)
    many = np.flatnonzero(found > 2 * k + 16)
    if len(many):
        chosen = scores if len(many) == len(scores) else scores[many]
        reached = float32_below(reached_by(chosen, k) - 2 * bounds[many])
        candidates[many] = chosen >= np.maximum(limits[many], reached)[:, None]
        found[many] = count_lines(candidates[many])
    return candidates, found


def keep_sparse(best: NDArray[np.int64], query_numbers: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
    """Put keys, each of the query beside it (ascending), into `best` [n, k], in place."""
    touched, starts, sizes = np.unique(query_numbers, return_index=True, return_counts=True)
    widest = int(sizes.max(initial=0))
    for numbers in _tiles(np.arange(len(touched)), widest + best.shape[1]):
        span = slice(starts[numbers[0]], starts[numbers[-1]] + sizes[numbers[-1]])
        lines = np.repeat(np.arange(len(numbers)), sizes[numbers])
        places = np.arange(span.stop - span.start) - np.repeat(starts[numbers] - span.start, sizes[numbers])
        new = np.full((len(numbers), widest), EMPTY, np.int64)
        new[lines, places] = keys[span]
        best[touched[numbers]] = keep_best(best[touched[numbers]], new)


def _tiles(numbers: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    """The numbers in runs, so that one line of `width` keys for each of a run stays within `TILE_KEYS`."""
    step = max(1, TILE_KEYS // max(1, width))
    return (numbers[first : first + step] for first in range(0, len(numbers), step))
