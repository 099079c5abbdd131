"""Row sources for arrays: in memory, or mapped from a .npy file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.protocol import Rows
from indexes.validate import check_dim


class ArrayRows:
    """Rows of an array [n, dim], float32 or float16; nothing is copied when it is C-contiguous.

    The array must not be changed afterwards: what is handed out are read-only views. A `numpy.memmap` works
    too, and then only the blocks in use are in memory.
    """

    def __init__(self, array: Rows) -> None:
        check_dim(array, None, "rows")
        view = np.ascontiguousarray(array).view()
        view.flags.writeable = False
        self._array: Rows = view

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""
        return self._array.shape[0], self._array.shape[1]

    def read(self, start: int, stop: int) -> Rows:
        """Rows [start, stop), a view."""
        return self._array[start:stop]


def npy_rows(path: Path) -> ArrayRows:
    """The rows of a .npy file, mapped, not read; raises `SearchInputError` when it holds anything else."""
    try:
        array: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SearchInputError(
            f"{path}: cannot be read as a .npy array ({error}); write it with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise SearchInputError(
            f"{path}: an .npz archive, expected one array in a .npy file; write it with numpy.save"
        )
    try:
        return ArrayRows(array)
    except SearchInputError as error:
        raise SearchInputError(f"{path}: {error}") from error
