"""Arrays that need not stay in memory: in a file without a name, gone however the process ends."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.store.raw import Region, read_rows, write_rows
from engine.store.structure import storage_error

STORED = np.dtype("<f4")


class Scratch:
    """float32 arrays on the disk, in `folder`, until `close` or until nothing refers to this.

    `what` (such as "states of images") and `remedy` are for the error where there is no room.
    """

    def __init__(self, folder: Path, what: str, remedy: str) -> None:
        """Raises `InputError` where no file can be made."""
        self._where, self._remedy, self._end = folder / f"({what})", remedy, 0
        try:
            file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise storage_error(self._where, 0, error, remedy) from error
        self._number = file.fileno()
        self.close = weakref.finalize(self, file.close)

    def add(self, rows: NDArray[np.float32]) -> Region:
        """Keep an array; says where. Raises `InputError` when there is no room."""
        region = Region(self._end, STORED, rows.shape)
        try:
            write_rows(self._number, region, 0, rows)
        except OSError as error:
            raise storage_error(self._where, region.nbytes, error, self._remedy) from error
        self._end += region.nbytes
        return region

    def read(self, region: Region, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Rows [start, stop) of an array (to its end), a new array float32."""
        last = region.shape[0] if stop is None else stop
        return read_rows(self._number, region, start, last).astype(np.float32, copy=False)
