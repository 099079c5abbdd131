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

    def __add__(self, other: Counts) -> Counts:
        """Counts over both shards."""
        return Counts(self.above + other.above, self.tied + other.tied)


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
