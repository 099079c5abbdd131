"""Streamed search with low-precision products by torch: blocks are rounded while others are searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexes.host_scan import HostScan, Work, survey_block
from indexes.prefetch import Prefetch, Span
from indexes.prepared import (
    Precision,
    PreparedQueries,
    PreparedRows,
    prepare_queries,
    prepare_rows,
)
from indexes.protocol import Counts, Shard, Survey, TopK
from indexes.streaming import LARGEST_NORM, spans
from indexes.validate import read_rows


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

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries [n, d]."""
        return HostScan(self.precision, self._blocks).survey(queries, thresholds)

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
        found: Survey,
    ) -> None:
        """Take a block into what was found before it, in place."""
        survey_block(Work.of(self.precision, asked, block), thresholds, found)
