"""The words of exact search: row sources, shards, answers, and what a backend must do with them.

The promise (see `indexes/README.md`): the score of a query and a row is the inner product of the stored
values, summed exactly enough to be independent of order and rounded once to float32; rows are listed by
score, highest first, then by row number, lowest first. Every backend gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32] | NDArray[np.float16]
Origin = Literal["original", "adversarial", "distractor"]
NO_ROW = -1


class RowSource(Protocol):
    """A shard reader: rows of one block of a gallery, in memory or on disk."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows [start, stop) as float32 or float16 [stop - start, dim], L2-normalised, C-contiguous."""


@dataclass(frozen=True)
class Shard:
    """An immutable block of gallery rows of one origin, searchable on its own."""

    name: str
    origin: Origin
    source: RowSource

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.source.shape[0]

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.source.shape[1]


@dataclass(frozen=True)
class TopK:
    """The best rows of every query, in the promised order: float32 and int64 [queries, min(k, rows)]."""

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """How many rows score above, and how many tie with, every query's threshold: int64 arrays [queries].

    Counts of disjoint shards add up: ``counts(a + b) == counts(a) + counts(b)``.
    """

    above: NDArray[np.int64]
    tied: NDArray[np.int64]

    @classmethod
    def nothing(cls, queries: int) -> Counts:
        """Of no rows, to be added to in place."""
        return cls(np.zeros(queries, np.int64), np.zeros(queries, np.int64))

    def part(self, queries: slice) -> Counts:
        """Those of some queries, as views."""
        return Counts(self.above[queries], self.tied[queries])

    def __add__(self, other: Counts) -> Counts:
        """Counts over both shards."""
        return Counts(self.above + other.above, self.tied + other.tied)


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

    def part(self, queries: slice) -> Leaders:
        """Those of some queries, as views."""
        return Leaders(self.scores[queries], self.rows[queries], self.tied[queries])

    def offer(self, later: Leaders) -> None:
        """Take in the leaders of later rows, in place."""
        better, equal = later.scores > self.scores, later.scores == self.scores
        self.tied[equal] += later.tied[equal]
        self.scores[better] = later.scores[better]
        self.rows[better] = later.rows[better]
        self.tied[better] = later.tied[better]


@dataclass(frozen=True)
class Survey:
    """What ranks need of a shard: the counts at every query's threshold, and the row that leads."""

    counts: Counts
    leaders: Leaders

    @classmethod
    def nothing(cls, queries: int) -> Survey:
        """Of no rows, to be added to in place."""
        return cls(Counts.nothing(queries), Leaders.nobody(queries))

    def copy(self) -> Survey:
        """Arrays of their own."""
        return Survey(Counts(self.counts.above.copy(), self.counts.tied.copy()), self.leaders.copy())

    def part(self, queries: slice) -> Survey:
        """That of some queries, as views."""
        return Survey(self.counts.part(queries), self.leaders.part(queries))

    def add(self, later: Survey) -> None:
        """Take in what was found among later rows, in place."""
        self.counts.above[:] += later.counts.above
        self.counts.tied[:] += later.counts.tied
        self.leaders.offer(later.leaders)


class SearchBackend(Protocol):
    """Exact search in one shard; made by `indexes.registry.open_backend(name, shard)`."""

    @property
    def name(self) -> str:
        """Name in the registry."""

    @property
    def shard(self) -> Shard:
        """What it searches."""

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows for float32 queries [n, dim], L2-normalised."""

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with float32 thresholds [n], which are scores as `topk` gives them."""

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """`counts`, and the best row as `topk` gives it with how many share its score, in one pass."""
