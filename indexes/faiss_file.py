"""Flat inner-product indexes of FAISS as files: their header, read and written without FAISS.

The file of an `IndexFlatIP` is a header of 45 bytes and the rows as float32, one after the other. FAISS'
reader takes any kind of index from a file and allocates what the file says; one kind with sizes that fit the
file is all that is let in here, and the rows are read block by block, as of a `.npy` file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexes.errors import SearchInputError
from indexes.files import FileRows, check_regular, unreadable

FLAT_IP = b"IxFI"
INNER_PRODUCT = 0
# faiss/impl/index_write.cpp: fourcc, write_index_header, then the codes as a vector of float32; "unused" are
# two numbers that FAISS writes and ignores
FLAT_HEADER = np.dtype(
    [
        ("fourcc", "S4"),
        ("dim", "<i4"),
        ("rows", "<i8"),
        ("unused", "<i8", (2,)),
        ("is_trained", "u1"),
        ("metric", "<i4"),
        ("floats", "<u8"),
    ]
)
UNUSED = 1 << 20


def flat_header(rows: int, dim: int) -> bytes:
    """The header of a file of `rows` rows of length `dim`, 45 bytes."""
    values = (FLAT_IP, dim, rows, (UNUSED, UNUSED), 1, INNER_PRODUCT, rows * dim)
    return np.array([values], dtype=FLAT_HEADER).tobytes()


def open_flat(path: Path) -> FileRows:
    """The rows of a file of an `IndexFlatIP`, opened, not read.

    Raises `SearchInputError` for any other file or kind of index, sizes that contradict each other, and a
    file that is shorter or longer than its header says.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.read(FLAT_HEADER.itemsize)
    except OSError as error:
        raise unreadable(path, error) from error
    if not head.startswith(b"Ix"):
        raise SearchInputError(f"{path}: no file of a FAISS index; write one with faiss.write_index")
    if len(head) < FLAT_HEADER.itemsize:
        raise SearchInputError(f"{path}: cut off, {len(head)} bytes of a header of {FLAT_HEADER.itemsize}")
    if head[:4] != FLAT_IP:
        kind = head[:4].decode("ascii", "backslashreplace")
        raise SearchInputError(
            f"{path}: a FAISS index of the kind {kind!r}, expected {FLAT_IP.decode()!r}, flat and for inner "
            "products (IndexFlatIP); copy its vectors into one (index.reconstruct_n)"
        )
    header = np.frombuffer(head, FLAT_HEADER)[0]
    rows, dim, floats = int(header["rows"]), int(header["dim"]), int(header["floats"])
    if rows < 1 or dim < 1 or floats != rows * dim:
        raise SearchInputError(
            f"{path}: its header says {rows:,} rows of {dim:,} in {floats:,} numbers; expected at least one "
            "row, and sizes that agree"
        )
    if int(header["metric"]) != INNER_PRODUCT:
        raise SearchInputError(f"{path}: its metric is {int(header['metric'])}, expected 0 (inner product)")
    return FileRows(path, FLAT_HEADER.itemsize, (rows, dim), np.dtype("<f4"))
