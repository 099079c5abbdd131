"""Tiles of approximate scores on a device, in torch operations: which rows they may hide, and the exact ones.

A tile is reduced once, to the largest score of each group of `GROUP` columns; only the groups that reach the
limit are looked at again. Scores are float32 (the product of low values accumulates and is stored in
float32), so limits are compared after one rounding to the safe side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.certify import check_excess
from indexes.float32_products import float32_products
from indexes.host_scan import cut
from indexes.kernels import SCALE, UNSCALE
from indexes.prepared import Precision, PreparedQueries, PreparedRows, bound, prepare_queries

GROUP = 64
EXACT_VALUES = {"cuda": 1 << 26, "cpu": 1 << 20}  # products held at once by `exact_pairs`, in float64
KEYS = 1 << 24
ROW_MASK = (1 << 32) - 1
UNFILLED_KEY = torch.iinfo(torch.int64).min
FLOAT32_OUTPUT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


@dataclass(frozen=True)
class DeviceRows:
    """A prepared block on a device: `low` padded with zero rows to whole groups, `stored` float32 or float16.

    `prepared` keeps what the bound needs of the block; its values are on the device only.
    """

    prepared: PreparedRows
    rows: int
    low: torch.Tensor
    stored: torch.Tensor

    @classmethod
    def place(cls, rows: PreparedRows, device: torch.device) -> DeviceRows:
        """Copy a block to the device; without waiting where its values are in pinned memory."""
        low = torch.zeros(
            -(-len(rows) // GROUP) * GROUP, rows.low.shape[1], dtype=rows.low.dtype, device=device
        )
        low[: len(rows)].copy_(rows.low, non_blocking=True)
        stored = torch.empty(rows.stored.shape, dtype=as_tensor(rows.stored).dtype, device=device)
        stored.copy_(as_tensor(rows.stored), non_blocking=True)
        kept = replace(rows, stored=rows.stored[:0].copy(), low=rows.low[:0].clone())
        return cls(kept, len(rows), low, stored)


def as_tensor(stored: NDArray[Any]) -> torch.Tensor:
    """The stored values of a block as a float32 or float16 tensor, which shares memory that may be
    written."""
    values = stored.view(np.float16) if stored.dtype == np.uint16 else stored
    return torch.from_numpy(values if values.flags.writeable else values.copy())


@dataclass(frozen=True)
class DeviceQueries:
    """Queries on a device: what the bound needs, low and float32 [n, d]."""

    prepared: PreparedQueries
    low: torch.Tensor
    stored: torch.Tensor

    @classmethod
    def place(cls, queries: NDArray[np.float32], precision: Precision, device: torch.device) -> DeviceQueries:
        """Round validated queries [n, d] and copy them to the device."""
        prepared = prepare_queries(queries, precision)
        return cls(prepared, prepared.low.to(device), torch.tensor(queries, device=device))

    def __len__(self) -> int:
        return len(self.stored)

    def tiles(self, block: DeviceRows, precision: Precision, scores: int) -> Iterator[Tile]:
        """The tiles of a block, of about so many scores each."""
        width = max(1, scores // (len(self) * GROUP)) * GROUP
        bounds, offsets = (
            torch.from_numpy(values).to(self.low.device)
            for values in (
                bound(self.prepared, block.prepared, precision),
                self.prepared.offsets(block.prepared),
            )
        )
        for columns in cut(len(block.low), width):
            found = product(self.low, block.low[columns], precision)
            yield Tile(found, self.stored, block, columns.start, bounds, offsets)


@dataclass(frozen=True)
class Tile:
    """Approximate scores, less the offset, of some queries and some rows of a block from `start` on.

    `bounds` and `offsets` are float64 [n].
    """

    scores: torch.Tensor
    queries: torch.Tensor
    block: DeviceRows
    start: int
    bounds: torch.Tensor
    offsets: torch.Tensor

    def improve(self, best: torch.Tensor) -> torch.Tensor:
        """The k largest keys of those before, int64 [n, k], and of this tile, the largest first."""
        lines, columns, exact = self._contenders(best)
        return keep_best(best, lines, self._keys(columns, exact))

    def lead(self, best: torch.Tensor, tied: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest key of those before, int64 [n, 1], and of this tile; how many rows share its score.

        `tied` int64 [n] counts those before. All that reach the new best score are among the contenders.
        """
        lines, columns, exact = self._contenders(best)
        after = keep_best(best, lines, self._keys(columns, exact))
        score = scores_of(after[:, 0])
        tied = torch.where(scores_of(best[:, 0]) == score, tied, 0)
        return after, tied + torch.bincount(lines[exact == score[lines]], minlength=len(tied))

    def _contenders(self, best: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(query, row of the block, exact score) of what may belong to the k best, sorted by query."""
        k = best.shape[1]
        last = best[:, -1]
        reached = torch.where(last == UNFILLED_KEY, -torch.inf, scores_of(last).double())
        limits = reached - self.bounds - self.offsets
        maxima = self._groups().amax(dim=2)
        if maxima.shape[1] > k:  # the last group may be padding, but then k others remain
            whole = maxima[:, : maxima.shape[1] - 1]
            limits = torch.maximum(limits, whole.topk(k, dim=1).values[:, -1].double() - 2 * self.bounds)
        lines, columns = self._reaching(maxima, below(limits))
        return lines, columns, self._exact(lines, columns)

    def _keys(self, columns: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        return make_keys(exact, columns + self.block.prepared.first)

    def count(self, thresholds: torch.Tensor, above: torch.Tensor, tied: torch.Tensor) -> None:
        """Add what scores above and exactly at the thresholds, float32 [n], in place."""
        middle = thresholds.double() - self.offsets
        low, high = below(middle - self.bounds), above_limit(middle + self.bounds)
        real = self.scores[:, : self.block.rows - self.start]
        above += (real > high[:, None]).sum(dim=1)
        lines, columns = torch.nonzero((real >= low[:, None]) & (real <= high[:, None]), as_tuple=True)
        exact = self._exact(lines, columns + self.start)
        limits = thresholds[lines]
        above += torch.bincount(lines[exact > limits], minlength=len(above))
        tied += torch.bincount(lines[exact == limits], minlength=len(above))

    def _groups(self) -> torch.Tensor:
        return self.scores.view(len(self.scores), -1, GROUP)

    def _reaching(self, maxima: torch.Tensor, limits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(query, row of the block) of the entries that reach their limit, sorted by query."""
        lines, groups = torch.nonzero(maxima >= limits[:, None], as_tuple=True)
        entries = self._groups()[lines, groups]
        found, places = torch.nonzero(entries >= limits[lines, None], as_tuple=True)
        columns = self.start + groups[found] * GROUP + places
        real = columns < self.block.rows
        return lines[found][real], columns[real]

    def _exact(self, lines: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Exact scores of places; raises `ProposerError` where an entry is further off than its bound."""
        exact = torch.empty(len(lines), dtype=torch.float32, device=lines.device)
        values = EXACT_VALUES.get(lines.device.type, EXACT_VALUES["cuda"])
        for part in cut(len(lines), max(1, values // self.queries.shape[1])):
            exact[part] = exact_pairs(self.queries[lines[part]], self.block.stored[columns[part]])
        entries = self.scores[lines, columns - self.start].double() + self.offsets[lines]
        if len(lines):
            check_excess(float(((entries - exact).abs() - self.bounds[lines]).max()))
        return exact


def exact_pairs(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The definition of `indexes.exact` for aligned pairs [n, d]: float32 [n]."""
    whole = (queries.double() * rows.double() * SCALE).round_().to(torch.int64).sum(dim=1)
    return whole.to(torch.float32) * float(UNSCALE)


def make_keys(scores: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """One int64 for each (score, row) that sorts as the promise does, the best largest; rows below 2**32."""
    bits = scores.view(torch.int32).to(torch.int64)
    return torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF) << 32 | (ROW_MASK - rows)


def scores_of(keys: torch.Tensor) -> torch.Tensor:
    """The scores in keys, float32."""
    bits = (keys >> 32).to(torch.int32)
    return torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).view(torch.float32)


def keep_best(best: torch.Tensor, lines: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The k largest of `best` [n, k] and of further keys, each of the query beside it (ascending)."""
    sizes = torch.bincount(lines, minlength=len(best))
    widest = int(sizes.max()) if len(lines) else 0
    if not widest:
        return best
    starts = sizes.cumsum(0) - sizes
    merged = []
    for part in cut(len(best), max(1, KEYS // (widest + best.shape[1]))):
        taken = slice(int(starts[part.start]), int(starts[part.stop - 1] + sizes[part.stop - 1]))
        places = torch.arange(taken.start, taken.stop, device=best.device) - starts[lines[taken]]
        new = torch.full(
            (part.stop - part.start, widest), UNFILLED_KEY, dtype=torch.int64, device=best.device
        )
        new[lines[taken] - part.start, places] = keys[taken]
        merged.append(torch.cat([best[part], new], dim=1).topk(best.shape[1], dim=1).values)
    return torch.cat(merged)


def below(values: torch.Tensor) -> torch.Tensor:
    """float32 values that are at most the float64 ones."""
    return torch.nextafter(values.float(), torch.tensor(-torch.inf, device=values.device))


def above_limit(values: torch.Tensor) -> torch.Tensor:
    """float32 values that are at least the float64 ones."""
    return torch.nextafter(values.float(), torch.tensor(torch.inf, device=values.device))


def product(queries: torch.Tensor, rows: torch.Tensor, precision: Precision) -> torch.Tensor:
    """float32 [n, m]: low queries times low rows, accumulated and stored in float32.

    bfloat16 and float16 values are TF32 values too, so where torch cannot store such a product in float32
    (on a processor, and before 2.8) the same product of float32 arrays takes its place.
    """
    if precision.dtype != torch.float32 and queries.is_cuda and FLOAT32_OUTPUT:
        return torch.mm(queries, rows.T, out_dtype=torch.float32)
    return queries.float() @ rows.T.float()


@contextmanager
def exact_products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Let float32 products be what the bound of the precision allows; put back afterwards."""
    with float32_products(device, tf32=precision.name != "float32"):
        yield
