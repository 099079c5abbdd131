"""Every pair has a score of its own: the rows of a store of scores, read block by block.

Never more than a block of scores is in memory, or those of the queries whose lists are asked for. A block is
looked at twice: for the best positives, and, when those are known for all queries, for the counts at their
scores and for the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.gallery import Items, Queries
from engine.evaluate.results import Direction, StageRecord
from engine.evaluate.search import BaseSearch, Best, VariantSearch
from engine.evaluate.stages.stage import SEARCH_VARIANT, BlockScores, Watched
from engine.progress import Advance
from engine.stopwatch import Stopwatch
from engine.store.raw import Region
from engine.store.schema import ORIGINAL, StoreHeader
from engine.store.scratch import Scratch
from indexes.protocol import NO_ROW, Counts

BLOCK_SCORES = 1 << 22  # 16 MiB of float32, and masks of the same shape
NOTHING = np.float32(-np.inf)
PASSES = 2

Scores = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass
class MatrixStage:
    """Scores of a store of pairs. `gallery` are the originals, `header` is the store's."""

    direction: Direction
    gallery: Items
    header: StoreHeader
    watched: Watched
    _originals: Scan | None = field(default=None, repr=False)

    @property
    def record(self) -> StageRecord:
        """What scored."""
        header = self.header
        return StageRecord(kind="pairs", scorer=header.encoder_spec, fingerprint=header.encoder_fingerprint)

    @property
    def key(self) -> Mapping[str, str]:
        """Nothing: what a store's rows are is part of every run's key."""
        return {}

    def originals(self, queries: Queries, watch: Stopwatch, stage: str) -> BaseSearch:
        """Two passes over the scores of the queries with all originals."""
        scan = self._scan_originals(queries)
        with watch.stage(stage), self.watched(queries.items.name, PASSES * scan.size, "scores") as advance:
            positive = scan.best_related(advance)
            counts, top = scan.standing(positive.score, advance)
        return BaseSearch(positive, counts, top)

    def beside(
        self, queries: Queries, base: BaseSearch, fakes: Items, watch: Stopwatch
    ) -> tuple[BaseSearch, VariantSearch]:
        """Two passes over the scores with the variant's items; the originals stand where they stood."""
        scan = Scan(queries, fakes)
        with watch.stage(SEARCH_VARIANT), self.watched(fakes.name, PASSES * scan.size, "scores") as advance:
            own = scan.best_related(advance)
            counts, top = scan.standing(base.positive.score, advance)
        return base, VariantSearch(counts, top, own)

    def block_scores(self, queries: Queries, fakes: Items | None) -> BlockScores:
        """Rows of the matrix; where the queries are its columns, it is turned once, in a temporary file."""
        scans = [self._scan_originals(queries), *(() if fakes is None else (Scan(queries, fakes),))]

        def scores(start: int, stop: int) -> Scores:
            return np.concatenate([scan.block(start, stop) for scan in scans], axis=1)

        return scores

    def _scan_originals(self, queries: Queries) -> Scan:
        """Kept for the original queries, which every gallery variant has."""
        if queries.items.name != ORIGINAL:
            return Scan(queries, self.gallery)
        if self._originals is None:
            self._originals = Scan(queries, self.gallery)
        return self._originals


@dataclass(frozen=True)
class Tile:
    """Scores float32 [queries, rows] of some queries and some rows of a shard."""

    queries: slice
    rows: slice
    scores: Scores

    def best(self, among: NDArray[np.bool_] | None = None) -> Best:
        """The best of every query's rows, or of some of them (bool [queries, rows])."""
        scores = self.scores if among is None else np.where(among, self.scores, NOTHING)
        score = scores.max(axis=1)
        leading = scores == score[:, None]
        if among is not None:
            leading &= among
        tied = leading.sum(axis=1, dtype=np.int64)
        row = self.rows.start + leading.argmax(axis=1)
        return Best(score, np.where(tied > 0, row, NO_ROW), tied)


