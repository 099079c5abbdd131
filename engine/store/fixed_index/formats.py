"""Plain files of rows that other programs read and write; a further format is one more entry of `FORMATS`.

All are a header and the rows one after the other, so any of them is written and read block by block.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import InputError
from engine.inputs import check_regular_file
from indexes.faiss_file import flat_header, open_flat
from indexes.files import FBIN_HEADER, FileRows, open_fbin, open_npy


@dataclass(frozen=True)
class RowFormat:
    """A format: what its files end in, the header of float32 rows (rows, dim), and how it is opened."""

    suffixes: tuple[str, ...]
    header: Callable[[int, int], bytes]
    open: Callable[[Path], FileRows]


def npy_header(rows: int, dim: int) -> bytes:
    """The header that numpy.save writes for float32 [rows, dim]."""
    head = io.BytesIO()
    told = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    np.lib.format.write_array_header_1_0(head, told)
    return head.getvalue()


def fbin_header(rows: int, dim: int) -> bytes:
    """The header of big-ann-benchmarks' files."""
    return np.array([(rows, dim)], dtype=FBIN_HEADER).tobytes()


FORMATS: Mapping[str, RowFormat] = {
    "faiss": RowFormat((".faiss", ".index"), flat_header, open_flat),
    "npy": RowFormat((".npy",), npy_header, open_npy),
    "fbin": RowFormat((".fbin",), fbin_header, open_fbin),
}


def format_of(path: Path) -> RowFormat:
    """The format that a file's name says. Raises `InputError` for another name."""
    for one in FORMATS.values():
        if path.suffix.lower() in one.suffixes:
            return one
    known = ", ".join(suffix for one in FORMATS.values() for suffix in one.suffixes)
    raise InputError(f"{path}: its name says no format of rows; expected a file whose name ends in {known}")


def open_rows(path: Path) -> FileRows:
    """The rows of a file, opened, not read.

    Raises `InputError` or `SearchInputError` for a file that is not there, is of another format than its name
    says, holds other things than rows of floats, or is cut off.
    """
    found = format_of(path)
    check_regular_file(path, "a file of rows")
    return found.open(path)
