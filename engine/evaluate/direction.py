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
from engine.evaluate.gallery import Items, Queries, Relation, load_items
from engine.evaluate.metrics import Outcome
from engine.evaluate.outcomes import Answered, Asked, base_search_of, outcomes_table
from engine.evaluate.progress import Advance, Progress, Silent
from engine.evaluate.results import GALLERY_MODALITY, QUERY_MODALITY, Direction, Run
from engine.evaluate.search import DEFAULT_DEPTH, BaseSearch, VariantSearch, search_base, search_variant
from engine.evaluate.sets import no_such_variant, run_key, variant_sets
from engine.evaluate.stopwatch import Stopwatch
from engine.evaluate.ties import DEFAULT_POLICY, Standing, TiePolicy, Top, tie_policy
from engine.store.reader import Store
from engine.store.schema import ORIGINAL, VariantRecord
from indexes.protocol import Origin, SearchBackend
from indexes.registry import open_backend

UNDEFINED = {metrics.DROP_RATE: "recall@1 without the variant is 0"}
LOAD, SEARCH_BASE, SEARCH_VARIANT, METRICS = "load", "search base", "search variant", "metrics"


@dataclass(frozen=True)
class Valued:
    """A standing and a top with what they are worth under the policy."""

    standing: Standing
    top: Top
    outcome: Outcome

    @classmethod
    def under(cls, policy: TiePolicy, standing: Standing, top: Top) -> Valued:
        """Value every query."""
        return cls(standing, top, metrics.outcome(policy, standing, top))

    @property
    def tied_queries(self) -> float:
        """How many queries' rank or IR@1 depends on the policy."""
        return float(metrics.tie_counts(self.standing, self.top)[metrics.TIED_QUERIES])


def variant_metrics(before: Valued, after: Valued, items: Items) -> dict[str, float | None]:
    """The metrics that every variant has."""
    assert items.changed is not None
    new = metrics.rank_metrics(after.outcome)
    return {
        **new,
        metrics.DROP_RATE: metrics.drop_rate(metrics.recall(before.outcome.hits[1]), new[metrics.RECALL[1]]),
        metrics.TIED_QUERIES: after.tied_queries,
        metrics.CHANGED_RATE: metrics.changed_rate(items.changed),
    }


def check_changed(items: Items) -> None:
    """Raise `InputError` for a variant whose items all equal their originals: it would test nothing."""
    if items.changed is not None and not items.changed.any():
        raise InputError(
            f"variant {items.name!r} changes nothing: all its {len(items):,} items equal their originals; "
            "evaluate another one, or make it anew"
        )


