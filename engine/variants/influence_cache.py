"""Influences between processes (`engine.variants.cache`): in ``influence``, one file an encoder and set of
words, so that the next process encodes nothing; float64, little-endian.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.variants.cache import cache_folder, read_cached, unusable, write_cached

FOLDER = "influence"
WHAT = "influences"
STORED = np.dtype("<f8")


def cache_file(fingerprint: str, words: str) -> Path | None:
    """Where the influences of a set of words (its digest) by an encoder are kept; None without a cache."""
    folder = cache_folder()
    name = hashlib.sha256(f"{fingerprint} {words}".encode()).hexdigest()
    return None if folder is None else folder / FOLDER / f"{name}.ei"


def read_influences(file: Path | None, count: int) -> NDArray[np.float64] | None:
    """The `count` influences in a file, or None when there is no such file.

    Raises `InputError` for a file that holds something else.
    """
    data = None if file is None else read_cached(file, WHAT)
    if file is None or data is None:
        return None
    if len(data) != count * STORED.itemsize:
        raise unusable(file, WHAT, "another size")
    return np.frombuffer(data, dtype=STORED).astype(np.float64)


def write_influences(file: Path | None, values: NDArray[np.float64]) -> None:
    """Keep influences, if there is a cache. Raises `InputError` when it cannot be written."""
    if file is not None:
        write_cached(file, values.astype(STORED).tobytes())
