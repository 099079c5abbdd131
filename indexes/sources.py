"""Row sources for arrays, and for a part of another source."""

from __future__ import annotations

import numpy as np

from indexes.protocol import Rows, RowSource
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


class RowRange:
    """Rows [first, stop) of another source, counted from 0."""

    def __init__(self, source: RowSource, first: int, stop: int) -> None:
        self._source, self._first, self._rows = source, first, stop - first

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""
        return self._rows, self._source.shape[1]

    def read(self, start: int, stop: int) -> Rows:
        """Rows [start, stop) of the range; IndexError outside of it."""
        if not 0 <= start <= stop <= self._rows:
            raise IndexError(f"rows [{start}, {stop}) of a range of {self._rows}")
        return self._source.read(self._first + start, self._first + stop)
