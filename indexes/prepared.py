"""Vectors rounded for a fast first pass, and the bound of that pass.

**Centering.** For any fixed vector m, q.x = q.m + q.(x - m): taking m off every row moves all scores of a
query by the same q.m, so it changes no ranking, and a threshold moves along. With m near the mean of the
rows, x - m is shorter (embeddings of one model share a large mean), and every error below shrinks with it. m
is the mean of an even sample of the rows; whatever it is, only the size of the bound depends on it.

**The bound.** Write q = q' + r, with q' the query in the low precision and r what was lost; x - m = x' + s
likewise. Then

    q.x - q.m - q'.x' = q.s + r.x'

so by Cauchy-Schwarz the product q'.x' alone is within |q||s| + |r||x'| of the centred score. |r|, |s| and
|x'| are computed in float64 from the values at hand, not assumed from the format: subnormal numbers, values
that happen to be representable and the rounding of x - m itself are all in them.

What the matrix library returns, a, differs from q'.x' by its accumulation. Products of two bfloat16, float16
or TF32 values are exact in float32. If every addition rounds with relative error u, each term passes through
at most d of them, and |a - q'.x'| <= g |q'||x'| with g = d u / (1 - d u) (`indexes.certify` has the proof;
it also covers products that are rounded). Tensor cores do not round every addition: they shift a group of b
products and the accumulator to the largest exponent among them, cut off what lies below 24 bits, and add.
Cut off is at most 2**-23 of the largest term for each of the b + 1 terms, so at most (b + 1) 2**-23 of the
sum of sizes in a group, and over all d/b groups at most (d + d/b) 2**-23 <= d 2**-22 of sum |q'_i x'_i|
(to first order; the rest is in g). u = 2**-22 therefore covers rounding to nearest, cutting off and such
groups of any size; for float32 it is 2**-24.

The result is stored in float32, where the last rounding is one of those counted, or in bfloat16, where
`indexes.kernels` compares it with limits rounded to the safe side, which needs no allowance. float16 results
gain 2**-10 |q'||x'| + 2**-24. q.m is computed in float64, with an error below 2**-40 |q||m|. The exact score
is within u32 |q||x| + d 2**-62 of q.x, and underflow adds less than d 2**-122 (both as in `indexes.certify`):

    B(q) = |q| max|s| + |r| max|x'| + (g + o) |q'| max|x'| + 2**-24 |q| max|x| + 2**-40 |q||m| + tiny

times 1 + 2**-20 for the float64 arithmetic of norms and bound. For bfloat16 and d = 512 it is near 0.003.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.certify import UNIT_FLOAT32, growth
from indexes.kernels import HALVES, center_products_into, rounding_norms_into
from indexes.protocol import Rows
from indexes.validate import as_stored, row_norms
from indexes.workers import run_tasks, thread_count

CHUNK = 1024  # rows rounded at once: they stay in a core's cache
SAMPLE = 4096  # rows whose mean is taken off

Result = TypeVar("Result")


@dataclass(frozen=True)
class Precision:
    """A format of a first pass: how values are stored, and the units of the bound."""

    name: str
    dtype: torch.dtype
    accumulation: float
    output: float = 0.0
    underflow: float = 0.0

    def lower(self, values: NDArray[np.float32]) -> torch.Tensor:
        """float32 [n, d] in this precision, rounded to nearest; TF32 is float32 with 13 bits cleared."""
        tensor = torch.from_numpy(values)
        if self.name != "tf32":
            return tensor.to(self.dtype)
        bits = tensor.view(torch.int32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("bfloat16", torch.bfloat16, 2.0**-22),
        Precision("float16", torch.float16, 2.0**-22, output=2.0**-10, underflow=2.0**-24),
        Precision("tf32", torch.float32, 2.0**-22),
        Precision("float32", torch.float32, UNIT_FLOAT32),
    )
}


@dataclass(frozen=True)
class PreparedRows:
    """Consecutive rows of a shard, ready for a first pass.

    `stored` [m, d] as `indexes.validate.as_stored` gives them, `low` [m, d] the centred rows in the low
    precision, `center` float32 [d]; the largest |s|, |x'| and |x| of the bound.
    """

    first: int
    stored: NDArray[np.float32] | NDArray[np.uint16]
    low: torch.Tensor
    center: NDArray[np.float32]
    residue: float
    low_norm: float
    norm: float

    def __len__(self) -> int:
        return len(self.stored)


@dataclass(frozen=True)
class PreparedQueries:
    """Queries, ready for a first pass: float32 and low [n, d]; |q|, |r| and |q'|, float64 [n]."""

    stored: NDArray[np.float32]
    low: torch.Tensor
    norms: NDArray[np.float64]
    residues: NDArray[np.float64]
    low_norms: NDArray[np.float64]

    def offsets(self, rows: PreparedRows) -> NDArray[np.float64]:
        """float64 [n]: q.m, what a score of the first pass lacks."""
        offsets, center = np.empty(len(self.stored)), rows.center.astype(np.float64)
        in_chunks(len(offsets), lambda part: center_products_into(self.stored[part], center, offsets[part]))
        return offsets


