"""What is measured: each contestant opens some rows and answers queries; it runs in a process of its own.

A further one is a function and an entry of `CONTESTANTS`. Functions import their library themselves: a
process holds nothing but what its contestant needs, and FAISS "as shipped" must not see what `indexes` sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
# queries [n, dim] -> rows of the best k, int64 [n, k]; None where the contestant gives no rows
Search = Callable[[Rows], NDArray[np.int64] | None]
QUERY_BLOCK = 1024
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 16, 200, 128
IVF_PROBES = 16


@dataclass(frozen=True)
class Contestant:
    """How it opens (rows, k) -> `Search`; the distribution it needs; whether it claims exact answers.

    `shipped` takes the variables away that tune OpenBLAS. `on_gpu` is for those that use a GPU where there
    is one. `work` names what it does in place of listing the k best.
    """

    open: Callable[[Rows, int], Search]
    package: str | None = None
    exact: bool = True
    shipped: bool = False
    on_gpu: bool = False
    work: str = "topk"


def in_blocks(search: Callable[[Rows], NDArray[Any]]) -> Search:
    """Search `QUERY_BLOCK` queries at a time, where a library would make the whole score matrix."""

    def blocks(queries: Rows) -> NDArray[np.int64]:
        parts = [
            search(queries[start : start + QUERY_BLOCK]) for start in range(0, len(queries), QUERY_BLOCK)
        ]
        return np.concatenate(parts)

    return blocks


def open_ours(backend: str) -> Callable[[Rows, int], Search]:
    """A backend of `indexes`."""

    def opened(rows: Rows, k: int) -> Search:
        from indexes.protocol import Shard
        from indexes.registry import open_backend
        from indexes.sources import ArrayRows

        index = open_backend(backend, Shard("rows", "original", ArrayRows(rows)))
        return lambda queries: index.topk(queries, k).rows

    return opened


def open_counts(backend: str) -> Callable[[Rows, int], Search]:
    """Counts of a backend at the exact score of every query's own caption."""

    def opened(rows: Rows, k: int) -> Search:
        from indexes.exact import exact_scores
        from indexes.protocol import Shard
        from indexes.registry import open_backend
        from indexes.sources import ArrayRows

        index = open_backend(backend, Shard("rows", "original", ArrayRows(rows)))

        def count(queries: Rows) -> None:
            index.counts(queries, exact_scores(queries, rows[np.arange(len(queries)) % len(rows)]))

        return count

    return opened


def open_product(precision: str) -> Callable[[Rows, int], Search]:
    """The matrix product alone, as our scans do it: what no exact search in that precision beats."""

    def opened(rows: Rows, k: int) -> Search:
        from indexes.devices import gpu_trouble

        return multiply_on_host(rows, precision) if gpu_trouble() else multiply_on_gpu(rows, precision)

    return opened


def multiply_on_host(rows: Rows, precision: str) -> Search:
    """Tiles that stay in a core's cache, in one buffer a thread."""
    from functools import partial

    import torch

    from indexes.host_scan import TILE_BYTES, TILE_QUERIES, cut, query_shares
    from indexes.prepared import PRECISIONS
    from indexes.workers import run_tasks, thread_count

    dtype = PRECISIONS[precision].dtype
    right = torch.from_numpy(rows).to(dtype)
    width = TILE_BYTES // (TILE_QUERIES * right.element_size())

    def task(left: torch.Tensor) -> None:
        buffer = torch.empty(len(left) * width, dtype=dtype)
        for columns in cut(len(right), width):
            part = right[columns]
            torch.matmul(left, part.T, out=buffer[: len(left) * len(part)].view(len(left), len(part)))

    def multiply(queries: Rows) -> None:
        left = torch.from_numpy(queries).to(dtype)
        parts = query_shares(len(left), thread_count())
        run_tasks([partial(task, left[part]) for part in parts], thread_count())

    return multiply


def multiply_on_gpu(rows: Rows, precision: str) -> Search:
    """Large tiles with float32 results, queries sent there first; synchronised."""
    import torch

    from indexes.device_scan import TILE_QUERIES, TILE_SCORES
    from indexes.device_tiles import exact_products, product
    from indexes.host_scan import cut
    from indexes.prepared import PRECISIONS

    chosen, device = PRECISIONS[precision], torch.device("cuda", 0)
    right = torch.from_numpy(rows).to(device, chosen.dtype)

    def multiply(queries: Rows) -> None:
        with exact_products(chosen, device):
            for part in cut(len(queries), TILE_QUERIES):
                left = torch.from_numpy(queries[part]).to(device, chosen.dtype)
                for columns in cut(len(right), TILE_SCORES // len(left)):
                    product(left, right[columns], chosen)
            torch.cuda.synchronize(device)

    return multiply


def open_faiss(rows: Rows, k: int) -> Search:
    """`IndexFlatIP`."""
    import faiss

    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return lambda queries: np.asarray(index.search(queries, k)[1], np.int64)


def open_faiss_tuned(rows: Rows, k: int) -> Search:
    """`IndexFlatIP` with the OpenBLAS kernel that fits the processor."""
    import indexes  # noqa: F401 - sets OPENBLAS_CORETYPE before FAISS loads its library

    return open_faiss(rows, k)


def open_faiss_gpu(rows: Rows, k: int) -> Search:
    """`GpuIndexFlatIP` in float32."""
    import faiss

    index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), rows.shape[1])
    index.add(rows)
    return lambda queries: np.asarray(index.search(queries, k)[1], np.int64)