@dataclass
class DirectionSearch:
    """One direction of one store: holds the base search, so that it is done once for all variants.

    `ties` is a policy's name, `backend` a search backend's, `depth` how many rows are listed before counting
    (never changes a result). The store must stay open. Raises `InputError` when the sets cannot be searched
    in this direction.
    """

    store: Store
    direction: Direction
    ties: str = DEFAULT_POLICY
    backend: str = "auto"
    depth: int = DEFAULT_DEPTH
    progress: Progress = field(default_factory=Silent)
    backends: set[tuple[str, str]] = field(default_factory=set)
    _base: BaseSearch | None = None

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
    def base_backend(self) -> SearchBackend:
        """The originals' shard, opened."""
        return self.open(self.gallery, "original")

    def open(self, items: Items, origin: Origin) -> SearchBackend:
        """Open a shard of the gallery, and remember which backend and device it got."""
        opened = open_backend(self.backend, items.shard(origin))
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
                backend, queries = self.base_backend, self.queries
            with watch.stage(SEARCH_BASE):
                self._base = self.search_originals(queries, backend)
        return self._base

    def watched(self, name: str, queries: int) -> AbstractContextManager[Advance]:
        """The progress of one search."""
        return self.progress.task(f"{self.direction} {name}", queries, "queries")

    def search_originals(self, queries: Queries, backend: SearchBackend) -> BaseSearch:
        """Search the originals for some queries."""
        with self.watched(queries.items.name, len(queries)) as advance:
            return search_base(queries, self.gallery, backend, depth=self.depth, advance=advance)

    def run(self, variant: str | None, watch: Stopwatch) -> tuple[Run, pa.Table]:
        """One run (its timings and outcomes file still empty) and its per-query outcomes.

        Raises `InputError` for an unknown variant or one whose items all equal their originals.
        """
        if variant is None:
            return self.run_base(watch)
        known = variant_sets(self.store, self.direction)
        if variant not in known:
            raise no_such_variant(self.store, variant, list(known))
        record = known[variant].variant
        assert record is not None
        with watch.stage(LOAD):
            items = load_items(self.store, record.modality, variant)
        check_changed(items)
        runs = {"gallery": self.run_gallery_variant, "query": self.run_query_variant}
        return runs[record.side](items, record, watch)

    def run_base(self, watch: Stopwatch) -> tuple[Run, pa.Table]:
        """The run without variant."""
        base = self.base(watch)
        with watch.stage(METRICS):
            valued = Valued.under(self.policy, base.standing(), base.leaders())
            values = {**metrics.rank_metrics(valued.outcome), metrics.TIED_QUERIES: valued.tied_queries}
            run = self.describe(self.queries, valued, values)
            table = self.tabulate(None, self.queries, base, valued, valued)
        return run, table

    def run_gallery_variant(
        self, fakes: Items, record: VariantRecord, watch: Stopwatch
    ) -> tuple[Run, pa.Table]:
        """The run with a variant's items beside the originals."""
        base = self.base(watch)
        with watch.stage(LOAD):
            backend = self.open(fakes, "adversarial")
        with watch.stage(SEARCH_VARIANT), self.watched(fakes.name, len(self.queries)) as advance:
            found = search_variant(
                self.queries, base.positive.score, fakes, backend, depth=self.depth, advance=advance
            )
        with watch.stage(METRICS):
            before = Valued.under(self.policy, base.standing(), base.leaders())
            after = Valued.under(self.policy, found.standing(base), found.leaders(base))
            values = {**variant_metrics(before, after, fakes), **metrics.fooled_metrics(after.outcome)}
            run = self.describe(self.queries, after, values, before, fakes, record)
            table = self.tabulate(fakes.name, self.queries, base, before, after, fakes, found)
        return run, table

    def run_query_variant(
        self, items: Items, record: VariantRecord, watch: Stopwatch
    ) -> tuple[Run, pa.Table]:
        """The run with a variant's items in place of the queries they were made from."""
        originals = self.base(watch)
        with watch.stage(LOAD):
            queries, position = replaced_queries(self.queries, items)
            backend = self.base_backend
        with watch.stage(SEARCH_VARIANT):
            found = self.search_originals(queries, backend)
        with watch.stage(METRICS):
            taken = originals.take(position)
            before = Valued.under(self.policy, taken.standing(), taken.leaders())
            after = Valued.under(self.policy, found.standing(), found.leaders())
            values = variant_metrics(before, after, items)
            run = self.describe(queries, after, values, before, items, record)
            table = self.tabulate(items.name, queries, found, before, after)
        return run, table

    def describe(
        self,
        queries: Queries,
        valued: Valued,
        values: Mapping[str, float | None],
        before: Valued | None = None,
        variant: Items | None = None,
        record: VariantRecord | None = None,
    ) -> Run:
        """The run's record, timings and outcomes file still empty."""
        gallery: dict[Origin, int] = {"original": len(self.gallery)}
        left_out = {
            "queries_skipped": queries.items.skipped,
            "queries_without_positive": queries.without_positive,
            "gallery_skipped": self.gallery.skipped,
        }
        if variant is not None and record is not None:
            left_out |= {"variant_skipped": variant.skipped, "variant_has_no_item": len(record.left_out)}
            if record.side == "gallery":
                gallery["adversarial"] = len(variant)
        name = None if variant is None else variant.name
        return Run(
            variant=name,
            side=None if record is None else record.side,
            direction=self.direction,
            queries=len(queries),
            gallery=gallery,
            positives=int(Relation.by_image(queries.image, self.gallery.image).counts.sum()),
            metrics=dict(values),
            undefined={key: UNDEFINED[key] for key, value in values.items() if value is None},
            base=None if before is None else metrics.rank_metrics(before.outcome),
            ties=self.policy.name,
            tied=metrics.tie_counts(valued.standing, valued.top),
            changed_rate=values.get(metrics.CHANGED_RATE),
            left_out=left_out,
            timings={},
            outcomes=None,
            key=run_key(self.store, self.direction, name, self.ties),
        )

    def tabulate(
        self,
        variant: str | None,
        queries: Queries,
        base: BaseSearch,
        before: Valued,
        after: Valued,
        fakes: Items | None = None,
        found: VariantSearch | None = None,
    ) -> pa.Table:
        """The per-query outcomes; `base` is the search of the originals by `queries`."""
        asked = Asked(self.direction, variant, queries, self.original_ids, self.image_ids)
        answered = Answered(
            gallery=self.gallery,
            base=base,
            standing=after.standing,
            top=after.top,
            outcome=after.outcome,
            base_standing=before.standing,
            base_ranks=before.outcome.ranks,
            fakes=fakes,
            variant=found,
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
