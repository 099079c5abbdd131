"""Propose, certify, rescore: exact answers from approximate scores.

A *first pass* gives approximate scores of a tile of queries and rows, and for every query a bound on how far
any of them can be from the exact score (`indexes.exact`). The scans of `indexes.kernels` turn that into exact
answers, in one look at every entry:

- `topk`: let E be the k-th best exact score among the rows scored so far. A row whose approximate score is
  below E less the bound scores below E, and E only grows: it cannot belong to the answer, not even by a tie.
  Every other row is scored exactly at once and offered to the heap of the k best.
- `counts`: rows whose approximate score is further from the threshold than the bound are counted as they
  are; of the rest, those whose float32 product is further from it than that product's bound; what remains
  is scored exactly.

So an answer never depends on the first pass, only its cost does: every row is scored exactly at most once a
query, which is also the worst case (all rows tie), and memory does not depend on how many rows tie.

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
2**-20 for the rounding of the norms and of the bound itself. Passes in lower precision: `indexes.prepared`.
What is not covered is arithmetic that does not keep its word. Inputs rounded to TF32 or bfloat16 are
forbidden or refused (`indexes.float32_products`). Beyond that, every rescored row is compared with its
approximate score, and a difference beyond the bound raises `ProposerError`: that notices a library that
rounds more than it says, but proves nothing, because a row that it pushed out of the candidates is never
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.kernels import HALVES, UNFILLED, count, improve, lead, push_all, sort_heaps
from indexes.protocol import Counts, Shard, Survey, TopK
from indexes.validate import NORM_TOLERANCE, as_stored, read_rows, row_norms

Array = NDArray[Any]

UNIT_FLOAT32 = 2.0**-24
BLOCK_SCORES = 1 << 24  # approximate scores held at once: 64 MiB of float32


class ProposerError(ArithmeticError):
    """Approximate scores are further from the exact ones than the first pass's bound allows."""


class Proposer(Protocol):
    """A fast first pass. Must be safe to call from several threads at once."""

    def propose(self, queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Approximate scores, float32 [n, m], of queries [n, d] and rows [m, d], both C-contiguous."""

    def bound(self, queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
        """float64 [n]: how far any score of a query can be from the exact one; no row's norm is larger."""


def growth(terms: int, unit: float) -> float:
    """gamma: the largest relative error of a sum whose terms pass through so many roundings of that unit.

    Infinite where terms * unit reaches 1; then nothing is left out and every row is scored exactly.
    """
    return terms * unit / (1 - terms * unit) if terms * unit < 1 else float("inf")


def inner_product_bound(queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
    """float64 [n]: the bound of the module docstring for a float32 product summed in any order."""
    relative, tiny = _product_error(queries.shape[1])
    bounds: NDArray[np.float64] = relative * row_norms(queries) * largest_norm + tiny
    return bounds * (1 + 2.0**-20)


def valid_product_bound(dim: int) -> float:
    """The same for every query and row that is valid: their norms are within `NORM_TOLERANCE` of 1."""
    relative, tiny = _product_error(dim)
    return (relative * (1 + NORM_TOLERANCE) ** 2 + tiny) * (1 + 2.0**-20)


def _product_error(dim: int) -> tuple[float, float]:
    """What |q||x| is multiplied by in the bound, and what is added to it."""
    return growth(dim, UNIT_FLOAT32) + UNIT_FLOAT32, dim * (2.0**-62 + 2.0**-122)


def check_excess(excess: float) -> None:
    """Raise `ProposerError` where a rescored entry was further off than its bound, by that much (or NaN)."""
    if not excess <= 0:
        raise ProposerError(
            f"a first-pass score is off the exact one by {excess:.3g} more than its bound: the matrix "
            "library rounds its inputs (is that asked for by a variable of the environment?)"
        )


@dataclass(frozen=True)
class Best:
    """The best rows so far of some queries: heaps, float32 and int64 [n, k], filled in place by the scans."""

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]

    @classmethod
    def start(cls, queries: int, k: int) -> Best:
        """Nothing found yet."""
        return cls(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), UNFILLED, np.int64))

    def part(self, queries: slice) -> Best:
        """Those of some queries, as views."""
        return Best(self.scores[queries], self.rows[queries])

    def add(self, other: Best) -> None:
        """Take what was found among other rows."""
        push_all(self.scores, self.rows, other.scores, other.rows)

    def finish(self) -> TopK:
        """The answer, in the promised order; the heaps are used up."""
        sort_heaps(self.scores, self.rows)
        return TopK(self.scores, self.rows)


