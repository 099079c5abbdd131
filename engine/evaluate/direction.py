"""The runs of one direction of one store: the base is searched once, each variant only in its own shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate import metrics
from engine.evaluate.distractors import Distractors
from engine.evaluate.gallery import Items, Queries, Relation, load_items
from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.joined import Crowd, JoinedSearch
from engine.evaluate.metrics import Outcome
from engine.evaluate.outcomes import Answered, Asked, base_search_of, outcomes_table
from engine.evaluate.results import GALLERY_MODALITY, QUERY_MODALITY, Direction, Run
from engine.evaluate.search import BaseSearch, VariantSearch
from engine.evaluate.sets import no_such_variant, run_key, variant_sets
from engine.evaluate.stages.embedded import EmbeddedStage
from engine.evaluate.stages.matrix import MatrixStage
from engine.evaluate.stages.reranking import Reranking
from engine.evaluate.stages.stage import LOAD, SEARCH_BASE, SEARCH_VARIANT, Stage
from engine.evaluate.stages.two_stage import TwoStage
from engine.evaluate.ties import DEFAULT_POLICY, Standing, TiePolicy, Top, tie_policy
from engine.progress import Advance, Progress, Silent
from engine.stopwatch import Stopwatch
from engine.store.reader import check_embeddings
from engine.store.schema import ORIGINAL, VariantRecord
from indexes.memory import MemoryLimit
from indexes.protocol import Origin, SearchBackend
from indexes.registry import open_backend
from indexes.streaming import STREAMED, open_limited

UNDEFINED = {metrics.DROP_RATE: "recall@1 without the variant is 0"}
METRICS, SEARCH_DISTRACTORS = "metrics", "search distractors"


@dataclass(frozen=True)
class Valued:
    """A standing and a top with what they are worth under the policy."""

    standing: Standing
    top: Top
    outcome: Outcome

    @classmethod
    def under(cls, policy: TiePolicy, joined: JoinedSearch) -> Valued:
        """Value every query."""
        standing, top = joined.standing(), joined.leaders()
        return cls(standing, top, metrics.outcome(policy, standing, top))

    @property
    def tied_queries(self) -> float:
        """How many queries' rank or IR@1 depends on the policy."""
        return float(metrics.tie_counts(self.standing, self.top)[metrics.TIED_QUERIES])


def run_metrics(before: Valued, after: Valued, found: Found) -> dict[str, float | None]:
    """The metrics of a run; those of losses and of fooling only where there is a variant to do so."""
    new = metrics.rank_metrics(after.outcome)
    values: dict[str, float | None] = dict(new)
    if found.items is not None:
        assert found.items.changed is not None
        old_recall = metrics.recall(before.outcome.hits[1])
        values[metrics.DROP_RATE] = metrics.drop_rate(old_recall, new[metrics.RECALL[1]])
        values[metrics.CHANGED_RATE] = metrics.changed_rate(found.items.changed)
    values[metrics.TIED_QUERIES] = after.tied_queries
    if found.variant is not None:
        values.update(metrics.fooled_metrics(after.outcome))
    return values


def check_changed(items: Items) -> None:
    """Raise `InputError` for a variant whose items all equal their originals: it would test nothing."""
    if items.changed is not None and not items.changed.any():
        raise InputError(
            f"variant {items.name!r} changes nothing: all its {len(items):,} items equal their originals; "
            "evaluate another one, or make it anew"
        )


@dataclass(frozen=True)
class Found:
    """All that was searched for one variant (or none); its runs among any number of distractors follow.

    `queries` ask in `base`, `variant` and `crowds`; `base` are the originals in a gallery with the variant's
    items. `before` and `crowds_before` are what the queries' original forms find without the variant, the
    same objects where that is the same. `crowds` have an entry a size.
    """

    queries: Queries
    base: BaseSearch
    before: BaseSearch
    crowds: Mapping[int, Crowd]
    crowds_before: Mapping[int, Crowd]
    items: Items | None = None
    record: VariantRecord | None = None
    variant: VariantSearch | None = None

    @property
    def fakes(self) -> Items | None:
        """The items in the gallery, of a gallery variant."""
        return None if self.variant is None else self.items

    def joined(self, distractors: int) -> JoinedSearch:
        """The run's gallery."""
        return JoinedSearch(self.base, self.crowds[distractors], self.variant)

    def joined_before(self, distractors: int) -> JoinedSearch:
        """The gallery without the variant."""
        return JoinedSearch(self.before, self.crowds_before[distractors])


