"""The FAISS backend: a flat inner-product index lists candidates, which are then certified and scored
exactly.

FAISS lists the k + `SLACK` best by its own float32 scores. Listed rows are scored exactly, the best first,
until what is left is further than the bound below the k-th best exact score. No unlisted row can belong to
it either when the exact k-th score is above FAISS's last listed score plus the bound, for its approximate
score is at most the last listed one.

Queries that fail this, and all when the list would be longer than `LONGEST_LIST` (FAISS on a GPU lists at
most 2,048), are scanned block by block like everything that `counts` does (`indexes.certify.BlockScan`).
Asking FAISS again for a longer list would cost as much as that scan, which always ends in an answer: both
are one matrix product with every row.

On a GPU the block scores come from FAISS too. On a CPU they are numpy's matrix products:
`faiss.pairwise_distances` is no more than that for inner products.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from indexes.certify import (
    Best,
    BlockScan,
    Proposer,
    check_excess,
    growth,
    inner_product_bound,
)
from indexes.errors import SearchInputError
from indexes.float32_products import TF32_FORCED, tf32_is_forced
from indexes.kernels import HALVES, improve_from_lists
from indexes.numpy_backend import NumpyProposer
from indexes.protocol import Counts, Shard, Survey, TopK
from indexes.sources import ArrayRows
from indexes.validate import (
    as_stored,
    check_k,
    check_queries,
    check_rows,
    check_shard,
    check_thresholds,
    read_rows,
    row_norms,
)

SLACK = 16
LIST_ENTRIES = 1 << 22  # listed rows held at once: 48 MiB
LONGEST_LIST = 2048
PROBE_SECONDS = 120
UNIT_TENSOR_CORE = 2.0**-22  # `indexes.prepared` says why


@dataclass(frozen=True)
class GpuProbe:
    """Whether FAISS can search on a GPU here, and what was found, in words."""

    usable: bool
    found: str


@cache
def probe_gpu() -> GpuProbe:
    """Search one row on GPU 0, once, in a child process: FAISS ends the process on some CUDA errors."""
    if tf32_is_forced():
        return GpuProbe(False, TF32_FORCED)
    if not hasattr(faiss, "GpuIndexFlatIP"):
        return GpuProbe(False, f"this FAISS ({faiss.__version__}) is a CPU build")
    count = faiss.get_num_gpus()
    if count == 0:
        return GpuProbe(False, f"FAISS {faiss.__version__} can use GPUs but sees none")
    command = [sys.executable, "-c", "from indexes.faiss_backend import search_one_row; search_one_row()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        child = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return GpuProbe(False, f"FAISS sees {count} GPUs, but searching one row took over {PROBE_SECONDS} s")
    if child.returncode == 0:
        return GpuProbe(True, f"FAISS searches on GPU 0 of {count}")
    reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    return GpuProbe(False, f"FAISS sees {count} GPUs, but searching one row failed: {reason}")


def search_one_row() -> None:
    """Search one row on GPU 0; raises when the answer is wrong."""
    device = _GpuDevice(2)
    rows = np.array([[0.6, 0.8]], np.float32)
    device.index.add(rows)
    scores, numbers = device.index.search(rows, 1)
    if numbers[0, 0] != 0 or abs(scores[0, 0] - 1) > 1e-6:
        raise ArithmeticError(f"row {numbers[0, 0]} with score {scores[0, 0]}, expected row 0 with score 1")


class _GpuDevice:
    """GPU 0, an index on it, and block scores; `lock` is held in each call: FAISS allows one at a time."""

    def __init__(self, dim: int, float16: bool = False) -> None:
        self.lock = Lock()
        self.resources = faiss.StandardGpuResources()
        config = faiss.GpuIndexFlatConfig()
        config.useFloat16 = float16
        config.use_cuvs = False
        self.index = faiss.GpuIndexFlatIP(self.resources, dim, config)

    def propose(self, queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Approximate scores, float32 [n, m]."""
        with self.lock:
            scores: NDArray[np.float32] = faiss.pairwise_distance_gpu(
                self.resources, queries, rows, metric=faiss.METRIC_INNER_PRODUCT
            )
        return scores

    def bound(self, queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
        """float64 [n], valid for any order of summation."""
        return inner_product_bound(queries, largest_norm)


@dataclass(frozen=True)
class FaissBackend:
    """A shard in a flat FAISS index. It costs rows x dim x 4 bytes (and the same on the GPU where one is
    used).

    `shard` is what was opened; `scan` searches the index's own float32 rows, so the source is not read again.
    `residue` is the largest norm of what an index in float16 lost of a row, None for one in float32.
    """

    shard: Shard
    index: Any
    rows: NDArray[np.float32]
    scan: BlockScan
    device: str
    lock: AbstractContextManager[Any]
    residue: float | None = None
    name: str = "faiss"

    def topk(self, queries: NDArray[Any], k: int) -> TopK:
        """The k best rows; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        best = Best.start(len(valid), check_k(k, self.shard.rows))
        bounds = self._list_bounds(valid)
        listed = min(best.scores.shape[1] + SLACK, self.shard.rows)
        pending = np.arange(len(valid))
        if listed <= LONGEST_LIST:
            pending = self._certify(best, valid, bounds, listed)
        answer = best.finish()
        if len(pending):
            scanned = self.scan.topk(valid[pending], answer.scores.shape[1])
            answer.scores[pending] = scanned.scores
            answer.rows[pending] = scanned.rows
        return answer

    def counts(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.counts(valid, check_thresholds(thresholds, len(valid)))

    def survey(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.survey(valid, check_thresholds(thresholds, len(valid)))

    def _list_bounds(self, queries: NDArray[np.float32]) -> NDArray[np.float64]:
        """float64 [n]: how far a listed score can be from the exact one."""
        bounds = self.scan.proposer.bound(queries, self.scan.largest_norm)
        if self.residue is None:
            return bounds
        # FAISS rounds the queries too; with q = q' + r and x = x' + s, q.x - q'.x' = q.s + r.x'
        lost = row_norms(queries - queries.astype(np.float16).astype(np.float32))
        low = self.scan.largest_norm + self.residue
        accumulated = growth(queries.shape[1], UNIT_TENSOR_CORE) * (row_norms(queries) + lost) * low
        total: NDArray[np.float64] = bounds + row_norms(queries) * self.residue + lost * low + accumulated
        return total * (1 + 2.0**-20)

    def _certify(
        self, best: Best, queries: NDArray[np.float32], bounds: NDArray[np.float64], listed: int
    ) -> NDArray[np.int64]:
        """Fill `best` from lists of that length; return the numbers of the queries that are not certified."""
        certified = np.empty(len(queries), np.bool_)
        step = max(1, LIST_ENTRIES // listed)
        for first in range(0, len(queries), step):
            part = slice(first, first + step)
            with self.lock:
                approximate, numbers = self.index.search(queries[part], listed)
            found, asked, rows = best.part(part), as_stored(queries[part]), as_stored(self.rows)
            lists = (approximate, numbers, bounds[part])
            check_excess(improve_from_lists(*lists, asked, rows, HALVES, found.scores, found.rows))
            certified[part] = found.scores[:, 0] > approximate[:, -1] + bounds[part]
        return np.flatnonzero(~certified) if listed < self.shard.rows else np.empty(0, np.int64)


def open_shard(shard: Shard, block_rows: int, query_block: int) -> FaissBackend:
    """Read and validate the shard in one pass, into an index on GPU 0 where one answers, else on the CPU."""
    check_shard(shard)
    if probe_gpu().usable:
        return _open_gpu(shard, block_rows, query_block, float16=False)
    index = faiss.IndexFlatIP(shard.dim)
    rows = _index_rows(index, shard.rows)
    largest = _fill(rows, shard, block_rows)
    scan = _scan(NumpyProposer(), shard, rows, largest, block_rows, query_block)
    return FaissBackend(shard, index, rows, scan, "cpu", nullcontext())


def open_float16(shard: Shard, block_rows: int, query_block: int) -> FaissBackend:
    """The same with an index in float16 on GPU 0; raises `SearchInputError` where FAISS has none."""
    check_shard(shard)
    probe = probe_gpu()
    if not probe.usable:
        raise SearchInputError(
            f"backend faiss-float16 needs a GPU that FAISS can use: {probe.found}; use --backend faiss"
        )
    return _open_gpu(shard, block_rows, query_block, float16=True)


def _open_gpu(shard: Shard, block_rows: int, query_block: int, *, float16: bool) -> FaissBackend:
    """Read and validate the shard, and copy it to GPU 0."""
    device = _GpuDevice(shard.dim, float16)
    rows = np.empty((shard.rows, shard.dim), np.float32)
    largest = _fill(rows, shard, block_rows)
    device.index.add(rows)
    residue = _largest_residue(rows, block_rows) if float16 else None
    scan = _scan(device, shard, rows, largest, block_rows, query_block)
    return FaissBackend(shard, device.index, rows, scan, "gpu", device.lock, residue)


def _largest_residue(rows: NDArray[np.float32], block_rows: int) -> float:
    """The largest norm of what rounding to float16 loses of a row (the difference is exact in float32)."""
    blocks = (rows[first : first + block_rows] for first in range(0, len(rows), block_rows))
    return max(float(row_norms(b - b.astype(np.float16).astype(np.float32)).max()) for b in blocks)


def _index_rows(index: Any, rows: int) -> NDArray[np.float32]:
    """Make room for exactly that many rows in a flat index and give a view of its storage, to be filled.

    `index.add` would grow the storage by doubling, and another copy would be needed for scoring. The view
    is valid while the index lives.
    """
    index.codes.resize(rows * index.d * 4)
    index.ntotal = rows
    view: NDArray[np.float32] = faiss.rev_swig_ptr(index.get_xb(), rows * index.d).reshape(rows, index.d)
    return view


def _fill(rows: NDArray[np.float32], shard: Shard, block_rows: int) -> float:
    """Read the shard into `rows`, validated; return the largest norm."""
    largest = 0.0
    for first in range(0, shard.rows, block_rows):
        block = read_rows(shard, first, min(first + block_rows, shard.rows))
        largest = max(largest, float(check_rows(block, f"shard {shard.name!r}", first).max()))
        rows[first : first + len(block)] = block
    return largest


def _scan(
    proposer: Proposer,
    shard: Shard,
    rows: NDArray[np.float32],
    largest_norm: float,
    block_rows: int,
    query_block: int,
) -> BlockScan:
    """A scan of the index's own rows."""
    stored = Shard(shard.name, shard.origin, ArrayRows(rows))
    return BlockScan(proposer, stored, largest_norm, block_rows, query_block)
