"""The certified pass in torch operations, for GPUs; it runs on any torch device.

As on a processor (`indexes.host_scan`), with one difference: a GPU scores whole tiles, so limits rise from
tile to tile. A tile is reduced once, to the largest score of each group of `GROUP` columns; only the groups
that reach the limit are looked at again. In a tile the limit is the better of two: the k-th best exact score
so far less the bound, and, since k groups have different best columns, the k-th largest group maximum less
twice the bound.

Scores are float32 (the product of low values accumulates and is stored in float32), so limits are compared
after one rounding to the safe side. Rows in the low precision and as stored stay on the device. When the
device runs out of memory the tile is halved, which is said once, and the search goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.certify import check_excess
from indexes.host_scan import cut
from indexes.kernels import SCALE, UNSCALE
from indexes.prepared import Precision, PreparedRows, bound, prepare_queries
from indexes.protocol import Counts, TopK

GROUP = 64
TILE_SCORES = 1 << 26  # 256 MiB of float32
TILE_QUERIES = 4096
EXACT_VALUES = {"cuda": 1 << 26, "cpu": 1 << 20}  # products held at once by `exact_pairs`, in float64
KEYS = 1 << 24
ROW_MASK = (1 << 32) - 1
UNFILLED_KEY = torch.iinfo(torch.int64).min
FLOAT32_OUTPUT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeviceRows:
    """A prepared block on a device: `low` padded with zero rows to whole groups, `stored` float32 or
    float16."""

    prepared: PreparedRows
    low: torch.Tensor
    stored: torch.Tensor

    @classmethod
    def place(cls, rows: PreparedRows, device: torch.device) -> DeviceRows:
        """Copy a block to the device."""
        low = torch.zeros(
            -(-len(rows) // GROUP) * GROUP, rows.low.shape[1], dtype=rows.low.dtype, device=device
        )
        low[: len(rows)] = rows.low.to(device)
        bits = rows.stored
        stored = bits.view(np.float16) if bits.dtype == np.uint16 else bits
        return cls(rows, low, torch.tensor(stored, device=device))


@dataclass(frozen=True)
class DeviceScan:
    """Exact search in blocks of rows on one device; calls take turns."""

    precision: Precision
    blocks: tuple[DeviceRows, ...]
    device: torch.device
    lock: Lock = field(default_factory=Lock)

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]; 1 <= k <= rows of the shard."""
        keys = np.empty((len(queries), k), np.int64)

        def search(part: slice, tile_scores: int) -> None:
            best = torch.full(
                (part.stop - part.start, k), UNFILLED_KEY, dtype=torch.int64, device=self.device
            )
            for tile in self._tiles(queries[part], tile_scores):
                best = tile.improve(best)
            keys[part] = best.cpu().numpy()

        self._in_parts(len(queries), search)
        return TopK(scores_of(torch.from_numpy(keys)).numpy(), ROW_MASK - (keys & ROW_MASK))

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        counts = Counts(np.empty(len(queries), np.int64), np.empty(len(queries), np.int64))

        def search(part: slice, tile_scores: int) -> None:
            limits = torch.tensor(thresholds[part], device=self.device)
            above = torch.zeros(len(limits), dtype=torch.int64, device=self.device)
            tied = torch.zeros_like(above)
            for tile in self._tiles(queries[part], tile_scores):
                tile.count(limits, above, tied)
            counts.above[part], counts.tied[part] = above.cpu().numpy(), tied.cpu().numpy()

        self._in_parts(len(queries), search)
        return counts

    def _in_parts(self, queries: int, search: Callable[[slice, int], None]) -> None:
        """Search some queries at a time; with halved tiles from where the device's memory is full."""
        tile_scores = TILE_SCORES
        with self.lock, exact_products(self.precision, self.device):
            for part in cut(queries, TILE_QUERIES):
                while True:
                    try:
                        search(part, tile_scores)
                        break
                    except torch.OutOfMemoryError:
                        if tile_scores <= GROUP * TILE_QUERIES:
                            raise
                        if tile_scores == TILE_SCORES:
                            LOG.warning("%s is out of memory: searching in smaller tiles", self.device)
                        tile_scores //= 2

    def _tiles(self, queries: NDArray[np.float32], tile_scores: int) -> Iterator[Tile]:
        asked = prepare_queries(queries, self.precision)
        low = asked.low.to(self.device)
        stored = torch.tensor(queries, device=self.device)
        width = max(1, tile_scores // (len(queries) * GROUP)) * GROUP
        for block in self.blocks:
            limits = [
                torch.from_numpy(values).to(self.device)
                for values in (bound(asked, block.prepared, self.precision), asked.offsets(block.prepared))
            ]
            for columns in cut(len(block.low), width):
                scores = product(low, block.low[columns], self.precision)
                yield Tile(scores, stored, block, columns.start, *limits)


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
        k = best.shape[1]
        last = best[:, -1]
        reached = torch.where(last == UNFILLED_KEY, -torch.inf, scores_of(last).double())
        limits = reached - self.bounds - self.offsets
        maxima = self._groups().amax(dim=2)
        if maxima.shape[1] > k:  # the last group may be padding, but then k others remain
            whole = maxima[:, : maxima.shape[1] - 1]
            limits = torch.maximum(limits, whole.topk(k, dim=1).values[:, -1].double() - 2 * self.bounds)
        lines, columns = self._reaching(maxima, below(limits))
        keys = make_keys(self._exact(lines, columns), columns + self.block.prepared.first)
        return keep_best(best, lines, keys)

    def count(self, thresholds: torch.Tensor, above: torch.Tensor, tied: torch.Tensor) -> None:
        """Add what scores above and exactly at the thresholds, float32 [n], in place."""
        middle = thresholds.double() - self.offsets
        low, high = below(middle - self.bounds), above_limit(middle + self.bounds)
        real = self.scores[:, : len(self.block.prepared) - self.start]
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
        real = columns < len(self.block.prepared)
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
    """Let float32 products on a GPU use TF32, or not, as the precision says; put back afterwards."""
    if device.type != "cuda":
        yield
        return
    settings: Any = torch.backends.cuda.matmul
    allowed = precision.name != "float32"
    name, value = (
        ("fp32_precision", "tf32" if allowed else "ieee")
        if hasattr(settings, "fp32_precision")
        else ("allow_tf32", allowed)
    )
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)
