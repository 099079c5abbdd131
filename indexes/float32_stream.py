"""Streamed search with float32 products by numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexes.certify import BlockScan
from indexes.memory import BlockPlan
from indexes.numpy_backend import NumpyProposer
from indexes.prefetch import Prefetch, Span
from indexes.protocol import Shard, Survey
from indexes.streaming import LARGEST_NORM, spans
from indexes.validate import read_rows


@dataclass(frozen=True)
class Float32Stream(BlockScan):
    """A `BlockScan` whose blocks, float32 [m, d], are read ahead by a thread."""

    def _row_blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        with self.prefetch(spans(self.shard.rows, self.block_rows)) as blocks:
            for (first, _), rows in blocks:
                yield first, rows

    def prefetch(self, wanted: Sequence[Span]) -> Prefetch[NDArray[np.float32]]:
        """The rows of some spans, read and widened ahead."""
        return Prefetch(self._read, wanted)

    def _read(self, start: int, stop: int) -> NDArray[np.float32]:
        return read_rows(self.shard, start, stop).astype(np.float32, copy=False)

    def ask(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The queries and their bounds."""
        return queries, self.proposer.bound(queries, self.largest_norm)

    def see(
        self,
        asked: tuple[NDArray[np.float32], NDArray[np.float64]],
        block: NDArray[np.float32],
        first: int,
        thresholds: NDArray[np.float32],
        found: Survey,
    ) -> None:
        """Take a block into what was found before it, in place."""
        for part, tile in self.tiles(*asked, first, block):
            tile.survey(found.part(part), thresholds[part])


def open_stream(shard: Shard, plan: BlockPlan, precision: str) -> Float32Stream:
    """A shard whose source validates its rows; there is one precision."""
    return Float32Stream(NumpyProposer(), shard, LARGEST_NORM, plan.block_rows, plan.query_block)
