"""The best of a query by its embedding are scored once more by a matching head; the rest come below them.

The shortlist of a query are the first `k_test` rows of its whole gallery: the originals without a variant,
originals and fakes together with one. So fakes can push an original out of it, and with a shortlist shorter
than the gallery two of the three invariants of the specification (``spec/rococo.md``) need not hold:
``R_new <= R`` (what is pushed out may have stood above the positive) and ``R@1 - R_new@1 <= IR@1`` (the
positive may be pushed out by a fake that then does not win). ``R_new@1 + IR@1 <= 100`` always does. With
``k_test`` at least the size of the gallery all three hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.gallery import Items, Queries, Relation
from engine.evaluate.results import Direction, StageRecord
from engine.evaluate.search import QUERY_BLOCK, BaseSearch, Best, VariantSearch
from engine.evaluate.stages.embedded import EmbeddedStage
from engine.evaluate.stages.reranking import Reranking, reranking_key
from engine.evaluate.stages.stage import LOAD, SCORE_PAIRS, SEARCH_VARIANT, BlockScores
from engine.stopwatch import Stopwatch
from engine.store.schema import ORIGINAL
from indexes.merge import merge_topk
from indexes.protocol import NO_ROW, Counts, SearchBackend, TopK

LAST = np.iinfo(np.int64).max


@dataclass
class TwoStage:
    """A first stage, and what scores the best of it once more.

    A pair's score does not depend on the gallery: with a variant only the pairs with its items are new. The
    last shortlist is kept, so that lists and further metrics of a run search and score nothing again.
    """

    direction: Direction
    first: EmbeddedStage
    reranking: Reranking
    _listed: TopK | None = field(default=None, repr=False)
    _last: tuple[tuple[str, str | None], Shortlist] | None = field(default=None, repr=False)

    @property
    def record(self) -> StageRecord:
        """What scored, and how many."""
        reranker = self.reranking.scores.reranker
        return StageRecord(
            kind="two-stage",
            scorer=reranker.spec,
            fingerprint=reranker.fingerprint,
            k_test=self.reranking.k_test,
            join=reranker.join,
        )

    @property
    def key(self) -> Mapping[str, str]:
        """The scorer and the length of the shortlist."""
        return reranking_key(self.reranking.scores.reranker.fingerprint, self.reranking.k_test)

    def originals(self, queries: Queries, watch: Stopwatch, stage: str) -> BaseSearch:
        """The originals alone."""
        return place(self._shortlist(queries, None, watch, stage), queries, self.first.gallery, None)[0]

    def beside(
        self, queries: Queries, base: BaseSearch, fakes: Items, watch: Stopwatch
    ) -> tuple[BaseSearch, VariantSearch]:
        """Originals and fakes in one shortlist; where `base` stood alone does not matter."""
        listed = self._shortlist(queries, fakes, watch, SEARCH_VARIANT)
        together, found = place(listed, queries, self.first.gallery, fakes)
        assert found is not None
        return together, found

    def block_scores(self, queries: Queries, fakes: Items | None) -> BlockScores:
        """Scores of the shortlists, ``-inf`` beside them."""
        found = self._shortlist(queries, fakes, Stopwatch(), SEARCH_VARIANT)
        size = len(self.first.gallery) + (0 if fakes is None else len(fakes))

        def scores(start: int, stop: int) -> NDArray[np.float32]:
            block = np.full((stop - start, size), -np.inf, dtype=np.float32)
            np.put_along_axis(block, found.rows[start:stop], found.scores[start:stop], axis=1)
            return block

        return scores

    def _shortlist(self, queries: Queries, fakes: Items | None, watch: Stopwatch, stage: str) -> Shortlist:
        """The scored shortlists of originals, and fakes where there are any."""
        wanted = queries.items.name, None if fakes is None else fakes.name
        if self._last is None or self._last[0] != wanted:
            self._last = None  # so that not two are held at once
            listed = self._list_originals(queries, watch, stage)
            if fakes is not None:
                listed = self._with_fakes(queries, listed, fakes, watch)
            self._last = wanted, self._score(queries, listed, fakes, watch)
        return self._last[1]

    def _list_originals(self, queries: Queries, watch: Stopwatch, stage: str) -> TopK:
        """Kept for the original queries, which every gallery variant has."""
        if queries.items.name == ORIGINAL and self._listed is not None:
            return self._listed
        with watch.stage(LOAD):
            backend = self.first.backend
        with watch.stage(stage):
            listed = self._list(queries, backend, queries.items.name)
        if queries.items.name == ORIGINAL:
            self._listed = listed
        return listed

    def _with_fakes(self, queries: Queries, originals: TopK, fakes: Items, watch: Stopwatch) -> TopK:
        with watch.stage(LOAD):
            backend = self.first.open_shard(fakes, "adversarial")
        with watch.stage(SEARCH_VARIANT):
            added = self._list(queries, backend, fakes.name)
            return merge_topk([(0, originals), (len(self.first.gallery), added)], self.reranking.k_test)

    def _list(self, queries: Queries, backend: SearchBackend, name: str) -> TopK:
        parts = []
        with self.first.watched(f"{name}, first stage", len(queries)) as advance:
            for start, stop in queries.blocks(QUERY_BLOCK):
                parts.append(backend.topk(queries.read(start, stop), self.reranking.k_test))
                advance(stop - start)
        return TopK(
            np.concatenate([part.scores for part in parts]), np.concatenate([part.rows for part in parts])
        )

    def _score(self, queries: Queries, listed: TopK, fakes: Items | None, watch: Stopwatch) -> Shortlist:
        gallery = (self.first.gallery,) if fakes is None else (self.first.gallery, fakes)
        asking = np.repeat(queries.number, listed.rows.shape[1])
        asked = listed.rows.reshape(-1)
        name = gallery[-1].name if queries.items.name == ORIGINAL else queries.items.name
        with watch.stage(SCORE_PAIRS):
            asks, answers = (queries.items,), gallery
            if self.direction == "i2t":
                scores = self.reranking.scores.score(asks, answers, (asking, asked), self.first.watched, name)
            else:
                scores = self.reranking.scores.score(answers, asks, (asked, asking), self.first.watched, name)
            scores = scores.reshape(listed.rows.shape)
            if self.reranking.scores.reranker.join == "add":
                scores = scores + listed.scores
            return Shortlist(scores, listed.rows)


@dataclass(frozen=True)
class Shortlist:
    """The rows of a gallery that have a score: float32 and int64 [queries, depth]."""

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]

    def best(self, among: NDArray[np.bool_]) -> Best:
        """The best of some of the listed rows, bool [queries, depth]."""
        score = np.where(among, self.scores, np.float32(-np.inf)).max(axis=1)
        leading = among & (self.scores == score[:, None])
        tied = leading.sum(axis=1, dtype=np.int64)
        row = np.where(leading, self.rows, LAST).min(axis=1)
        return Best(score, np.where(tied > 0, row, NO_ROW), tied)

    def counts(self, among: NDArray[np.bool_], thresholds: NDArray[np.float32], rows: int) -> Counts:
        """Counts over a shard of `rows` rows whose listed ones are `among`; the rest score ``-inf``."""
        column = thresholds[:, None]
        above = (among & (self.scores > column)).sum(axis=1, dtype=np.int64)
        tied = (among & (self.scores == column)).sum(axis=1, dtype=np.int64)
        unlisted = rows - among.sum(axis=1, dtype=np.int64)
        return Counts(above, tied + np.where(np.isneginf(thresholds), unlisted, 0))


def place(
    listed: Shortlist, queries: Queries, gallery: Items, fakes: Items | None
) -> tuple[BaseSearch, VariantSearch | None]:
    """Where the queries stand when the listed rows have their scores and all others score ``-inf``."""
    image = np.concatenate([gallery.image, *(() if fakes is None else (fakes.image,))])
    own = image[listed.rows] == queries.image[:, None]
    original = listed.rows < len(gallery)
    positive = best_positive(listed.best(own & original), queries, gallery)
    base = BaseSearch(positive, listed.counts(original, positive.score, len(gallery)), listed.best(original))
    if fakes is None:
        return base, None
    counts = listed.counts(~original, positive.score, len(fakes))
    numbered = Shortlist(listed.scores, listed.rows - len(gallery))
    return base, VariantSearch(counts, numbered.best(~original), numbered.best(own & ~original))


def best_positive(listed: Best, queries: Queries, gallery: Items) -> Best:
    """The best listed positive; where none is, all positives of the query, which tie at ``-inf``."""
    relation = Relation.by_image(queries.image, gallery.image)
    missing = listed.tied == 0
    return Best(
        listed.score,
        np.where(missing, relation.order[relation.start], listed.row),
        np.where(missing, relation.counts, listed.tied),
    )