def bound(queries: PreparedQueries, rows: PreparedRows, precision: Precision) -> NDArray[np.float64]:
    """float64 [n]: B of the module docstring, the rounding of a bfloat16 result left out."""
    dim = queries.stored.shape[1]
    center = float(np.linalg.norm(rows.center.astype(np.float64)))
    accumulated = (growth(dim, precision.accumulation) + precision.output) * queries.low_norms * rows.low_norm
    rounded = queries.norms * rows.residue + queries.residues * rows.low_norm
    exact = queries.norms * (UNIT_FLOAT32 * rows.norm + 2.0**-40 * center)
    tiny = dim * (2.0**-62 + 2.0**-122) + precision.underflow
    total: NDArray[np.float64] = (rounded + accumulated + exact + tiny) * (1 + 2.0**-20)
    return total


def prepare_queries(queries: NDArray[np.float32], precision: Precision) -> PreparedQueries:
    """Round validated queries [n, d]."""
    prepared = PreparedQueries(
        as_stored(queries),
        torch.empty(queries.shape, dtype=precision.dtype),
        *(np.empty(len(queries)) for _ in range(3)),
    )
    nothing = np.zeros(queries.shape[1], np.float32)

    def fill(part: slice) -> None:
        prepared.low[part] = low = precision.lower(queries[part])
        prepared.norms[part] = row_norms(queries[part])
        found = prepared.residues[part], prepared.low_norms[part]
        rounding_norms_into(prepared.stored[part], nothing, _float32(low), HALVES, *found)

    in_chunks(len(queries), fill)
    return prepared


def prepare_rows(rows: Rows, norm: float, precision: Precision, first: int = 0) -> PreparedRows:
    """Centre and round validated rows [m, d], m >= 1, C-contiguous, the largest norm being `norm`."""
    sample = rows[:: -(-len(rows) // SAMPLE)]
    center = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    low = torch.empty(rows.shape, dtype=precision.dtype)
    found = in_chunks(len(rows), partial(_round_chunk, rows, center, precision, low))
    residues, low_norms = zip(*found, strict=True)
    return PreparedRows(first, as_stored(rows), low, center, max(residues), max(low_norms), norm)


def _round_chunk(
    rows: Rows, center: NDArray[np.float32], precision: Precision, low: torch.Tensor, part: slice
) -> tuple[float, float]:
    """Fill a chunk of `low`; the largest |s| and |x'| in it."""
    chunk = rows[part]
    low[part] = rounded = precision.lower(np.subtract(chunk, center, dtype=np.float32))
    residues, low_norms = np.empty(len(chunk)), np.empty(len(chunk))
    rounding_norms_into(as_stored(chunk), center, _float32(rounded), HALVES, residues, low_norms)
    return float(residues.max()), float(low_norms.max())


def in_chunks(count: int, work: Callable[[slice], Result]) -> list[Result]:
    """What `work` gives for [0, count), chunk by chunk and shared by the threads."""
    parts = (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))
    return run_tasks([partial(work, part) for part in parts], thread_count())


def _float32(low: torch.Tensor) -> NDArray[np.float32]:
    values: NDArray[np.float32] = low.float().numpy()
    return values
