"""The searches of a run: the base once, each variant only in its own shard, and how the two add up.

Ranks need no full matrix. With t a query's best exact positive score, a shard's rows above t and tied with t
are counted; counts of disjoint shards add, so base + variant is one addition (`indexes.protocol.Counts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.gallery import Items, Queries, Relation, gather
from engine.progress import Advance
from indexes.exact import exact_scores
from indexes.protocol import NO_ROW, Counts, RowSource, SearchBackend

QUERY_BLOCK = 8192
PAIR_BLOCK = 16384


@dataclass(frozen=True)
class Best:
    """The best of some gallery rows for every query; arrays [queries].

    `score` float32 (-inf where a query has none of these rows), `row` int64 the lowest row number with that
    score (`NO_ROW` where none), `tied` int64 how many have it.
    """

    score: NDArray[np.float32]
    row: NDArray[np.int64]
    tied: NDArray[np.int64]


@dataclass(frozen=True)
class BaseSearch:
    """The originals seen from every query: its best positive, the counts at that score, and the top."""

    positive: Best
    counts: Counts
    top: Best

    def take(self, queries: NDArray[np.int64]) -> BaseSearch:
        """The same for some of the queries, int64 [n]."""
        return BaseSearch(
            take_best(self.positive, queries),
            Counts(self.counts.above[queries], self.counts.tied[queries]),
            take_best(self.top, queries),
        )


@dataclass(frozen=True)
class VariantSearch:
    """A variant's shard seen from every query: counts at the positive's score, the top, the best own fake."""

    counts: Counts
    top: Best
    own: Best


def search_base(queries: Queries, gallery: Items, backend: SearchBackend, *, advance: Advance) -> BaseSearch:
    """Search the originals for every query, in blocks; `advance` is told the number of queries done."""
    relation = Relation.by_image(queries.image, gallery.image)
    positives, counts, tops = [], [], []
    for start, stop in queries.blocks(QUERY_BLOCK):
        vectors = queries.read(start, stop)
        positive = best_related(vectors, gallery.rows, *relation.pairs(start, stop))
        count, top = search_shard(backend, vectors, positive.score)
        positives.append(positive)
        counts.append(count)
        tops.append(top)
        advance(stop - start)
    return BaseSearch(join_best(positives), join_counts(counts), join_best(tops))


def search_variant(
    queries: Queries,
    thresholds: NDArray[np.float32],
    fakes: Items,
    backend: SearchBackend,
    *,
    advance: Advance,
) -> VariantSearch:
    """Search a variant's shard for every query; `thresholds` float32 [queries]: best positives' scores."""
    relation = Relation.by_image(queries.image, fakes.image)
    counts, tops, owns = [], [], []
    for start, stop in queries.blocks(QUERY_BLOCK):
        vectors = queries.read(start, stop)
        count, top = search_shard(backend, vectors, thresholds[start:stop])
        counts.append(count)
        tops.append(top)
        owns.append(best_related(vectors, fakes.rows, *relation.pairs(start, stop)))
        advance(stop - start)
    return VariantSearch(join_counts(counts), join_best(tops), join_best(owns))


def search_shard(
    backend: SearchBackend, queries: NDArray[np.float32], thresholds: NDArray[np.float32]
) -> tuple[Counts, Best]:
    """Counts at the thresholds, and the top of the shard with the number of rows that share it."""
    found = backend.survey(queries, thresholds)
    return found.counts, Best(found.leaders.scores, found.leaders.rows, found.leaders.tied)


def best_related(
    queries: NDArray[np.float32],
    source: RowSource,
    pair_queries: NDArray[np.int64],
    pair_rows: NDArray[np.int64],
) -> Best:
    """The best related row of every query [n, dim], from the exact scores of the pairs (int64 [pairs])."""
    scores = np.empty(len(pair_queries), dtype=np.float32)
    for start in range(0, len(scores), PAIR_BLOCK):
        part = slice(start, start + PAIR_BLOCK)
        scores[part] = exact_scores(queries[pair_queries[part]], gather(source, pair_rows[part]))
    return best_of_pairs(len(queries), pair_queries, pair_rows, scores)


def best_of_pairs(
    queries: int,
    pair_queries: NDArray[np.int64],
    pair_rows: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> Best:
    """The highest score of every query's pairs, the lowest row that has it, and how many have it."""
    best = np.full(queries, -np.inf, dtype=np.float32)
    np.maximum.at(best, pair_queries, scores)
    at_best = scores == best[pair_queries]
    row = np.full(queries, np.iinfo(np.int64).max)
    np.minimum.at(row, pair_queries[at_best], pair_rows[at_best])
    tied = np.bincount(pair_queries[at_best], minlength=queries).astype(np.int64)
    return Best(best, np.where(tied > 0, row, NO_ROW), tied)


def take_best(best: Best, queries: NDArray[np.int64]) -> Best:
    """The same for some of the queries, int64 [n]."""
    return Best(best.score[queries], best.row[queries], best.tied[queries])


def join_best(parts: Sequence[Best]) -> Best:
    """Blocks of queries, one after the other."""
    return Best(
        np.concatenate([part.score for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.tied for part in parts]),
    )


def join_counts(parts: Sequence[Counts]) -> Counts:
    """Blocks of queries, one after the other."""
    return Counts(
        np.concatenate([part.above for part in parts]), np.concatenate([part.tied for part in parts])
    )
