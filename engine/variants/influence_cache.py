"""Influences between processes: with ``ITRSTRESS_CACHE=DIR`` in the environment they are kept in
``DIR/influence``, one small file an encoder and set of words, so that the next process encodes nothing.

A file holds the SHA-256 of what follows, then the influences, float64, little-endian.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.outputs.own import write_own
from engine.variants.tagging import CACHE_VARIABLE

FOLDER = "influence"
DIGEST_BYTES = 32
STORED = np.dtype("<f8")


def cache_file(fingerprint: str, words: str) -> Path | None:
    """Where the influences of a set of words (its digest) by an encoder are kept; None without a cache."""
    folder = os.environ.get(CACHE_VARIABLE)
    if not folder:
        return None
    name = hashlib.sha256(f"{fingerprint} {words}".encode()).hexdigest()
    return Path(folder) / FOLDER / f"{name}.ei"


def read_cached(file: Path | None, count: int) -> NDArray[np.float64] | None:
    """The `count` influences in a file, or None when there is no such file.

    Raises `InputError` for a file that holds something else.
    """
    if file is None or not file.exists():
        return None
    try:
        if file.stat().st_size != DIGEST_BYTES + count * STORED.itemsize:
            raise ValueError("another size")
        data = file.read_bytes()
        if hashlib.sha256(data[DIGEST_BYTES:]).digest() != data[:DIGEST_BYTES]:
            raise ValueError("another checksum")
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: the cached influences cannot be used ({error}); remove the file") from None
    return np.frombuffer(data[DIGEST_BYTES:], dtype=STORED).astype(np.float64)


def write_cached(file: Path | None, values: NDArray[np.float64]) -> None:
    """Keep influences, if there is a cache. Raises `InputError` when it cannot be written."""
    if file is None:
        return
    data = values.astype(STORED).tobytes()
    write_own(file, lambda temporary: temporary.write_bytes(hashlib.sha256(data).digest() + data))
