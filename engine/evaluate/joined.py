"""A whole gallery seen from every query: originals, a variant's items, distractors, each searched on its own.

Counts of disjoint shards add up, tops are compared; so any combination of searches that were done is an
addition, and a gallery with more distractors is no further search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.search import BaseSearch, Best, VariantSearch, take_best
from engine.evaluate.ties import Standing, Top
from indexes.prefixes import Prefix
from indexes.protocol import NO_ROW, Counts, Origin

ORIGINS: Sequence[Origin] = ("original", "adversarial", "distractor")  # as rows of one score are listed


@dataclass(frozen=True)
class Crowd:
    """The first `rows` distractors seen from every query: counts at the positive's score, and the top."""

    rows: int
    counts: Counts
    top: Best

    @classmethod
    def nobody(cls, queries: int) -> Crowd:
        """No distractor."""
        zeros = np.zeros(queries, np.int64)
        nothing = Best(np.full(queries, -np.inf, np.float32), np.full(queries, NO_ROW), zeros)
        return cls(0, Counts(zeros, zeros), nothing)

    @classmethod
    def of(cls, prefix: Prefix) -> Crowd:
        """What a search of a prefix found."""
        leaders = prefix.survey.leaders
        return cls(prefix.rows, prefix.survey.counts, Best(leaders.scores, leaders.rows, leaders.tied))

    def take(self, queries: NDArray[np.int64]) -> Crowd:
        """The same for some of the queries, int64 [n]."""
        counts = Counts(self.counts.above[queries], self.counts.tied[queries])
        return Crowd(self.rows, counts, take_best(self.top, queries))


@dataclass(frozen=True)
class JoinedSearch:
    """Originals, a gallery variant's items if there is one, and distractors, for the same queries."""

    base: BaseSearch
    crowd: Crowd
    variant: VariantSearch | None = None

    @property
    def tops(self) -> tuple[Best | None, Best | None, Best]:
        """The top of every origin, in the order of `ORIGINS`; None where the gallery has no such shard."""
        return self.base.top, None if self.variant is None else self.variant.top, self.crowd.top

    @property
    def top_score(self) -> NDArray[np.float32]:
        """float32 [queries]: the highest score."""
        score: NDArray[np.float32] = np.max([top.score for top in self.tops if top is not None], axis=0)
        return score

    def standing(self) -> Standing:
        """Where the best positive stands."""
        counts = self.base.counts + self.crowd.counts
        if self.variant is not None:
            counts += self.variant.counts
        return Standing(counts.above, counts.tied, self.base.positive.tied)

    def leaders(self) -> Top:
        """The rows at the top; distractors are genuine, they are nobody's fake."""
        score = self.top_score
        genuine = at_score(self.base.top, score) + at_score(self.crowd.top, score)
        if self.variant is None:
            none = np.zeros_like(genuine)
            return Top(genuine, none, none)
        return Top(genuine, at_score(self.variant.top, score), at_score(self.variant.own, score))

    def first_origin(self) -> NDArray[np.int64]:
        """int64 [queries]: the place in `ORIGINS` of the first row listed."""
        score = self.top_score
        none = np.zeros(len(score), np.bool_)
        leads = [none if top is None else top.score == score for top in self.tops]
        place: NDArray[np.int64] = np.argmax(np.stack(leads), axis=0)
        return place


def at_score(best: Best, score: NDArray[np.float32]) -> NDArray[np.int64]:
    """int64 [queries]: how many rows have the score, which none of them exceeds."""
    return np.where(best.score == score, best.tied, 0)