class Scan:
    """Passes over the scores of queries with the items of one shard."""

    def __init__(self, queries: Queries, items: Items) -> None:
        self._queries, self._items = queries, items
        # no row has a score of two variants' items with each other
        assert ORIGINAL in (queries.items.name, items.name)
        self._asked = queries.items.row[queries.number]  # rows of the queries in their set
        rows, columns = (queries.items, items.row) if self._asks_by_row else (items, self._asked)
        self._block = max(1, BLOCK_SCORES // width_of(rows, columns))  # rows of the store read at once
        self.size = len(queries) * len(items)

    def best_related(self, advance: Advance) -> Best:
        """Every query's best item of its own image."""
        asks, answers = self._queries.image, self._items.image

        def related(tile: Tile) -> Best:
            return tile.best(asks[tile.queries, None] == answers[None, tile.rows])

        return self._best(related, advance, lambda tile: None)

    def standing(self, thresholds: Scores, advance: Advance) -> tuple[Counts, Best]:
        """Counts at the thresholds (float32 [queries]), and the top."""
        above, tied = (np.zeros(len(thresholds), dtype=np.int64) for _ in range(2))

        def count(tile: Tile) -> None:
            column = thresholds[tile.queries, None]
            above[tile.queries] += (tile.scores > column).sum(axis=1, dtype=np.int64)
            tied[tile.queries] += (tile.scores == column).sum(axis=1, dtype=np.int64)

        top = self._best(Tile.best, advance, count)
        return Counts(above, tied), top

    def _best(self, best_of: Callable[[Tile], Best], advance: Advance, also: Callable[[Tile], None]) -> Best:
        count = len(self._queries)
        score, row, tied = np.full(count, NOTHING), np.full(count, NO_ROW), np.zeros(count, np.int64)
        for tile in self.tiles():
            also(tile)
            new, part = best_of(tile), tile.queries
            better, equal = new.score > score[part], (new.score == score[part]) & (new.tied > 0)
            # tiles come in ascending rows: of equals the earlier one is the lowest
            row[part] = np.where(better | (equal & (tied[part] == 0)), new.row, row[part])
            tied[part] = np.where(better, new.tied, tied[part] + np.where(equal, new.tied, 0))
            score[part] = np.maximum(score[part], new.score)
            advance(tile.scores.size)
        return Best(score, row, tied)

    def block(self, start: int, stop: int) -> Scores:
        """float32 [stop - start, items]: all scores of some queries."""
        if self._asks_by_row:
            return self._queries.read(start, stop)[:, self._items.row]
        if stop - start == len(self._queries):
            return np.concatenate([tile.scores for tile in self.tiles()], axis=1)
        scratch, regions = self._turned
        return np.concatenate([scratch.read(region, start, stop) for region in regions], axis=1)

    @cached_property
    def _turned(self) -> tuple[Scratch, list[Region]]:
        """All tiles [queries, rows] on the disk, so that some queries are read without the others."""
        scratch = Scratch(Path(gettempdir()), "scores", "set TMPDIR to a folder with room")
        return scratch, [scratch.add(tile.scores) for tile in self.tiles()]

    @property
    def _asks_by_row(self) -> bool:
        """Whether a query's scores are its own row: it asks for originals, and is itself no original image.

        The rows of a set hold its scores with the originals of the other modality; the original images alone
        have none, theirs are in the rows of the captions.
        """
        asking = self._queries.items
        return self._items.name == ORIGINAL and (asking.modality, asking.name) != ("images", ORIGINAL)

    def tiles(self) -> Iterator[Tile]:
        """All scores; of a query in ascending rows."""
        return self._rows_of_queries() if self._asks_by_row else self._rows_of_items()

    def _rows_of_queries(self) -> Iterator[Tile]:
        """The queries' rows hold their scores with all originals."""
        for start, stop in self._queries.blocks(self._block):
            scores = self._queries.read(start, stop)[:, self._items.row]
            yield Tile(slice(start, stop), slice(0, len(self._items)), scores)

    def _rows_of_items(self) -> Iterator[Tile]:
        """The items' rows hold the scores of all originals that ask."""
        everyone = slice(0, len(self._queries))
        for start in range(0, len(self._items), self._block):
            stop = min(start + self._block, len(self._items))
            scores = np.ascontiguousarray(self._items.rows.read(start, stop)[:, self._asked].T)
            yield Tile(everyone, slice(start, stop), scores.astype(np.float32, copy=False))


def width_of(items: Items, columns: Places) -> int:
    """How many originals a set has scores with. Raises `InputError` where one of the columns is missing."""
    width = items.rows.shape[1]
    if int(columns.max(initial=0)) >= width:
        raise InputError(
            f"{items.modality}/{items.name} has scores with {width} originals, expected at least "
            f"{int(columns.max()) + 1}; make the store again"
        )
    return width