@dataclass
class DirectionSearch:
    """One direction of one store: holds the base search, so that it is done once for all variants.

    `ties` is a policy's name, `backend` a search backend's. `distractors` are searched once, for all their
    sizes and all variants that leave the queries alone. `limit` is for the memory of the process: a shard
    that does not fit well below it is streamed. With `rerank` the best are scored once more; a store of
    scores is read as it is. The store must stay open. Raises `InputError` when the sets cannot be searched in
    this direction.
    """

    store: AnySets
    direction: Direction
    ties: str = DEFAULT_POLICY
    backend: str = "auto"
    progress: Progress = field(default_factory=Silent)
    backends: set[tuple[str, str]] = field(default_factory=set)
    distractors: Distractors | None = None
    limit: MemoryLimit | None = None
    rerank: Reranking | None = None
    _base: BaseSearch | None = None
    _crowds: Mapping[int, Crowd] | None = None
    _found: tuple[str | None, Found] | None = None

    @cached_property
    def policy(self) -> TiePolicy:
        """The tie policy."""
        return tie_policy(self.ties)

    @cached_property
    def gallery(self) -> Items:
        """The originals that are searched."""
        return load_items(self.store, GALLERY_MODALITY[self.direction])

    @cached_property
    def queries(self) -> Queries:
        """The originals that ask."""
        return Queries.with_positives(load_items(self.store, QUERY_MODALITY[self.direction]), self.gallery)

    @cached_property
    def original_ids(self) -> Sequence[str]:
        """Ids of all rows of the asking modality, skipped ones included."""
        return self.store.load(QUERY_MODALITY[self.direction], ORIGINAL).ids

    @cached_property
    def image_ids(self) -> Sequence[str]:
        """Ids of all image rows, skipped ones included."""
        return self.store.load("images", ORIGINAL).ids

    @cached_property
    def embedded(self) -> EmbeddedStage:
        """The search by embeddings."""
        return EmbeddedStage(self.gallery, self.open, self.watched)

    @cached_property
    def stage(self) -> Stage:
        """How items get their scores."""
        if self.store.header.rows == "scores":
            return MatrixStage(self.direction, self.gallery, self.store.header, self.watched)
        if self.rerank is None:
            return self.embedded
        return TwoStage(self.direction, self.embedded, self.rerank)

    @property
    def base_backend(self) -> SearchBackend:
        """The originals' shard, opened."""
        return self.embedded.backend

    def open(self, items: Items, origin: Origin) -> SearchBackend:
        """Open a shard of the gallery, and remember which backend and device it got."""
        shard = items.shard(origin)
        check_embeddings(self.store)
        if self.limit is None:
            opened = open_backend(self.backend, shard)
        else:
            opened = open_limited(self.backend, shard, self.limit)
        self.backends.add((opened.name, getattr(opened, "device", "cpu")))
        return opened

    def adopt(self, table: pa.Table) -> None:
        """Take the base search from the outcomes of a finished run without variant.

        Raises `InputError` when they are of other queries or of another gallery.
        """
        self._base = base_search_of(table, self.queries, self.gallery, self.original_ids)

    def base(self, watch: Stopwatch) -> BaseSearch:
        """The base search, done when first asked for."""
        if self._base is None:
            with watch.stage(LOAD):
                queries = self.queries
            self._base = self.stage.originals(queries, watch, SEARCH_BASE)
        return self._base

    def watched(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Advance]:
        """The progress of one piece of work."""
        return self.progress.task(f"{self.direction} {name}", total, unit)

    def crowds(self, queries: Queries, base: BaseSearch, watch: Stopwatch) -> Mapping[int, Crowd]:
        """The distractors seen from some queries, at every size, none included."""
        found = {0: Crowd.nobody(len(queries))}
        if self.distractors is None:
            return found
        self.backends.add((STREAMED, "cpu"))
        size = self.distractors.sizes[-1]
        label = f"{self.direction} {queries.items.name}, {self.distractors.name}"
        with watch.stage(SEARCH_DISTRACTORS), self.progress.task(label, size, "rows") as advance:
            scores = base.positive.score
            return found | self.distractors.search(queries, scores, self.backend, self.limit, advance)

    def crowds_of_originals(self, watch: Stopwatch) -> Mapping[int, Crowd]:
        """The distractors seen from the original queries, searched when first asked for."""
        if self._crowds is None:
            self._crowds = self.crowds(self.queries, self.base(watch), watch)
        return self._crowds

    def run(self, variant: str | None, watch: Stopwatch, distractors: int = 0) -> tuple[Run, pa.Table]:
        """One run (its timings and outcomes file still empty) and its per-query outcomes.

        `distractors` is 0 or one of the sizes; after the first, sizes of the same variant cost no search.
        Raises `InputError` for an unknown variant or one whose items all equal their originals.
        """
        if self._found is None or self._found[0] != variant:
            self._found = variant, self.find(variant, watch)
        found = self._found[1]
        with watch.stage(METRICS):
            before = Valued.under(self.policy, found.joined_before(distractors))
            after = Valued.under(self.policy, found.joined(distractors))
            return (
                self.describe(found, before, after, distractors),
                self.tabulate(found, before, after, distractors),
            )

    @property
    def fakes(self) -> Items | None:
        """The items in the gallery, of the variant that was run last."""
        return None if self._found is None else self._found[1].fakes

    def find(self, variant: str | None, watch: Stopwatch) -> Found:
        """Search what a variant needs, beside what was searched before."""
        if variant is None:
            base, crowds = self.base(watch), self.crowds_of_originals(watch)
            return Found(self.queries, base, base, crowds, crowds)
        known = variant_sets(self.store, self.direction)
        if variant not in known:
            raise no_such_variant(self.store, variant, list(known))
        record = known[variant].variant
        assert record is not None
        with watch.stage(LOAD):
            items = load_items(self.store, record.modality, variant)
        check_changed(items)
        search = {"gallery": self.find_gallery_variant, "query": self.find_query_variant}
        return search[record.side](items, record, watch)

    def find_gallery_variant(self, fakes: Items, record: VariantRecord, watch: Stopwatch) -> Found:
        """Search a variant's items, which stand beside the originals."""
        base, crowds = self.base(watch), self.crowds_of_originals(watch)
        together, found = self.stage.beside(self.queries, base, fakes, watch)
        return Found(self.queries, together, base, crowds, crowds, fakes, record, found)

    def find_query_variant(self, items: Items, record: VariantRecord, watch: Stopwatch) -> Found:
        """Search for a variant's items, which ask in place of the queries they were made from."""
        originals, crowds = self.base(watch), self.crowds_of_originals(watch)
        with watch.stage(LOAD):
            queries, position = replaced_queries(self.queries, items)
        found = self.stage.originals(queries, watch, SEARCH_VARIANT)
        return Found(
            queries=queries,
            base=found,
            before=originals.take(position),
            crowds=self.crowds(queries, found, watch),
            crowds_before={size: crowd.take(position) for size, crowd in crowds.items()},
            items=items,
            record=record,
        )

    def describe(self, found: Found, before: Valued, after: Valued, distractors: int) -> Run:
        """The run's record, timings and outcomes file still empty."""
        variant, record, queries = found.items, found.record, found.queries
        values = run_metrics(before, after, found)
        gallery: dict[Origin, int] = {"original": len(self.gallery)}
        left_out = {
            "queries_skipped": queries.items.skipped,
            "queries_without_positive": queries.without_positive,
            "gallery_skipped": self.gallery.skipped,
        }
        if variant is not None and record is not None:
            left_out |= {"variant_skipped": variant.skipped, "variant_has_no_item": len(record.left_out)}
        if found.fakes is not None:
            gallery["adversarial"] = len(found.fakes)
        if distractors:
            gallery["distractor"] = distractors
        name = None if variant is None else variant.name
        return Run(
            variant=name,
            side=None if record is None else record.side,
            direction=self.direction,
            queries=len(queries),
            gallery=gallery,
            positives=int(Relation.by_image(queries.image, self.gallery.image).counts.sum()),
            metrics=values,
            undefined={key: UNDEFINED[key] for key, value in values.items() if value is None},
            base=None if variant is None else metrics.rank_metrics(before.outcome),
            ties=self.policy.name,
            tied=metrics.tie_counts(after.standing, after.top),
            left_out=left_out,
            timings={},
            outcomes=None,
            key=self.key(name, distractors),
            distractors=distractors,
            stage=self.stage.record,
            index=self.store.use if isinstance(self.store, IndexedSets) else None,
        )

    def key(self, variant: str | None, distractors: int = 0) -> dict[str, str]:
        """What the outcome of a run depends on."""
        crowd = None
        if distractors:
            assert self.distractors is not None
            crowd = self.distractors.key(distractors)
        return run_key(self.store, self.direction, variant, self.ties, crowd) | dict(self.stage.key)

    def tabulate(self, found: Found, before: Valued, after: Valued, distractors: int) -> pa.Table:
        """The per-query outcomes."""
        name = None if found.items is None else found.items.name
        asked = Asked(self.direction, name, found.queries, self.original_ids, self.image_ids)
        answered = Answered(
            gallery=self.gallery,
            joined=found.joined(distractors),
            standing=after.standing,
            top=after.top,
            outcome=after.outcome,
            base_standing=before.standing,
            base_ranks=before.outcome.ranks,
            fakes=found.fakes,
            distractors="" if self.distractors is None else self.distractors.name,
        )
        return outcomes_table(asked, answered)


def replaced_queries(originals: Queries, items: Items) -> tuple[Queries, NDArray[np.int64]]:
    """A query variant's items whose originals ask, and the position of each one's original (int64 [queries]).

    Raises `InputError` when there is none.
    """
    asking = originals.source
    number = np.flatnonzero(np.isin(items.source, asking))
    if not len(number):
        raise InputError(
            f"variant {items.name!r} has no item whose original is a query; is it of another corpus?"
        )
    return Queries(items, number, len(items) - len(number)), np.searchsorted(asking, items.source[number])