def open_faiss_hnsw(rows: Rows, k: int) -> Search:
    """FAISS's graph index."""
    import faiss

    import indexes  # noqa: F401

    index = faiss.IndexHNSWFlat(rows.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = HNSW_BUILD, max(HNSW_SEARCH, k)
    index.add(rows)
    return lambda queries: np.asarray(index.search(queries, k)[1], np.int64)


def open_faiss_ivf(rows: Rows, k: int) -> Search:
    """FAISS's inverted lists, about 4 sqrt(n) of them."""
    import faiss

    import indexes  # noqa: F401

    lists = max(1, min(int(4 * len(rows) ** 0.5), len(rows) // 39))  # FAISS wants 39 rows a list to train
    quantizer = faiss.IndexFlatIP(rows.shape[1])
    index = faiss.IndexIVFFlat(quantizer, rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.train(rows)
    index.add(rows)
    index.nprobe = IVF_PROBES

    def search(queries: Rows) -> NDArray[np.int64]:
        assert quantizer.ntotal == lists  # keeps the quantizer alive beside the index
        return np.asarray(index.search(queries, k)[1], np.int64)

    return search


def open_torch(rows: Rows, k: int) -> Search:
    """float32 matmul, then topk."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    right = torch.from_numpy(rows).to(device).T

    def search(queries: Rows) -> NDArray[np.int64]:
        found: NDArray[np.int64] = (
            (torch.from_numpy(queries).to(device) @ right).topk(k, dim=1).indices.cpu().numpy()
        )
        return found

    return in_blocks(search)


def open_numpy(rows: Rows, k: int) -> Search:
    """float32 matmul, argpartition, and a sort of the k."""

    def search(queries: Rows) -> NDArray[np.int64]:
        scores = queries @ rows.T
        best = np.argpartition(scores, len(rows) - k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        found: NDArray[np.int64] = np.take_along_axis(best, order, axis=1)
        return found

    return in_blocks(search)


def open_usearch(rows: Rows, k: int) -> Search:
    """`usearch.index.search(exact=True)`."""
    from usearch.index import MetricKind, search

    def exact(queries: Rows) -> NDArray[np.int64]:
        keys = search(rows, queries, k, MetricKind.IP, exact=True).keys
        return np.asarray(keys, np.int64).reshape(len(queries), k)

    return exact


def open_hnswlib(rows: Rows, k: int) -> Search:
    """hnswlib's graph index."""
    import hnswlib

    index = hnswlib.Index("ip", rows.shape[1])
    index.init_index(len(rows), HNSW_BUILD, HNSW_LINKS, 1)
    index.add_items(rows)
    index.set_ef(max(HNSW_SEARCH, k))
    return lambda queries: np.asarray(index.knn_query(queries, k)[0], np.int64)


def open_clip_benchmark(rows: Rows, k: int) -> Search:
    """The recall of `clip_benchmark.metrics.zeroshot_retrieval`, from vectors to recall; it lists no rows."""
    import torch
    from clip_benchmark.metrics.zeroshot_retrieval import batchify, recall_at_k

    right = torch.from_numpy(rows).T

    def recall(queries: Rows) -> None:
        for start in range(0, len(queries), QUERY_BLOCK):
            scores = torch.from_numpy(queries[start : start + QUERY_BLOCK]) @ right
            owner = torch.arange(scores.shape[1]) % len(queries)
            positive = owner[None, :] == torch.arange(start, start + len(scores))[:, None]
            batchify(recall_at_k, scores, positive, 64, "cpu", k=k)  # its one-hot is [64, k, rows] of int64

    return recall


CONTESTANTS: Mapping[str, Contestant] = {
    "itrstress": Contestant(open_ours("auto"), on_gpu=True),
    "itrstress_counts": Contestant(open_counts("auto"), work="counts"),
    "faiss_as_shipped": Contestant(open_faiss, shipped=True),
    "faiss_tuned": Contestant(open_faiss_tuned),
    "torch": Contestant(open_torch, on_gpu=True),
    "numpy": Contestant(open_numpy),
    "usearch": Contestant(open_usearch, "usearch"),
    "faiss_hnsw": Contestant(open_faiss_hnsw, exact=False),
    "faiss_ivf": Contestant(open_faiss_ivf, exact=False),
    "hnswlib": Contestant(open_hnswlib, "hnswlib", exact=False),
    "clip_benchmark": Contestant(open_clip_benchmark, "clip-benchmark", work="recall"),
    "faiss_gpu": Contestant(open_faiss_gpu, on_gpu=True),
    **{
        f"itrstress_{name.replace('-', '_')}": Contestant(open_ours(name), on_gpu=name.startswith("torch"))
        for name in ("numpy", "faiss", "torch-bfloat16", "torch-float32")
    },
    **{f"product_{name}": Contestant(open_product(name), work="product") for name in ("bfloat16", "float32")},
}
