"""The backend "auto": the fastest exact one that this machine has."""

from __future__ import annotations

from indexes.devices import gpu_trouble
from indexes.faiss_backend import probe_gpu
from indexes.probe import fastest_on_cpu
from indexes.protocol import SearchBackend, Shard
from indexes.registry import open_backend


def fastest_backend() -> str:
    """Its name: torch on a GPU, FAISS on a GPU that only FAISS can use, else what is fastest on the
    processor."""
    if gpu_trouble() is None:
        return "torch-cuda"
    return "faiss" if probe_gpu().usable else fastest_on_cpu()


def open_shard(shard: Shard, block_rows: int, query_block: int) -> SearchBackend:
    """The shard, opened by the fastest backend."""
    return open_backend(fastest_backend(), shard, block_rows=block_rows, query_block=query_block)
