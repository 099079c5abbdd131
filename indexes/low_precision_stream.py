"""Streamed search with low-precision products by torch: blocks are rounded while others are searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from indexes.certify import add_counts
from indexes.host_scan import TILE_QUERIES, HostScan, Work, cut
from indexes.prefetch import Prefetch, Span
from indexes.prepared import (
    Precision,
    PreparedQueries,
    PreparedRows,
    bound,
    prepare_queries,
    prepare_rows,
)
from indexes.protocol import Counts, Shard, TopK
from indexes.streaming import LARGEST_NORM, Leaders, spans
from indexes.validate import read_rows
from indexes.workers import run_tasks, thread_count


@dataclass(frozen=True)
class LowPrecisionStream:
    """A `indexes.host_scan.HostScan` over blocks that a thread reads and rounds ahead."""

    precision: Precision
    shard: Shard
    block_rows: int

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]."""
        return HostScan(self.precision, self._blocks).topk(queries, k)

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        return HostScan(self.precision, self._blocks).counts(queries, thresholds)

    def _blocks(self) -> Iterator[PreparedRows]:
        with self.prefetch(spans(self.shard.rows, self.block_rows)) as blocks:
            for _, rows in blocks:
                yield rows

    def prefetch(self, wanted: Sequence[Span]) -> Prefetch[PreparedRows]:
        """The rows of some spans, read and rounded ahead."""
        return Prefetch(self.prepare, wanted)

    def prepare(self, start: int, stop: int) -> PreparedRows:
        """Rows [start, stop), read and rounded."""
        return prepare_rows(read_rows(self.shard, start, stop), LARGEST_NORM, self.precision, start)

    def ask(self, queries: NDArray[np.float32]) -> PreparedQueries:
        """The queries, rounded."""
        return prepare_queries(queries, self.precision)

    def see(
        self,
        asked: PreparedQueries,
        block: PreparedRows,
        first: int,
        thresholds: NDArray[np.float32],
        counts: Counts,
        best: Leaders,
    ) -> None:
        """Take a block into counts and leaders, in place; every thread has queries of its own."""
        work = Work(self.precision, asked, block, bound(asked, block, self.precision), asked.offsets(block))
        size = min(-(-len(thresholds) // thread_count()), TILE_QUERIES)
        tasks = [
            partial(
                take_in,
                work,
                part,
                thresholds[part],
                Counts(counts.above[part], counts.tied[part]),
                best.part(part),
            )
            for part in cut(len(thresholds), size)
        ]
        run_tasks(tasks, thread_count())


def take_in(work: Work, part: slice, thresholds: NDArray[np.float32], counts: Counts, best: Leaders) -> None:
    """Some queries over all rows of a block."""
    for columns, tile in work.tiles(part, slice(0, len(work.rows))):
        limits = work.bounds[part], work.offsets[part]
        known = work.queries.stored[part], work.rows.stored[columns]
        add_counts(counts, tile, *limits, *known, thresholds)
        best.take_in(tile, *limits, *known, work.rows.first + columns.start)
