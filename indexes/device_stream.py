"""Streamed search on a device: for shards larger than its memory, or than what a memory limit leaves.

A thread reads and rounds blocks ahead into pinned memory; a block is copied to the device while the one
before it is searched there, so at most two of them are on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.device_scan import DeviceScan
from indexes.device_tiles import DeviceQueries, DeviceRows
from indexes.low_precision_stream import LowPrecisionStream
from indexes.prefetch import Prefetch, Span
from indexes.prepared import PreparedRows
from indexes.protocol import Counts, Survey, TopK
from indexes.streaming import spans


@dataclass(frozen=True)
class DeviceStream:
    """The blocks of a stream, searched on a device instead of the processor."""

    host: LowPrecisionStream
    device: torch.device
    scan: DeviceScan = field(init=False)

    def __post_init__(self) -> None:
        """One scan, so that calls take turns."""
        object.__setattr__(self, "scan", DeviceScan(self.host.precision, self._blocks, self.device))

    @property
    def block_rows(self) -> int:
        """How many rows are read at once."""
        return self.host.block_rows

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]."""
        return self.scan.topk(queries, k)

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        return self.scan.counts(queries, thresholds)

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries [n, d]."""
        return self.scan.survey(queries, thresholds)

    def ask(self, queries: NDArray[np.float32]) -> tuple[DeviceQueries, ...]:
        """The queries, on the device."""
        return self.scan.ask(queries)

    def see(
        self,
        asked: tuple[DeviceQueries, ...],
        block: DeviceRows,
        first: int,
        thresholds: NDArray[np.float32],
        found: Survey,
    ) -> None:
        """Take a block into what was found before it, in place."""
        assert block.prepared.first == first
        self.scan.see(asked, block, thresholds, found)

    def _blocks(self) -> Iterator[DeviceRows]:
        with self.prefetch(spans(self.host.shard.rows, self.block_rows)) as blocks:
            for _, rows in blocks:
                yield rows

    @contextmanager
    def prefetch(self, wanted: Sequence[Span]) -> Iterator[Iterator[tuple[Span, DeviceRows]]]:
        """The rows of some spans: read, rounded and copied ahead."""
        with Prefetch(self._prepare, wanted) as blocks:
            yield upload(blocks, self.device)

    def _prepare(self, start: int, stop: int) -> PreparedRows:
        rows = self.host.prepare(start, stop)
        return pinned(rows) if self.device.type == "cuda" else rows


def pinned(rows: PreparedRows) -> PreparedRows:
    """The same block in memory that a GPU copies from by itself."""
    dtype = torch.float32 if rows.stored.dtype == np.float32 else torch.float16
    stored = torch.empty(rows.stored.shape, dtype=dtype, pin_memory=True).numpy().view(rows.stored.dtype)
    np.copyto(stored, rows.stored)
    return replace(rows, stored=stored, low=rows.low.pin_memory())


def upload(
    blocks: Iterator[tuple[Span, PreparedRows]], device: torch.device
) -> Iterator[tuple[Span, DeviceRows]]:
    """The blocks on the device, each copied there while the one before it is in use."""
    copy = CudaCopy(device) if device.type == "cuda" else HostCopy(device)
    before: tuple[Span, DeviceRows] | None = None
    for span, rows in blocks:
        coming = span, copy.begin(rows)
        if before is not None:
            copy.finish(before[1])
            yield before
        before = coming
    if before is not None:
        copy.finish(before[1])
        yield before


class HostCopy:
    """For a device that is the processor: copied at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def begin(self, rows: PreparedRows) -> DeviceRows:
        """The block, there."""
        return DeviceRows.place(rows, self._device)

    def finish(self, rows: DeviceRows) -> None:
        """Nothing is left to wait for."""


class CudaCopy:
    """Copies on a stream of their own, beside the one that computes; blocks are finished in order."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._copied: list[torch.cuda.Event] = []

    def begin(self, rows: PreparedRows) -> DeviceRows:
        """The block, on its way."""
        with torch.cuda.stream(self._stream):
            placed = DeviceRows.place(rows, self._device)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
        self._copied.append(event)
        return placed

    def finish(self, rows: DeviceRows) -> None:
        """Let what is computed next wait for the block, and its memory for what is computed with it."""
        computing = torch.cuda.current_stream(self._device)
        computing.wait_event(self._copied.pop(0))
        for tensor in (rows.low, rows.stored):
            tensor.record_stream(computing)
