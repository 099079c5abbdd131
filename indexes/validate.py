"""What can be searched: shapes, dtypes, and rows that are finite and L2-normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.kernels import HALVES, norms_into
from indexes.protocol import Rows, Shard

NORM_TOLERANCE = 1e-3  # |norm - 1|; rounding a normalised row to float16 moves its norm by at most 0.0005
LARGEST_DIM = 1 << 20
LARGEST_SHARD = 1 << 32  # a row number and a score share 64 bits while the best rows are collected


def check_dim(rows: NDArray[Any], dim: int | None, what: str) -> None:
    """Raise `SearchInputError` unless `rows` is float32 or float16 [n, dim]; `dim` None allows any."""
    if not isinstance(rows, np.ndarray) or rows.dtype not in (np.float32, np.float16):
        found = f"dtype {rows.dtype}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise SearchInputError(
            f"{what}: {found}, expected a float32 or float16 array; convert with .astype('float32')"
        )
    if rows.ndim != 2:
        raise SearchInputError(f"{what}: shape {rows.shape}, expected [rows, dim]; one vector is [1, dim]")
    if dim is not None and rows.shape[1] != dim:
        raise SearchInputError(
            f"{what}: dimension {rows.shape[1]}, expected {dim}; are both from the same encoder?"
        )
    if not 1 <= rows.shape[1] <= LARGEST_DIM:
        raise SearchInputError(f"{what}: dimension {rows.shape[1]}, expected 1 to {LARGEST_DIM}")


def row_norms(rows: Rows) -> NDArray[np.float64]:
    """float64 [n]: the Euclidean norm of every row."""
    norms = np.empty(len(rows), np.float64)
    norms_into(as_stored(rows), HALVES, norms)
    return norms


def as_stored(rows: Rows) -> NDArray[Any]:
    """The rows as `indexes.kernels` takes them: C-contiguous and read-only, float16 as its bits in uint16.

    Always read-only, so that each loop is compiled for one kind of array.
    """
    contiguous = np.ascontiguousarray(rows)
    view: NDArray[Any] = contiguous.view(np.uint16) if contiguous.dtype == np.float16 else contiguous.view()
    view.flags.writeable = False
    return view


def check_rows(rows: Rows, what: str, first: int = 0) -> NDArray[np.float64]:
    """Norms of the rows (float64 [n]).

    Raises `SearchInputError` naming the first row that is not L2-normalised; `first` is the number of
    `rows[0]`.
    """
    norms = row_norms(rows)
    bad = np.flatnonzero(~(np.abs(norms - 1) <= NORM_TOLERANCE))
    if len(bad):
        row = int(bad[0])
        raise SearchInputError(
            f"{what}: row {first + row} {_ailment(rows[row], float(norms[row]))}, "
            f"expected norm 1 within {NORM_TOLERANCE}; normalise the rows, or leave this one out"
        )
    return norms


def _ailment(row: NDArray[Any], norm: float) -> str:
    """What is wrong with a row, in words."""
    if np.isnan(row).any():
        return "holds NaN"
    if np.isinf(row).any():
        return "holds an infinite value"
    return "is all zeros" if not row.any() else f"has norm {norm:.6g}"


def check_queries(queries: NDArray[Any], dim: int) -> NDArray[np.float32]:
    """The queries as C-contiguous float32 [n, dim] (float16 is converted, exactly); raises
    `SearchInputError`."""
    check_dim(queries, dim, "queries")
    check_rows(queries, "queries")
    return np.ascontiguousarray(queries, np.float32)


def check_k(k: int, rows: int) -> int:
    """min(k, rows); raises `SearchInputError` when k is not a positive whole number."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise SearchInputError(f"k is {k!r}, expected a whole number of at least 1")
    return min(int(k), rows)


def check_thresholds(thresholds: NDArray[Any], queries: int) -> NDArray[np.float32]:
    """The thresholds, float32 [queries]; raises `SearchInputError` for another dtype or length, and for
    NaN."""
    if not isinstance(thresholds, np.ndarray) or thresholds.dtype != np.float32:
        found = (
            f"dtype {thresholds.dtype}" if isinstance(thresholds, np.ndarray) else type(thresholds).__name__
        )
        raise SearchInputError(
            f"thresholds: {found}, expected a float32 array: scores as topk or exact_scores give them"
        )
    if thresholds.shape != (queries,):
        raise SearchInputError(
            f"thresholds: shape {thresholds.shape}, expected ({queries},): one for each query"
        )
    if np.isnan(thresholds).any():
        raise SearchInputError(
            f"thresholds: entry {int(np.isnan(thresholds).argmax())} is NaN, expected a score"
        )
    return thresholds


def read_rows(shard: Shard, start: int, stop: int) -> Rows:
    """Rows [start, stop) of a shard, C-contiguous; raises `SearchInputError` for anything else."""
    rows: NDArray[Any] = shard.source.read(start, stop)
    what = f"shard {shard.name!r}"
    check_dim(rows, shard.dim, what)
    if len(rows) != stop - start:
        raise SearchInputError(
            f"{what}: its reader gave {len(rows)} rows for [{start}, {stop}), expected {stop - start}"
        )
    contiguous: Rows = np.ascontiguousarray(rows)
    return contiguous


def check_shard(shard: Shard) -> None:
    """Raise `SearchInputError` for a shard with no rows, or with more than its row numbers can count."""
    if not 1 <= shard.rows < LARGEST_SHARD:
        raise SearchInputError(f"shard {shard.name!r}: {shard.rows} rows, expected 1 to {LARGEST_SHARD - 1}")
