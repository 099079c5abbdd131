"""Products of a few queries with many rows: as fast as the rows come out of memory.

A matrix library cuts its work for many queries and leaves most of a core idle with one. Here every row is
read once, and its inner products with all the queries are formed while it is in the first cache.

The bound of `indexes.prepared` holds: values are widened to float32, which is exact, and products of two
bfloat16 values are exact in it; the sum is formed in float32, in whatever order vectors give, with every
rounding to nearest (2**-24, where the bound allows for 2**-22 in low precisions and takes 2**-24 for
float32); the result is stored in float32 without another rounding.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from indexes.kernels import by_type, compiled

FEW = 4  # with more, a matrix product is faster
FEW_BYTES = 4  # of a score


def fits_few(queries: torch.Tensor) -> bool:
    """Whether there is a loop for low queries: at most `FEW` of them, not in float16."""
    return len(queries) <= FEW and queries.dtype in (torch.bfloat16, torch.float32)


def few_products(queries: torch.Tensor, rows: torch.Tensor) -> NDArray[np.float32]:
    """Approximate scores, float32 [n, m], of low queries that fit (`fits_few`) and rows of one dtype."""
    scores = np.empty((len(queries), len(rows)), np.float32)
    bits = rows.view(torch.int16).numpy().view(np.uint16) if rows.dtype == torch.bfloat16 else rows.numpy()
    _products_into(bits, queries.float().numpy(), scores)
    return scores


def _widened(value: Any) -> Any:
    """A value as float32: itself, or that of bfloat16 bits."""
    raise NotImplementedError("compiled code only")


@by_type(_widened)
def _widened_of_type(value: Any) -> Any:
    if value == numba.types.float32:

        def keep(value: Any) -> Any:
            return value

        return keep

    def widen(value: Any) -> Any:
        return np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)

    return widen


def _sum_of_products(rows: Any, queries: Any, scores: Any) -> None:
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(queries)):
            query = queries[j]
            total = np.float32(0)
            for c in range(len(row)):
                total += query[c] * _widened(row[c])
            scores[j, i] = total


# sums in any order, multiplied and added in one step: without that no vector could be used
_products_into = compiled(_sum_of_products, fastmath={"reassoc", "contract", "nsz"})
