"""Embeddings made elsewhere: `.npy` files as one table of rows, read in blocks, normalised in float64."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.inputs import NO_ARRAY, check_regular_file

HASH_ROWS = 8192


@dataclass(frozen=True)
class ArrayFile:
    """One `.npy` file, mapped into memory: float [rows, dim]."""

    path: Path
    rows: NDArray[np.floating[Any]]


@dataclass(frozen=True)
class RowTable:
    """The rows of one or several files, one after the other. All have the same dimension."""

    files: tuple[ArrayFile, ...]

    def __post_init__(self) -> None:
        """Raise `InputError` when the files differ in dimension."""
        for file in self.files:
            if file.rows.shape[1] != self.dim:
                raise InputError(
                    f"{file.path} has {file.rows.shape[1]} dimensions, {self.files[0].path} has {self.dim};"
                    f" expected rows of one model"
                )

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """int64 [files]: the row after the last of each file."""
        return np.cumsum([len(file.rows) for file in self.files], dtype=np.int64)

    @property
    def dim(self) -> int:
        """Length of a row."""
        return int(self.files[0].rows.shape[1])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def place(self, row: int) -> str:
        """File and row in the file, for an error line."""
        number = int(np.searchsorted(self.ends, row, side="right"))
        return f"{self.files[number].path} row {row - int(self.ends[number]) + len(self.files[number].rows)}"

    def normalised(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 [len(rows), dim]: the rows divided by their length.

        Raises `InputError` naming the file and row of one that has NaN or infinite values or is zero.
        """
        return normalise(self._take(rows), lambda row: self.place(int(rows[row])))

    def _take(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        taken = np.empty((len(rows), self.dim), dtype=np.float64)
        numbers = np.searchsorted(self.ends, rows, side="right")
        for number in np.unique(numbers):
            file, chosen = self.files[number], numbers == number
            taken[chosen] = file.rows[rows[chosen] - (int(self.ends[number]) - len(file.rows))]
        return taken


def normalise(rows: NDArray[np.float64], place: Callable[[int], str]) -> NDArray[np.float64]:
    """float64 [n, dim]: the rows divided by their length; `rows` are changed.

    Raises `InputError` for a row that has NaN or infinite values or is zero; `place` names it.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(largest[:, 0]) | (largest[:, 0] == 0))
    if len(bad):
        values = "only zeros" if largest[bad[0], 0] == 0 else "NaN or infinite values"
        raise InputError(f"{place(int(bad[0]))} has {values}; expected a finite vector with a direction")
    rows /= largest  # so that squares neither overflow nor vanish
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def open_array(path: str | Path) -> ArrayFile:
    """Map a `.npy` file of float16, float32 or float64 rows.

    Raises `InputError` for a file that is not there, no `.npy`, cut off, made of pickled objects, not float,
    or not 2-D.
    """
    path = Path(path)
    check_regular_file(path, "a .npy file of embeddings")
    try:
        rows = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except NO_ARRAY as error:
        raise InputError(
            f"{path} is not a whole .npy file of numbers (cut off, or another format): {error}"
        ) from error
    if rows.dtype.kind != "f" or rows.dtype.itemsize > 8:
        raise InputError(f"{path} holds {rows.dtype}, expected float16, float32 or float64 embeddings")
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{path} has shape {rows.shape}, expected (rows, dimensions)")
    return ArrayFile(path, rows)


def open_table(path: str | Path) -> RowTable:
    """The rows of one `.npy` file. Errors as `open_array`."""
    return RowTable((open_array(path),))


def fingerprint_arrays(model: str, tables: Sequence[tuple[str, RowTable]]) -> str:
    """SHA-256 (hex) of the model's name and of role, dtype, shape and bytes of every array."""
    digest = hashlib.sha256(repr(("imported", model)).encode())
    for role, table in tables:
        for file in table.files:
            digest.update(repr((role, file.rows.dtype.str, file.rows.shape)).encode())
            for start in range(0, len(file.rows), HASH_ROWS):
                digest.update(np.ascontiguousarray(file.rows[start : start + HASH_ROWS]).view(np.uint8).data)
    return digest.hexdigest()
