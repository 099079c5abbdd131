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

Two ways to the same bits: `exact_pairs` evaluates the definition; `exact_block` gets a whole block from one
float64 matrix product whose error bound shows, for nearly every entry, that only one float32 value is
possible, and evaluates the definition for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.protocol import Rows
from indexes.validate import check_dim, check_rows

SCALE_BITS = 62
UNIT_FLOAT64 = 2.0**-53
CHUNK_VALUES = 1 << 18  # products held at once by exact_pairs: 2 MiB of float64, about a core's cache
TILE_VALUES = 1 << 22  # scores held at once by exact_block: 32 MiB of float64


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
    return exact_pairs(queries, rows)


def exact_score_block(queries: Rows, rows: Rows) -> NDArray[np.float32]:
    """Exact scores of all pairs: float32 [n, m] for queries [n, d] and rows [m, d], float32 or float16.

    Raises `SearchInputError` like `exact_scores`. Memory beside the result: at most some 100 MiB plus both
    inputs in float64.
    """
    check_dim(queries, None, "queries")
    check_dim(rows, queries.shape[1], "rows")
    check_rows(queries, "queries")
    check_rows(rows, "rows")
    scores = np.empty((len(queries), len(rows)), np.float32)
    for start, tile in exact_block(queries, rows):
        scores[start : start + len(tile)] = tile
    return scores


def exact_pairs(queries: Rows, rows: Rows) -> NDArray[np.float32]:
    """The definition, for aligned pairs of valid rows: float32 [n]; nothing is checked."""
    count, dim = queries.shape
    scores = np.empty(count, np.float32)
    step = max(1, CHUNK_VALUES // dim)
    for start in range(0, count, step):
        part = slice(start, start + step)
        products = np.multiply(queries[part], rows[part], dtype=np.float64)
        products *= 2.0**SCALE_BITS
        np.rint(products, out=products)
        scores[part] = to_float32(products.astype(np.int64).sum(axis=1))
    return scores


def to_float32(fixed_point: NDArray[np.int64]) -> NDArray[np.float32]:
    """S / 2**62 in float32: the conversion rounds once, the scaling is by a power of two and stays normal."""
    scores: NDArray[np.float32] = fixed_point.astype(np.float32) * np.float32(2.0**-SCALE_BITS)
    return scores


def exact_at(
    queries: Rows, rows: Rows, query_numbers: NDArray[np.int64], row_numbers: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Exact scores of chosen pairs, in bounded memory: float32 [n] for int64 [n] places in both arrays."""
    scores = np.empty(len(query_numbers), np.float32)
    step = max(1, CHUNK_VALUES // queries.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        scores[part] = exact_pairs(queries[query_numbers[part]], rows[row_numbers[part]])
    return scores


def float64_half_width(dim: int) -> float:
    """How far a float64 matrix product can be from S / 2**62, the rounding of an interval's ends included.

    With u = 2**-53, the sum of d exact products is within (d u / (1 - d u)) |q||x| of the true inner
    product in any order, and S / 2**62 within d * 2**-63 (module docstring); |q||x| is below 1.01, the ends
    are rounded by u each.
    """
    gamma = dim * UNIT_FLOAT64 / (1 - dim * UNIT_FLOAT64)
    return gamma * 1.01 + dim * 2.0**-63 + 2.0**-50


def exact_block(queries: Rows, rows: Rows) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Exact scores of all pairs, as tiles (first query, float32 [queries of the tile, rows]); nothing is
    checked.

    A float64 matrix product decides nearly all: where both ends of the interval of `float64_half_width`
    about it round to the same float32, so does S / 2**62, because rounding is monotone. The rest (a few in
    a million; many only where scores are within 1e-9 of zero) are evaluated by definition.
    """
    columns = rows.astype(np.float64).T
    half_width = float64_half_width(queries.shape[1])
    step = max(1, TILE_VALUES // max(1, len(rows)))
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        approximate = part.astype(np.float64) @ columns
        scores = (approximate - half_width).astype(np.float32)
        undecided = np.nonzero(scores != (approximate + half_width).astype(np.float32))
        scores[undecided] = exact_at(part, rows, *undecided)
        yield start, scores
