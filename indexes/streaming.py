"""Exact search in a shard that is not kept in memory: its rows are read ahead in blocks, in every call.

A thread reads, validates and widens the next blocks while the present one is searched
(`indexes.prefetch.Prefetch`). Rows are validated when they are first read: there is no pass over the shard
before the search, and the certificate takes the largest norm that a valid row may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.certify import BlockScan, Proposer
from indexes.memory import BlockPlan, MemoryLimit
from indexes.numpy_backend import NumpyProposer
from indexes.prefetch import Prefetch, Span
from indexes.protocol import Counts, Rows, RowSource, SearchBackend, Shard, TopK
from indexes.registry import BLOCK_ROWS, QUERY_BLOCK, open_backend
from indexes.validate import (
    NORM_TOLERANCE,
    check_k,
    check_queries,
    check_rows,
    check_shard,
    check_thresholds,
    read_rows,
)

LARGEST_NORM = 1 + NORM_TOLERANCE
DEFAULT_PLAN = BlockPlan(BLOCK_ROWS, QUERY_BLOCK)
STREAMED = "streamed"
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


@dataclass(frozen=True)
class StreamScan(BlockScan):
    """A `BlockScan` whose blocks are read ahead by a thread while it is at work."""

    def _row_blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        with self.prefetch(spans(self.shard.rows, self.block_rows)) as blocks:
            for (first, _), rows in blocks:
                yield first, rows

    def prefetch(self, wanted: Sequence[Span]) -> Prefetch[NDArray[np.float32]]:
        """The rows of some spans, float32 [stop - start, dim], read ahead."""
        return Prefetch(self._read, wanted)

    def _read(self, start: int, stop: int) -> NDArray[np.float32]:
        return read_rows(self.shard, start, stop).astype(np.float32, copy=False)


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


def spans(rows: int, step: int, cuts: Sequence[int] = ()) -> list[Span]:
    """[0, rows) cut at the multiples of `step` and at `cuts` (each in [0, rows]), in order."""
    edges = sorted({*range(0, rows, step), *cuts, rows} - {0})
    return list(zip([0, *edges[:-1]], edges, strict=True))


def open_streamed(
    shard: Shard, plan: BlockPlan = DEFAULT_PLAN, proposer: Proposer | None = None
) -> StreamedBackend:
    """Make a shard searchable without reading it. Raises `SearchInputError` for one without rows.

    Rows that are not valid are met, and named, during the search. `proposer` is the first pass (default:
    float32 products by numpy).
    """
    check_shard(shard)
    checked = Shard(shard.name, shard.origin, CheckedRows(shard.source, f"shard {shard.name!r}"))
    scan = StreamScan(proposer or NumpyProposer(), checked, LARGEST_NORM, plan.block_rows, plan.query_block)
    return StreamedBackend(shard, scan)


def open_limited(name: str, shard: Shard, limit: MemoryLimit) -> SearchBackend:
    """Open a shard with the backend `name` where it fits well below the limit, else streamed.

    Raises `SearchInputError` like `indexes.registry.open_backend`, and when the limit is too small.
    """
    check_shard(shard)
    plan = limit.plan(shard.name, shard.dim)
    in_memory = shard.rows * shard.dim * 4
    if in_memory > IN_MEMORY_SHARE * max(0, limit.left() - plan.scratch(shard.dim)):
        return open_streamed(shard, plan)
    plan = limit.plan(shard.name, shard.dim, in_memory)
    return open_backend(name, shard, block_rows=plan.block_rows, query_block=plan.query_block)
