"""The torch backend: a low-precision matrix product proposes, a bound certifies, exact scores decide.

On a GPU that torch can use the rows stay there (`indexes.device_scan`), else the pass runs on the processor
(`indexes.host_scan`). The precision is the fastest of those that the device has (`indexes.probe`), or the
one that the backend's name says: the answer is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.certify import TF32_FORCED, tf32_is_forced
from indexes.device_scan import DeviceRows, DeviceScan
from indexes.errors import SearchInputError
from indexes.host_scan import HostScan
from indexes.prepared import PRECISIONS, PreparedRows, prepare_rows
from indexes.probe import fastest_precision
from indexes.protocol import Counts, Rows, Shard, TopK
from indexes.sources import ArrayRows
from indexes.validate import check_k, check_queries, check_rows, check_shard, check_thresholds, read_rows

CPU = torch.device("cpu")


class Scan(Protocol):
    """What does the work: `HostScan` or `DeviceScan`."""

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries."""

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds of validated queries."""


@dataclass(frozen=True)
class TorchBackend:
    """A shard prepared for one device; `precision` and `device` say how the first pass runs.

    Costs the rows in the low precision (2 or 4 bytes a value), on a GPU the rows as they are too, and a copy
    of the rows in memory where the source is not an array already (`indexes.sources.ArrayRows`).
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


@cache
def gpu_trouble() -> str | None:
    """Why torch cannot multiply on GPU 0 here, in words; None when it can. Tried once."""
    if tf32_is_forced():
        return TF32_FORCED
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    try:
        ones = torch.ones(8, 8, device="cuda", dtype=torch.bfloat16)
        result = float((ones @ ones).sum())
    except RuntimeError as error:
        return f"torch {torch.__version__} sees a GPU but cannot use it: {str(error).splitlines()[0]}"
    return None if result == 8.0**3 else f"the GPU computes {result}, expected {8.0**3}"


def open_on(
    device: torch.device, precision: str | None, shard: Shard, block_rows: int, query_block: int
) -> TorchBackend:
    """Read and validate the shard, and prepare it for a device; `precision` None is the fastest there.

    `query_block` is not used: tiles are cut to the cache.
    """
    check_shard(shard)
    chosen = PRECISIONS[precision or fastest_precision(device)]
    rows, norm = read_all(shard, block_rows)
    if device.type == "cpu":
        prepared = prepare_rows(rows, norm, chosen)
        return TorchBackend(shard, HostScan(chosen, partial(_only, prepared)), chosen.name, "cpu")
    placed = DeviceRows.place(prepare_rows(rows, norm, chosen), device)
    return TorchBackend(shard, DeviceScan(chosen, (placed,), device), chosen.name, str(device))


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


def open_shard(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On GPU 0 where torch can use it, else on the processor."""
    device = CPU if gpu_trouble() else torch.device("cuda", 0)
    return open_on(device, None, shard, block_rows, query_block)


def open_cpu(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On the processor, in the fastest precision."""
    return open_on(CPU, None, shard, block_rows, query_block)


def open_cuda(shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    """On GPU 0; raises `SearchInputError` where torch cannot use it."""
    trouble = gpu_trouble()
    if trouble:
        raise SearchInputError(
            f"backend torch-cuda needs a GPU that torch can use: {trouble}; use --backend auto"
        )
    return open_on(torch.device("cuda", 0), None, shard, block_rows, query_block)


def _open_with(precision: str, shard: Shard, block_rows: int, query_block: int) -> TorchBackend:
    device = CPU if gpu_trouble() else torch.device("cuda", 0)
    return open_on(device, precision, shard, block_rows, query_block)


open_bfloat16 = partial(_open_with, "bfloat16")
open_float16 = partial(_open_with, "float16")
open_tf32 = partial(_open_with, "tf32")
open_float32 = partial(_open_with, "float32")
