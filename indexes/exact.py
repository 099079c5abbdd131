"""The exact score: what every backend must give, bit for bit.

Definition. For a query q and a row x (float32 or float16, L2-normalised, d components)::

    S(q, x)     = sum over i of  round(q_i * x_i * 2**62)        integers, round half to even
    score(q, x) = float32(S(q, x) / 2**62)                       one rounding, half to even

Why this is literal on any device. The product of two float32 values has at most 48 significant bits, so
float64 holds it exactly, and scaling by a power of two changes only the exponent. Rounding to an integer is
one well-defined operation, and a sum of integers does not depend on its order. No partial sum can overflow
int64: in any order its size is at most sum |q_i x_i| * 2**62 + d/2 <= |q||x| * 2**62 + d/2 < 2**63 for
norms up to 1 + `NORM_TOLERANCE` and d <= 2**23. Hence threads, batches, blocks and shards cannot matter,
and two equal rows have equal scores.

Precision. Every product is rounded by at most 2**-63, so S / 2**62 is within d * 2**-63 (for 1,024
dimensions: 1.1e-16) of the true inner product; then it is rounded once to float32. A score is never -0.0.

The loops are in `indexes.kernels`; one pair of 512 components takes some 50 ns. `indexes.device_scan` has
the same definition in torch, for GPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.kernels import HALVES, exact_block_into, exact_pairs_into
from indexes.protocol import Rows
from indexes.validate import as_stored, check_dim, check_rows


def exact_scores(queries: Rows, rows: Rows) -> NDArray[np.float32]:
    """Exact scores of aligned pairs: float32 [n] for queries [n, d] and rows [n, d], float32 or float16.

    Raises `SearchInputError` for shapes that differ, another dtype, or a row that is not L2-normalised.
    """
    check_dim(queries, None, "queries")
    check_dim(rows, queries.shape[1], "rows")
    if len(queries) != len(rows):
        raise SearchInputError(
            f"exact_scores got {len(queries)} queries and {len(rows)} rows; expected one row for each query"
        )
    check_rows(queries, "queries")
    check_rows(rows, "rows")
    numbers = np.arange(len(queries))
    scores = np.empty(len(queries), np.float32)
    exact_pairs_into(_as_float32(queries), as_stored(rows), numbers, numbers, HALVES, scores)
    return scores


def exact_score_block(queries: Rows, rows: Rows) -> NDArray[np.float32]:
    """Exact scores of all pairs: float32 [n, m] for queries [n, d] and rows [m, d], float32 or float16.

    Raises `SearchInputError` like `exact_scores`. Memory beside the result: the queries in float64.
    """
    check_dim(queries, None, "queries")
    check_dim(rows, queries.shape[1], "rows")
    check_rows(queries, "queries")
    check_rows(rows, "rows")
    scores = np.empty((len(queries), len(rows)), np.float32)
    exact_block_into(_as_float32(queries), as_stored(rows), HALVES, scores)
    return scores


def _as_float32(queries: Rows) -> NDArray[Any]:
    """Queries in float32, an exact conversion."""
    return as_stored(np.ascontiguousarray(queries, np.float32))
