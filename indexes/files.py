"""Row sources for files that need not fit in memory: plain reads of a `.npy` or `.fbin` file.

Not memory maps: the pages of a map count as resident memory, so a limit could not hold, and reading a map
whose file was cut off meanwhile ends the process (SIGBUS) where a plain read gives an error.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError

FBIN_HEADER = np.dtype([("rows", "<u4"), ("dim", "<u4")])
NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
FLOATS = (
    np.dtype("<f2"),
    np.dtype("<f4"),
    np.dtype("<f8"),
    np.dtype(">f2"),
    np.dtype(">f4"),
    np.dtype(">f8"),
)


class FileRows:
    """Rows [n, dim] that lie one after the other in a file, from a byte offset on.

    A `RowSource` where the rows are L2-normalised float32 or float16. Any number of threads may read at once.
    A file that is replaced keeps its old content here; one that is cut off or written to is an error.
    """

    def __init__(self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self._offset = offset
        self._file = io.FileIO(path)
        self._opened = os.fstat(self._file.fileno())
        expected = offset + shape[0] * shape[1] * dtype.itemsize
        if self._opened.st_size != expected:
            self._file.close()
            raise SearchInputError(
                f"{path}: {self._opened.st_size:,} bytes, its header ({shape[0]:,} rows of {shape[1]:,} "
                f"{dtype.name}) says {expected:,}; is it cut off? copy it again"
            )

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) as stored, in native byte order: a new array [stop - start, dim].

        Raises `SearchInputError` when the file was cut off or written to since it was opened.
        """
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        buffer = rows.reshape(-1).view(np.uint8).data
        position = self._offset + start * self.shape[1] * self.dtype.itemsize
        while len(buffer):
            count = os.preadv(self._file.fileno(), [buffer], position)
            if count == 0:
                break
            buffer, position = buffer[count:], position + count
        self._check_unchanged(start, stop)
        return rows.astype(self.dtype.newbyteorder("="), copy=False)

    def _check_unchanged(self, start: int, stop: int) -> None:
        now = os.fstat(self._file.fileno())
        if (now.st_size, now.st_mtime_ns) == (self._opened.st_size, self._opened.st_mtime_ns):
            return
        how = (
            f"cut off at {now.st_size:,} of {self._opened.st_size:,} bytes"
            if now.st_size < self._opened.st_size
            else "written to"
        )
        raise SearchInputError(
            f"{self.path}: {how} while rows {start} to {stop - 1} were read; "
            "leave the file alone and run again"
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_npy(path: Path) -> FileRows:
    """The rows of a `.npy` file of floats, opened, not read.

    Raises `SearchInputError` for anything else: no file, another format, another kind of number, one that is
    not [rows, dim] in C order, a file that is shorter or longer than its header says.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            read_header = NPY_HEADERS.get(np.lib.format.read_magic(file))
            if read_header is None:
                raise ValueError("a version of the format that numpy writes only for structured arrays")
            shape, fortran_order, dtype = read_header(file)
            offset = file.tell()
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError, TypeError, SyntaxError, RecursionError, MemoryError, TokenError) as error:
        raise SearchInputError(
            f"{path}: not a .npy file of numbers ({error}); write it with numpy.save"
        ) from error
    if dtype not in FLOATS:
        raise SearchInputError(f"{path}: holds {dtype}, expected float16, float32 or float64 rows")
    if len(shape) != 2 or 0 in shape or fortran_order:
        order = " in Fortran order" if fortran_order else ""
        raise SearchInputError(f"{path}: shape {shape}{order}, expected [rows, dim] in C order")
    return FileRows(path, offset, (shape[0], shape[1]), dtype)


def open_fbin(path: Path) -> FileRows:
    """The rows of a `.fbin` file, the format of big-ann-benchmarks: uint32 rows, uint32 dim, float32 rows.

    Raises `SearchInputError` when it is not there, or its size is not what its header says.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.read(FBIN_HEADER.itemsize)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(head) < FBIN_HEADER.itemsize:
        raise SearchInputError(f"{path}: {len(head)} bytes, expected the 8 of an .fbin header and its rows")
    header = np.frombuffer(head, FBIN_HEADER)[0]
    rows, dim = int(header["rows"]), int(header["dim"])
    if 0 in (rows, dim):
        raise SearchInputError(f"{path}: its .fbin header says {rows} rows of {dim}, expected at least one")
    return FileRows(path, FBIN_HEADER.itemsize, (rows, dim), np.dtype("<f4"))


def check_regular(path: Path) -> None:
    """Raise `SearchInputError` for a pipe or a device: opening one may wait for ever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SearchInputError(f"{path}: no regular file; write its content to a file first")


def unreadable(path: Path, error: OSError) -> SearchInputError:
    """The error for a file that cannot be opened."""
    return SearchInputError(f"{path}: cannot be read ({error.strerror or error})")