@dataclass(frozen=True)
class Tile:
    """Approximate scores of some queries and some consecutive rows, with what a scan needs to know of both.

    `scores` [n, m] float32, or bfloat16 seen as int16; `bounds` and `offsets` float64 [n]: an exact score is
    within its bound of score + offset; `queries` [n, d] and `rows` [m, d] as `indexes.validate.as_stored`
    gives them; `first` is the number of rows[0]. Every scan raises `ProposerError`.
    """

    scores: NDArray[Any]
    bounds: NDArray[np.float64]
    offsets: NDArray[np.float64]
    queries: NDArray[Any]
    rows: NDArray[Any]
    first: int

    def improve(self, best: Best) -> None:
        """Put what is better into `best`; see `indexes.kernels.improve`."""
        check_excess(improve(*self._known, self.first, best.scores, best.rows))

    def count(self, counts: Counts, thresholds: NDArray[np.float32]) -> None:
        """Add these rows to `counts`, thresholds [n]; see `indexes.kernels.count`."""
        slack = valid_product_bound(self.queries.shape[1])
        check_excess(count(*self._known, thresholds, slack, counts.above, counts.tied))

    def survey(self, found: Survey, thresholds: NDArray[np.float32]) -> None:
        """Add these rows, later than those in `found`; see `indexes.kernels`, `count` and `lead`."""
        self.count(found.counts, thresholds)
        best = found.leaders
        check_excess(lead(*self._known, self.first, best.scores, best.rows, best.tied))

    @property
    def _known(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        return self.scores, self.bounds, self.offsets, self.queries, self.rows, HALVES


@dataclass(frozen=True)
class BlockScan:
    """Exact search that reads a shard once a call, block by block, with a proposer in float32.

    It holds no rows and no scratch: any number of threads may use one at once. `largest_norm` is the largest
    norm of a row of the shard; rows were validated before. A call holds at most `block_rows` rows (float32,
    beside what the source itself holds), 64 MiB of approximate scores, and its answer.
    """

    proposer: Proposer
    shard: Shard
    largest_norm: float
    block_rows: int
    query_block: int

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]; 1 <= k <= rows of the shard."""
        best = Best.start(len(queries), k)
        for part, tile in self._tiles(queries):
            tile.improve(best.part(part))
        return best.finish()

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        counts, limits = Counts.nothing(len(queries)), np.ascontiguousarray(thresholds)
        for part, tile in self._tiles(queries):
            tile.count(counts.part(part), limits[part])
        return counts

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries [n, d]."""
        found, limits = Survey.nothing(len(queries)), np.ascontiguousarray(thresholds)
        for part, tile in self._tiles(queries):
            tile.survey(found.part(part), limits[part])
        return found

    def tiles(
        self, queries: NDArray[np.float32], bounds: NDArray[np.float64], first: int, rows: NDArray[np.float32]
    ) -> Iterator[tuple[slice, Tile]]:
        """(queries of the tile, tile) over a block of rows [m, d] that begins at `first`; bounds [n]."""
        stored = as_stored(rows)
        for part in self._query_blocks(len(queries)):
            asked = queries[part]
            scores = self.proposer.propose(asked, rows)
            yield part, Tile(scores, bounds[part], np.zeros(len(asked)), as_stored(asked), stored, first)

    def _tiles(self, queries: NDArray[np.float32]) -> Iterator[tuple[slice, Tile]]:
        bounds = self.proposer.bound(queries, self.largest_norm)
        for first, rows in self._row_blocks():
            yield from self.tiles(queries, bounds, first, rows)

    def _row_blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for first in range(0, self.shard.rows, self.block_rows):
            rows = read_rows(self.shard, first, min(first + self.block_rows, self.shard.rows))
            yield first, rows.astype(np.float32, copy=False)

    def _query_blocks(self, queries: int) -> Iterator[slice]:
        step = max(1, min(self.query_block, BLOCK_SCORES // min(self.block_rows, self.shard.rows)))
        return (slice(first, min(first + step, queries)) for first in range(0, queries, step))
