"""Rankings as lists: the first rows of base + variant for every query, for what ranks alone cannot say.

A list is in the order of the promise of `indexes`: by exact score, originals before adversarial items among
equal scores, then by row. Rows are numbered through: the gallery's originals, then the variant's items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch, check_changed, replaced_queries
from engine.evaluate.gallery import Items, Queries, gather, load_items
from engine.evaluate.search import PAIR_BLOCK, QUERY_BLOCK
from engine.evaluate.sets import no_such_variant, variant_sets
from engine.evaluate.stages.stage import BlockScores
from indexes.exact import exact_scores
from indexes.merge import merge_topk
from indexes.protocol import Counts, SearchBackend, TopK

MOST_CELLS = 1 << 24  # of a list at once: queries of a block times depth


@dataclass(frozen=True)
class Listed:
    """The lists of queries [start, stop): float32 and int64 [queries, depth].

    `vectors` float32 [queries, dim] are the queries, `shards` what each shard listed for them. Where lists
    come from no search, `vectors` are the queries' scores with all rows, [queries, size].
    """

    start: int
    stop: int
    vectors: NDArray[np.float32]
    scores: NDArray[np.float32]
    rows: NDArray[np.int64]
    shards: tuple[TopK, ...]


@dataclass(frozen=True)
class Ranker:
    """Lists the rows of a run: its queries, its originals, and the items of its gallery variant, if any.

    `backends` are the shards where lists come from a search; else `block_scores` gives all scores of a block
    of queries.
    """

    queries: Queries
    gallery: Items
    fakes: Items | None
    backends: tuple[SearchBackend, ...]
    block_scores: BlockScores | None = None

    @classmethod
    def of(cls, search: DirectionSearch, variant: str | None) -> Ranker:
        """The ranker of a run. Raises `InputError` as `DirectionSearch.run` does."""
        queries, fakes = run_items(search, variant)
        block_scores = search.stage.block_scores(queries, fakes)
        if block_scores is not None:
            return cls(queries, search.gallery, fakes, (), block_scores)
        added = () if fakes is None else (search.open(fakes, "adversarial"),)
        return cls(queries, search.gallery, fakes, (search.base_backend, *added))

    @property
    def size(self) -> int:
        """Rows in all."""
        return len(self.gallery) + (0 if self.fakes is None else len(self.fakes))

    def lists(self, depth: int) -> Iterator[Listed]:
        """The first `depth` rows (all, where there are fewer) of every query, in blocks of queries."""
        if depth < 1:
            raise InputError(f"a list of {depth} rows; expected at least 1")
        depth = min(depth, self.size)
        if self.block_scores is not None:
            yield from self._lists_of_blocks(self.block_scores, depth)
            return
        for start, stop in self.queries.blocks(max(1, min(QUERY_BLOCK, MOST_CELLS // depth))):
            vectors = self.queries.read(start, stop)
            found = tuple(backend.topk(vectors, depth) for backend in self.backends)
            offsets = (0, len(self.gallery))
            best = merge_topk(list(zip(offsets, found, strict=False)), depth)
            yield Listed(start, stop, vectors, best.scores, best.rows, found)

    def _lists_of_blocks(self, block_scores: BlockScores, depth: int) -> Iterator[Listed]:
        for start, stop in self.queries.blocks(max(1, min(QUERY_BLOCK, MOST_CELLS // self.size))):
            block = block_scores(start, stop)
            rows = np.argsort(-block, axis=1, kind="stable")[:, :depth]
            yield Listed(start, stop, block, np.take_along_axis(block, rows, axis=1), rows, ())

    def pair_scores(
        self, listed: Listed, query: NDArray[np.int64], row: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """float32 [pairs]: scores of queries, counted from the block's first, with originals."""
        if self.block_scores is not None:
            scores: NDArray[np.float32] = listed.vectors[query, row]
            return scores
        return pair_scores(listed.vectors, self.gallery, query, row)

    def counts(self, listed: Listed, thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with a threshold of each query of a block, over the whole gallery."""
        if self.block_scores is not None:
            column = thresholds[:, None]
            above, tied = listed.vectors > column, listed.vectors == column
            return Counts(above.sum(axis=1, dtype=np.int64), tied.sum(axis=1, dtype=np.int64))
        total = Counts(*(np.zeros(len(thresholds), dtype=np.int64) for _ in range(2)))
        for backend, top in zip(self.backends, listed.shards, strict=True):
            total = total + counts_at(backend, listed.vectors, top, thresholds)
        return total

    def images(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, shape of `rows`: the image row of each listed row."""
        return self.concatenated_images[rows]

    @property
    def concatenated_images(self) -> NDArray[np.int64]:
        """int64 [size]: the image row of every row."""
        fakes = () if self.fakes is None else (self.fakes.image,)
        return np.concatenate([self.gallery.image, *fakes])

    def is_positive(self, listed: Listed) -> NDArray[np.bool_]:
        """bool [queries, depth]: the listed row is an original of the query's image."""
        asks = self.queries.image[listed.start : listed.stop]
        own: NDArray[np.bool_] = self.images(listed.rows) == asks[:, None]
        return own & (listed.rows < len(self.gallery))


def run_items(search: DirectionSearch, variant: str | None) -> tuple[Queries, Items | None]:
    """The queries of a run and its gallery variant's items. Raises `InputError` as `DirectionSearch.run`."""
    if variant is None:
        return search.queries, None
    known = variant_sets(search.store, search.direction)
    if variant not in known:
        raise no_such_variant(search.store, variant, list(known))
    record = known[variant].variant
    assert record is not None
    items = load_items(search.store, record.modality, variant)
    check_changed(items)
    if record.side == "query":
        return replaced_queries(search.queries, items)[0], None
    return search.queries, items


def pair_scores(
    vectors: NDArray[np.float32], items: Items, query: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.float32]:
    """float32 [pairs]: exact scores of queries (rows of `vectors`) and items."""
    scores = np.empty(len(query), dtype=np.float32)
    for start in range(0, len(query), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        scores[part] = exact_scores(vectors[query[part]], gather(items.rows, row[part]))
    return scores


def counts_at(
    backend: SearchBackend, queries: NDArray[np.float32], listed: TopK, thresholds: NDArray[np.float32]
) -> Counts:
    """Counts at the thresholds; only queries whose list does not reach below them are searched again."""
    column = thresholds[:, None]
    above = np.sum(listed.scores > column, axis=1).astype(np.int64)
    tied = np.sum(listed.scores == column, axis=1).astype(np.int64)
    if listed.scores.shape[1] == backend.shard.rows:
        return Counts(above, tied)
    open_ended = np.flatnonzero(listed.scores[:, -1] >= thresholds)
    if len(open_ended):
        counted = backend.counts(queries[open_ended], thresholds[open_ended])
        above[open_ended], tied[open_ended] = counted.above, counted.tied
    return Counts(above, tied)
