"""The torch backend: a low-precision matrix product proposes, a bound certifies, exact scores decide.

On GPUs that torch can use the rows stay there (`indexes.device_scan`), shared out where there are several
(`indexes.devices`), and what does not fit is streamed (`indexes.device_stream`); else the pass runs on the
processor (`indexes.host_scan`). The precision is the fastest of those that the device has (`indexes.probe`),
or the one that the backend's name says: the answer is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.device_scan import DeviceScan
from indexes.device_stream import DeviceStream
from indexes.device_tiles import DeviceRows
from indexes.devices import (
    CPU,
    SHARE_ROWS,
    Scan,
    Share,
    SharedScan,
    fits_on,
    gpu_trouble,
    share_out,
    usable_gpus,
)
from indexes.errors import SearchInputError
from indexes.float32_products import host_rounding
from indexes.host_scan import HostScan
from indexes.low_precision_stream import LowPrecisionStream
from indexes.memory import BlockPlan
from indexes.prepared import PRECISIONS, Precision, PreparedRows, prepare_rows
from indexes.probe import fastest_precision
from indexes.protocol import Counts, Rows, Shard, Survey, TopK
from indexes.sources import ArrayRows, RowRange
from indexes.streaming import LARGEST_NORM, CheckedRows, StreamScan, spans
from indexes.validate import check_k, check_queries, check_rows, check_shard, check_thresholds, read_rows

DEVICE_BLOCK = 1 << 16  # rows placed or streamed at once: some tiles of a GPU
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TorchBackend:
    """A shard prepared for its devices; `precision` and `device` say how the first pass runs.

    Costs the rows in the low precision (2 or 4 bytes a value). On a processor that is beside a copy of the
    rows in memory, where the source is not an array already (`indexes.sources.ArrayRows`); on a GPU it is
    there, with the rows as they are, and nothing stays in memory here.
    """

    shard: Shard
    scan: Scan
    precision: str
    device: str
    name: str = "torch"

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


# ---------------------------------------------------------------- on the processor


def open_on_host(precision: str | None, shard: Shard, block_rows: int) -> TorchBackend:
    """Read and validate the shard, and prepare it; `precision` None is the fastest."""
    check_shard(shard)
    chosen = host_precision(precision)
    rows, norm = read_all(shard, block_rows)
    prepared = prepare_rows(rows, norm, chosen)
    return TorchBackend(shard, HostScan(chosen, partial(_only, prepared)), chosen.name, "cpu")


def host_precision(name: str | None) -> Precision:
    """That of a pass on the processor, None being the fastest; `SearchInputError` where it is not kept."""
    chosen = PRECISIONS[name or fastest_precision(CPU)]
    trouble = host_rounding() if chosen.dtype == torch.float32 else None
    if trouble:
        raise SearchInputError(f"backend torch-{chosen.name}: {trouble}, or use --backend numpy")
    return chosen


def _only(rows: PreparedRows) -> tuple[PreparedRows]:
    return (rows,)


def read_all(shard: Shard, block_rows: int) -> tuple[Rows, float]:
    """All rows, validated, and the largest norm; an array is not copied."""
    in_memory = isinstance(shard.source, ArrayRows)
    first = read_rows(shard, 0, shard.rows if in_memory else min(block_rows, shard.rows))
    rows = first if in_memory else np.empty((shard.rows, shard.dim), first.dtype)
    largest = 0.0
    for start in range(0, shard.rows, block_rows):
        stop = min(start + block_rows, shard.rows)
        block = rows[start:stop] if in_memory else read_rows(shard, start, stop)
        largest = max(largest, float(check_rows(block, f"shard {shard.name!r}", start).max()))
        if not in_memory:
            rows[start:stop] = block
    return rows, largest


# ---------------------------------------------------------------- on other devices


def open_on_devices(
    devices: Sequence[torch.device],
    precision: str | None,
    shard: Shard,
    block_rows: int = DEVICE_BLOCK,
    share_rows: int = SHARE_ROWS,
) -> TorchBackend:
    """Read and validate the shard, and share it out over devices of one kind; `precision` None is their
    fastest.

    A share that does not fit on its device is streamed: its rows are validated when they are searched.
    """
    check_shard(shard)
    chosen = PRECISIONS[precision or fastest_precision(devices[0])]
    value_bytes = chosen.dtype.itemsize + read_rows(shard, 0, 1).dtype.itemsize
    shares, places = [], []
    for device, first, rows in share_out(shard.rows, devices, share_rows):
        checked = CheckedRows(shard.source, f"shard {shard.name!r}")
        part = Shard(shard.name, shard.origin, RowRange(checked, first, first + rows))
        placed = None
        if fits_on(device, rows, shard.dim, value_bytes):
            placed = place(part, chosen, device, block_rows)
        scan: Scan
        if placed is not None:
            scan = DeviceScan(chosen, partial(tuple, placed), device)
        else:
            LOG.warning("%s cannot hold %s: its rows are streamed to it", device, shard.name)
            scan = DeviceStream(LowPrecisionStream(chosen, part, block_rows), device)
        shares.append(Share(first, rows, scan))
        places.append(str(device) if placed is not None else f"{device} streamed")
    whole = shares[0].scan if len(shares) == 1 else SharedScan(tuple(shares))
    return TorchBackend(shard, whole, chosen.name, ", ".join(places))


def place(
    part: Shard, precision: Precision, device: torch.device, block_rows: int
) -> tuple[DeviceRows, ...] | None:
    """Rows of a checked source on a device, block by block; None when its memory ends before they do."""
    placed: list[DeviceRows] = []
    try:
        for start, stop in spans(part.rows, block_rows):
            rows = prepare_rows(read_rows(part, start, stop), LARGEST_NORM, precision, start)
            placed.append(DeviceRows.place(rows, device))
    except torch.OutOfMemoryError:
        return None
    return tuple(placed)


def open_stream(shard: Shard, plan: BlockPlan, precision: str) -> StreamScan:
    """A shard whose source validates its rows, streamed: to GPU 0 where torch can use it, else on the
    processor.

    `precision` is what follows ``torch-`` in the backend's name; a word that is no precision stands for the
    fastest, "cpu" for the processor.
    """
    gpus = () if precision == "cpu" else usable_gpus()
    device = gpus[0] if gpus else CPU
    name = precision if precision in PRECISIONS else None
    chosen = PRECISIONS[name or fastest_precision(device)] if gpus else host_precision(name)
    stream = LowPrecisionStream(chosen, shard, plan.block_rows)
    return DeviceStream(stream, device) if gpus else stream


# ---------------------------------------------------------------- the registry's functions


def open_shard(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On the GPUs that torch can use, else on the processor."""
    return _open_with(None, shard, block_rows, query_block)


def open_cpu(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On the processor, in the fastest precision."""
    return open_on_host(None, shard, block_rows)


def open_cuda(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On the GPUs; raises `SearchInputError` where torch cannot use one."""
    trouble = gpu_trouble()
    if trouble:
        raise SearchInputError(
            f"backend torch-cuda needs a GPU that torch can use: {trouble}; use --backend auto"
        )
    return open_on_devices(usable_gpus(), None, shard)


def _open_with(precision: str | None, shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """`query_block` is not used: tiles are cut to the cache, or to what a GPU scores at once."""
    gpus = usable_gpus()
    return open_on_devices(gpus, precision, shard) if gpus else open_on_host(precision, shard, block_rows)


open_bfloat16 = partial(_open_with, "bfloat16")
open_float16 = partial(_open_with, "float16")
open_tf32 = partial(_open_with, "tf32")
open_float32 = partial(_open_with, "float32")
