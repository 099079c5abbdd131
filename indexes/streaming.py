"""Exact search in a shard that is not kept in memory: its rows are read ahead in blocks, in every call.

A thread reads, validates and widens the next blocks while the present one is searched
(`indexes.prefetch.Prefetch`). Rows are validated when they are first read: there is no pass over the shard
before the search, and the certificate takes the largest norm that a valid row may have.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.memory import BlockPlan, MemoryLimit
from indexes.prefetch import Span
from indexes.protocol import Counts, Rows, RowSource, SearchBackend, Shard, Survey, TopK
from indexes.registry import BLOCK_ROWS, QUERY_BLOCK, check_backend, open_backend
from indexes.validate import (
    NORM_TOLERANCE,
    check_k,
    check_queries,
    check_rows,
    check_shard,
    check_thresholds,
)

# family of backends -> module with `open_stream(shard, plan, precision)`; imported when first used
STREAMS: Mapping[str, str] = {"numpy": "indexes.float32_stream", "torch": "indexes.torch_backend"}
LARGEST_NORM = 1 + NORM_TOLERANCE
DEFAULT_PLAN = BlockPlan(BLOCK_ROWS, QUERY_BLOCK)
STREAMED = "streamed"
IN_MEMORY_BYTES = 8  # a value at most: as it is, and in the precision of a first pass
IN_MEMORY_SHARE = 0.5  # of what a memory limit leaves: more than that is streamed


class CheckedRows:
    """Rows of another source, validated when they are read for the first time; `what` names it in errors."""

    def __init__(self, source: RowSource, what: str) -> None:
        self._source, self._what = source, what
        self._unchecked = np.ones(source.shape[0], np.bool_)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""
        return self._source.shape

    def read(self, start: int, stop: int) -> Rows:
        """Rows [start, stop); raises `SearchInputError` naming the first that is not L2-normalised."""
        rows = self._source.read(start, stop)
        if self._unchecked[start:stop].any():
            check_rows(rows, self._what, start)
            self._unchecked[start:stop] = False
        return rows


class StreamScan(Protocol):
    """How blocks of rows are prepared, ahead of the search, and searched.

    What a block and prepared queries are is its own affair.
    """

    @property
    def block_rows(self) -> int:
        """How many rows are read at once."""

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries."""

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds of validated queries."""

    def prefetch(self, wanted: Sequence[Span]) -> AbstractContextManager[Iterator[tuple[Span, Any]]]:
        """The blocks of some spans, read and prepared ahead."""

    def ask(self, queries: NDArray[np.float32]) -> Any:
        """Validated queries, prepared."""

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Both of those, and the best row, of validated queries."""

    def see(self, asked: Any, block: Any, first: int, thresholds: NDArray[np.float32], found: Survey) -> None:
        """Take a block, whose first row has that number, into what was found before it, in place."""


@dataclass(frozen=True)
class StreamedBackend:
    """A shard that is read in every call. Costs no memory but its blocks, and a byte a row."""

    shard: Shard
    scan: StreamScan
    name: str = STREAMED

    def topk(self, queries: NDArray[Any], k: int) -> TopK:
        """The k best rows; raises `indexes.errors.SearchInputError`."""
        return self.scan.topk(check_queries(queries, self.shard.dim), check_k(k, self.shard.rows))

    def counts(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.counts(valid, check_thresholds(thresholds, len(valid)))

    def survey(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.survey(valid, check_thresholds(thresholds, len(valid)))


def spans(rows: int, step: int, cuts: Sequence[int] = ()) -> list[Span]:
    """[0, rows) cut at the multiples of `step` and at `cuts` (each in [0, rows]), in order."""
    edges = sorted({*range(0, rows, step), *cuts, rows} - {0})
    return list(zip([0, *edges[:-1]], edges, strict=True))


def open_streamed(shard: Shard, plan: BlockPlan = DEFAULT_PLAN, backend: str = "numpy") -> StreamedBackend:
    """Make a shard searchable without reading it. Raises `SearchInputError` for one without rows.

    Rows that are not valid are met, and named, during the search. `backend` is the name of the one that would
    search in memory: its first pass is used, on a GPU where it has one, that of numpy for those that have
    none of their own; "auto" is the fastest.
    """
    check_shard(shard)
    checked = Shard(shard.name, shard.origin, CheckedRows(shard.source, f"shard {shard.name!r}"))
    return StreamedBackend(shard, stream_of(backend, checked, plan))


def stream_of(backend: str, shard: Shard, plan: BlockPlan) -> StreamScan:
    """The first pass of a backend, over blocks that are read ahead."""
    check_backend(backend)
    name = importlib.import_module("indexes.auto_backend").fastest_backend() if backend == "auto" else backend
    family, _, precision = name.partition("-")
    opener = importlib.import_module(STREAMS.get(family, STREAMS["numpy"])).open_stream
    stream: StreamScan = opener(shard, plan, precision)
    return stream


def open_limited(name: str, shard: Shard, limit: MemoryLimit) -> SearchBackend:
    """Open a shard with the backend `name` where it fits well below the limit, else streamed.

    Raises `SearchInputError` like `indexes.registry.open_backend`, and when the limit is too small.
    """
    check_shard(shard)
    plan = limit.plan(shard.name, shard.dim)
    in_memory = shard.rows * shard.dim * IN_MEMORY_BYTES
    if in_memory > IN_MEMORY_SHARE * max(0, limit.left() - plan.scratch(shard.dim)):
        return open_streamed(shard, plan, name)
    plan = limit.plan(shard.name, shard.dim, in_memory)
    return open_backend(name, shard, block_rows=plan.block_rows, query_block=plan.query_block)
