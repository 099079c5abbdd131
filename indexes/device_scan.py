"""The certified pass in torch operations, for GPUs; it runs on any torch device.

As on a processor (`indexes.host_scan`), with one difference: a GPU scores whole tiles
(`indexes.device_tiles`), so limits rise from tile to tile. In a tile the limit is the better of two: the k-th
best exact score so far less the bound, and, since k groups have different best columns, the k-th largest
group maximum less twice the bound.

Blocks of rows stay on the device, or come to it while others are searched (`indexes.device_stream`): they are
the outer loop, so that all queries of a call meet a block while it is there. When the device runs out of
memory the tile is halved, which is said once, and the search goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.device_tiles import (
    GROUP,
    ROW_MASK,
    UNFILLED_KEY,
    DeviceQueries,
    DeviceRows,
    exact_products,
    scores_of,
)
from indexes.host_scan import cut
from indexes.prepared import Precision
from indexes.protocol import Counts, Leaders, Survey, TopK

TILE_SCORES = 1 << 26  # 256 MiB of float32
TILE_QUERIES = 4096
QUERIES_HELD = 1 << 16  # on the device at once, with their k best: for further ones blocks come again
LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


class TileSize:
    """How many scores a tile has: halved whenever the device's memory is full, which is said once.

    It stays halved: what did not fit would not fit in the next call either.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._scores, self._said = device, TILE_SCORES, False

    def fit(self, search: Callable[[int], Result]) -> Result:
        """What `search` finds with tiles of some size that fits; it must be able to begin anew."""
        while True:
            try:
                return search(self._scores)
            except torch.OutOfMemoryError:
                if self._scores <= GROUP * TILE_QUERIES:
                    raise
                if not self._said:
                    LOG.warning("%s is out of memory: searching in smaller tiles", self._device)
                self._scores, self._said = self._scores // 2, True


@dataclass(frozen=True)
class DeviceScan:
    """Exact search in blocks of rows on one device; calls take turns.

    `blocks` gives the blocks of the shard in order, in each call anew.
    """

    precision: Precision
    blocks: Callable[[], Iterable[DeviceRows]]
    device: torch.device
    lock: Lock = field(default_factory=Lock)
    size: TileSize = field(init=False)

    def __post_init__(self) -> None:
        """One size for all calls."""
        object.__setattr__(self, "size", TileSize(self.device))

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]; 1 <= k <= rows of the shard."""
        keys = np.empty((len(queries), k), np.int64)
        for held in cut(len(queries), QUERIES_HELD):
            with self.turn() as tiles:
                asked = self.ask(queries[held])
                best = [self._full((len(part), k), UNFILLED_KEY) for part in asked]
                for block in self.blocks():
                    for number, part in enumerate(asked):
                        best[number] = tiles.fit(partial(self._improve, part, block, best[number]))
                keys[held] = torch.cat(best).cpu().numpy()
        return TopK(scores_of(torch.from_numpy(keys)).numpy(), ROW_MASK - (keys & ROW_MASK))

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        found = np.zeros((2, len(queries)), np.int64)
        for held in cut(len(queries), QUERIES_HELD):
            with self.turn() as tiles:
                asked = self.ask(queries[held])
                limits = self._limits(asked, thresholds[held])
                totals = [self._full((2, len(part)), 0) for part in asked]
                for block in self.blocks():
                    for part, limit, total in zip(asked, limits, totals, strict=True):
                        total += tiles.fit(partial(self._count, part, block, limit))
                found[:, held] = torch.cat(totals, dim=1).cpu().numpy()
        return Counts(found[0], found[1])

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries [n, d]."""
        found = Survey.nothing(len(queries))
        for held in cut(len(queries), QUERIES_HELD):
            asked = self.ask(queries[held])
            for block in self.blocks():
                self.see(asked, block, thresholds[held], found.part(held))
        return found

    def see(
        self,
        asked: tuple[DeviceQueries, ...],
        block: DeviceRows,
        thresholds: NDArray[np.float32],
        found: Survey,
    ) -> None:
        """Add a block of later rows to `found`, for queries that `ask` placed, thresholds float32 [n]."""
        if not asked:
            return
        with self.turn() as tiles:
            limits = self._limits(asked, thresholds)
            parts = [
                tiles.fit(partial(self._see, part, block, limit))
                for part, limit in zip(asked, limits, strict=True)
            ]
        above, tied, keys, leading = (torch.cat(values).cpu() for values in zip(*parts, strict=True))
        rows = ROW_MASK - (keys.numpy() & ROW_MASK)
        leaders = Leaders(scores_of(keys).numpy(), rows, leading.numpy())
        found.add(Survey(Counts(above.numpy(), tied.numpy()), leaders))

    def ask(self, queries: NDArray[np.float32]) -> tuple[DeviceQueries, ...]:
        """Validated queries [n, d] on the device, `TILE_QUERIES` at a time."""
        return tuple(
            DeviceQueries.place(queries[part], self.precision, self.device)
            for part in cut(len(queries), TILE_QUERIES)
        )

    @contextmanager
    def turn(self) -> Iterator[TileSize]:
        """Use the device, alone among the calls of this scan."""
        with self.lock, exact_products(self.precision, self.device):
            yield self.size

    def _improve(
        self, asked: DeviceQueries, block: DeviceRows, best: torch.Tensor, scores: int
    ) -> torch.Tensor:
        for tile in asked.tiles(block, self.precision, scores):
            best = tile.improve(best)
        return best

    def _count(
        self, asked: DeviceQueries, block: DeviceRows, limits: torch.Tensor, scores: int
    ) -> torch.Tensor:
        found = self._full((2, len(asked)), 0)
        for tile in asked.tiles(block, self.precision, scores):
            tile.count(limits, found[0], found[1])
        return found

    def _see(
        self, asked: DeviceQueries, block: DeviceRows, limits: torch.Tensor, scores: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        above, tied, leading = self._full((3, len(asked)), 0)
        best = self._full((len(asked), 1), UNFILLED_KEY)
        for tile in asked.tiles(block, self.precision, scores):
            tile.count(limits, above, tied)
            best, leading = tile.lead(best, leading)
        return above, tied, best[:, 0], leading

    def _limits(
        self, asked: tuple[DeviceQueries, ...], thresholds: NDArray[np.float32]
    ) -> list[torch.Tensor]:
        sizes = [len(part) for part in asked]
        return list(torch.split(torch.tensor(thresholds, device=self.device), sizes))

    def _full(self, shape: tuple[int, int], value: int) -> torch.Tensor:
        return torch.full(shape, value, dtype=torch.int64, device=self.device)
