"""Search backends by name. A further one is one function `(shard, block_rows, query_block)` in its module."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping

from indexes.errors import SearchInputError
from indexes.protocol import SearchBackend, Shard

# name -> module:function that opens a shard; imported when the backend is first opened
BACKENDS: Mapping[str, str] = {
    "auto": "indexes.auto_backend:open_shard",
    "faiss": "indexes.faiss_backend:open_shard",
    "faiss-float16": "indexes.faiss_backend:open_float16",
    "numpy": "indexes.numpy_backend:open_shard",
    "torch": "indexes.torch_backend:open_shard",
    "torch-cpu": "indexes.torch_backend:open_cpu",
    "torch-cuda": "indexes.torch_backend:open_cuda",
    "torch-bfloat16": "indexes.torch_backend:open_bfloat16",
    "torch-float16": "indexes.torch_backend:open_float16",
    "torch-tf32": "indexes.torch_backend:open_tf32",
    "torch-float32": "indexes.torch_backend:open_float32",
}
BLOCK_ROWS = 8192
QUERY_BLOCK = 1024


def open_backend(
    name: str, shard: Shard, *, block_rows: int = BLOCK_ROWS, query_block: int = QUERY_BLOCK
) -> SearchBackend:
    """Validate a shard and make it searchable; "auto" is the fastest exact backend of this machine.

    `block_rows` and `query_block` bound the memory of a call (see `indexes.certify.BlockScan`), never its
    answer. The rows must not change afterwards. Several threads may use one backend at once. Raises
    `SearchInputError` for an unknown name, block sizes below 1, an empty shard, and rows that are not
    L2-normalised.
    """
    check_backend(name)
    for option, value in (("block_rows", block_rows), ("query_block", query_block)):
        if value < 1:
            raise SearchInputError(f"{option} is {value}, expected at least 1")
    module, function = BACKENDS[name].split(":")
    opener: Callable[[Shard, int, int], SearchBackend] = getattr(importlib.import_module(module), function)
    return opener(shard, block_rows, query_block)


def check_backend(name: str) -> None:
    """Raise `SearchInputError` for a name that no backend has, with the nearest one that one has."""
    if name not in BACKENDS:
        nearest = difflib.get_close_matches(name, BACKENDS, n=1, cutoff=0.5)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ";"
        raise SearchInputError(f"unknown search backend {name!r}{hint} known: {', '.join(sorted(BACKENDS))}")
