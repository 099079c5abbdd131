"""Metrics that need lists: set recall and DCG_CM. They cost one more search a run, so they are asked for.

Definitions (``spec/brittleness.md``; Assessing Brittleness, section on metrics):

- set recall@k = ``100 * mean(positives within k / min(positives, k))``, where R@k asks for one of them only.
  Ties at the k-th place are valued by the run's policy. The study divides i2t's at 5 and 10 by 5, not by
  min(positives, k): at 10 a query with six positives (ten of COCO's 5,000 images) counts up to 6/5 there.
- DCG_CM@10 = mean over queries of ``sum over ranks i of rel_i / log2(i + 1)``, with rel = 1 for a positive
  and else the cosine of query and candidate: the evaluated model's own (`relevance` self), or that of another
  encoder's store of the same corpus. At most 4.5436. Equal scores are taken in the order listed,
  whatever the run's tie policy: originals before adversarial items, then by row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.gallery import Items, Relation, gather, load_items
from engine.evaluate.indexed import AnySets
from engine.evaluate.metrics import CUTOFFS
from engine.evaluate.ranking import Listed, Ranker, pair_scores
from engine.evaluate.results import Direction
from engine.evaluate.sample import DCG_GAIN, SET_HIT, Values
from engine.evaluate.sets import no_such_variant, run_key, variant_sets
from engine.evaluate.ties import DEFAULT_POLICY, TiePolicyName
from engine.store.reader import Store, check_embeddings
from engine.store.same_items import items_digest

DCG_DEPTH = 10
DIGITS = 12  # of a fingerprint in what results record

Found = Callable[[Values, Values, Values, Values], Values]


def expected_found(above: Values, tied: Values, places: Values, rows: Values) -> Values:
    """Over a random order of the tied rows: their places go to positives by their share."""
    result: Values = above + places * tied / rows
    return result


def optimistic_found(above: Values, tied: Values, places: Values, rows: Values) -> Values:
    """Tied positives are listed before other tied rows."""
    result: Values = above + np.minimum(tied, places)
    return result


def pessimistic_found(above: Values, tied: Values, places: Values, rows: Values) -> Values:
    """Tied positives are listed after other tied rows."""
    result: Values = above + np.maximum(places - (rows - tied), 0)
    return result


# policy -> positives within k, from those above the k-th score, those tied with it, the places left for tied
# rows, and the number of tied rows
FOUND: Mapping[TiePolicyName, Found] = {
    "expected": expected_found,
    "optimistic": optimistic_found,
    "pessimistic": pessimistic_found,
}


def dcg(relevance: Values) -> Values:
    """float64 [queries]: ``sum of rel_i / log2(i + 1)`` for relevances float64 [queries, depth], i from 1."""
    result: Values = relevance @ (1.0 / np.log2(np.arange(relevance.shape[1]) + 2.0))
    return result


@dataclass(frozen=True)
class RankedMetrics:
    """What is measured on lists; `other`: the store whose cosines are the relevance (None: the run's own)."""

    other: Store | None = None

    @property
    def relevance(self) -> str:
        """What it is: ``self``, or the other encoder's spec and fingerprint."""
        if self.other is None:
            return "self"
        return f"{self.other.header.encoder_spec} ({self.other.header.encoder_fingerprint[:DIGITS]})"

    def relevance_of(self, direction: Direction, variant: str | None) -> str:
        """How a run records it: with a digest of all that its cosines depend on, the items among it.

        Raises `InputError` when the other store lacks a set of the run.
        """
        if self.other is None:
            return self.relevance
        known = variant_sets(self.other, direction)
        if variant is not None and variant not in known:
            raise no_such_variant(self.other, variant, list(known))
        key = run_key(self.other, direction, variant, DEFAULT_POLICY)
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return f"{self.relevance}, sets {digest[:DIGITS]}"

    def columns(self, search: DirectionSearch, variant: str | None) -> dict[str, Values]:
        """Per-query values float64 [queries]: set hits at every cut-off and DCG, in the run's order.

        Raises `InputError` when the other store is of another corpus or lacks a set.
        """
        ranker = Ranker.of(search, variant)
        relation = Relation.by_image(ranker.queries.image, ranker.gallery.image)
        cosines = self.cosines(search, ranker)
        parts: list[dict[str, Values]] = []
        with search.watched(f"{variant or 'original'} lists", len(ranker.queries)) as advance:
            for listed in ranker.lists(max(DCG_DEPTH, *CUTOFFS)):
                hits = set_hits(ranker, relation, listed, FOUND[search.policy.name])
                if cosines is not None:
                    positive = ranker.is_positive(listed)[:, :DCG_DEPTH]
                    cosine = cosines(listed)[:, :DCG_DEPTH].astype(np.float64)
                    hits[DCG_GAIN] = dcg(np.where(positive, 1.0, cosine))
                parts.append(hits)
                advance(listed.stop - listed.start)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def cosines(
        self, search: DirectionSearch, ranker: Ranker
    ) -> Callable[[Listed], NDArray[np.float32]] | None:
        """The relevance of listed rows that are no positives; None where scores are no cosines and no other
        store was named, so that there is no DCG."""
        stage = search.stage.record
        other: AnySets | None = search.store if stage is not None and stage.kind == "two-stage" else None
        other = self.other or other
        if other is not None:
            return OtherCosines.of(search.store, other, ranker).of_rows
        return (lambda listed: listed.scores) if stage is None else None


def set_hits(ranker: Ranker, relation: Relation, listed: Listed, found: Found) -> dict[str, Values]:
    """``positives within k / min(positives, k)`` for every cut-off: float64 [queries of the block]."""
    query, row = relation.pairs(listed.start, listed.stop)
    scores = ranker.pair_scores(listed, query, row)
    positives = relation.counts[listed.start : listed.stop].astype(np.float64)
    result = {}
    for k in CUTOFFS:
        place = min(k, ranker.size)
        threshold = np.ascontiguousarray(listed.scores[:, place - 1])
        counts = ranker.counts(listed, threshold)
        above = np.bincount(query, scores > threshold[query], len(threshold)).astype(np.float64)
        tied = np.bincount(query, scores == threshold[query], len(threshold)).astype(np.float64)
        places = (place - counts.above).astype(np.float64)
        within = found(above, tied, places, counts.tied.astype(np.float64))
        result[SET_HIT[k]] = within / np.minimum(positives, k)
    return result


@dataclass(frozen=True)
class OtherCosines:
    """Cosines of another encoder for the rows that a ranker lists."""

    queries: Items
    gallery: Items
    fakes: Items | None
    asks: NDArray[np.int64]

    @classmethod
    def of(cls, store: AnySets, other: AnySets, ranker: Ranker) -> OtherCosines:
        """The same items in the other store. Raises `InputError` when it holds others."""
        check_embeddings(other)
        if store.header.corpus_fingerprint != other.header.corpus_fingerprint:
            raise InputError(
                f"{other.path}: of another corpus than {store.path}; the relevance needs one of the same"
            )
        sets = (ranker.queries.items, ranker.gallery, ranker.fakes)
        found = [None if one is None else same_items(store, other, one) for one in sets]
        assert found[0] is not None
        assert found[1] is not None
        return cls(found[0], found[1], found[2], ranker.queries.number)

    def of_rows(self, listed: Listed) -> NDArray[np.float32]:
        """float32 [queries, depth]: the cosine of each query and each of its listed rows."""
        depth = listed.rows.shape[1]
        vectors = gather(self.queries.rows, self.asks[listed.start : listed.stop])
        query, row = np.repeat(np.arange(len(vectors)), depth), listed.rows.ravel()
        result = np.empty(len(row), dtype=np.float32)
        is_fake = row >= len(self.gallery)
        for items, chosen, first in (
            (self.gallery, ~is_fake, 0),
            (self.fakes, is_fake, len(self.gallery)),
        ):
            if items is not None:
                result[chosen] = pair_scores(vectors, items, query[chosen], row[chosen] - first)
        return result.reshape(-1, depth)


def same_items(store: AnySets, other: AnySets, items: Items) -> Items:
    """The set of the other store with the same items in the same rows; `InputError` when it has others.

    Texts and recipes count, not only ids: a set of the same name may have been made otherwise.
    """
    found = load_items(other, items.modality, items.name)
    ours, theirs = (items_digest(one.load(items.modality, items.name)) for one in (store, other))
    if ours != theirs or not np.array_equal(found.row, items.row):
        raise InputError(
            f"{other.path}: its set {items.modality}/{items.name} has other items than {store.path}; the "
            "relevance needs the same ones"
        )
    return found
