"""Raw bytes of a store: regions of the file, reading and writing them whole, checksums of rows, texts.

After a store is laid out, nothing but these functions touches it: HDF5 itself is used to create the structure
of a new file and to find where its datasets lie, never to change a file in place.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.store.schema import BYTES, CHECKSUMS, ROW_NUMBERS

COPY_BYTES = 8 << 20

flush = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class Region:
    """Where a contiguous dataset lies: byte offset from the start of the file, dtype, shape."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return prod(self.shape[1:]) * self.dtype.itemsize


def read_rows(file: int, region: Region, start: int, stop: int) -> NDArray[Any]:
    """Rows [start, stop) as a new array; bytes beyond the end of the file read as zero."""
    rows = np.zeros((stop - start, *region.shape[1:]), dtype=region.dtype)
    buffer = rows.reshape(-1).view(np.uint8).data
    offset = region.offset + start * region.row_bytes
    while len(buffer):
        count = os.preadv(file, [buffer], offset)
        if count == 0:
            break
        buffer, offset = buffer[count:], offset + count
    return rows


def read_region(file: int, region: Region) -> NDArray[Any]:
    """The whole dataset as a new array."""
    return read_rows(file, region, 0, region.shape[0])


def write_rows(file: int, region: Region, start: int, rows: NDArray[Any]) -> None:
    """Write rows from row `start` on; all bytes are handed to the system when it returns. Raises OSError."""
    buffer = np.ascontiguousarray(rows, dtype=region.dtype).reshape(-1).view(np.uint8).data
    offset = region.offset + start * region.row_bytes
    while len(buffer):
        count = os.pwrite(file, buffer, offset)
        buffer, offset = buffer[count:], offset + count


def copy_region(source: int, region: Region, target: int, offset: int) -> None:
    """Copy the bytes of a region to `offset` of another file."""
    remaining, position = region.nbytes, region.offset
    while remaining:
        block = os.pread(source, min(COPY_BYTES, remaining), position)
        if not block:
            raise OSError(f"the file ended {remaining:,} bytes early while it was copied")
        written = os.pwrite(target, block, offset)
        remaining, position, offset = remaining - written, position + written, offset + written


def row_checksums(rows: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """uint32 [n]: CRC-32 of the bytes of every row, started at its row number so that exchanged rows show."""
    table = np.ascontiguousarray(rows).view(np.uint8)
    checksums = (zlib.crc32(row.data, int(number)) for row, number in zip(table, numbers, strict=True))
    return np.fromiter(checksums, dtype=CHECKSUMS, count=len(rows))


def runs(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Positions [start, stop) of the longest stretches of consecutive row numbers in `numbers`."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    edges = [0, *breaks.tolist(), len(numbers)]
    return ((start, stop) for start, stop in pairwise(edges) if stop > start)


def pack_texts(what: str, texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The UTF-8 bytes of all texts one after the other, and the end of each (int64 [n]).

    Raises `InputError` naming the first text that has no UTF-8 form (half of a surrogate pair).
    """
    encoded = []
    for row, text in enumerate(texts):
        try:
            encoded.append(text.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"{what} row {row}: the character {text[error.start]!r} is not valid Unicode"
            ) from error
    ends = np.cumsum([len(text) for text in encoded], dtype=ROW_NUMBERS)
    return np.frombuffer(b"".join(encoded), dtype=BYTES), ends


def unpack_texts(packed: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[str, ...]:
    """What `pack_texts` packed. Raises ValueError when the ends do not fit or the bytes are not UTF-8."""
    starts = np.concatenate([np.zeros(1, dtype=ROW_NUMBERS), ends])[: len(ends)]
    if np.any(ends < starts) or (len(ends) and (int(ends[-1]) != len(packed) or int(ends[0]) < 0)):
        raise ValueError("the ends of the texts do not fit their bytes")
    whole = packed.tobytes()
    return tuple(whole[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
