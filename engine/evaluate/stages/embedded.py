"""Scores are inner products of embeddings: the base is searched once, a variant only in its own shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from engine.evaluate.gallery import Items, Queries
from engine.evaluate.search import BaseSearch, VariantSearch, search_base, search_variant
from engine.evaluate.stages.stage import LOAD, SEARCH_VARIANT, Watched
from engine.stopwatch import Stopwatch
from indexes.protocol import Origin, SearchBackend


@dataclass
class EmbeddedStage:
    """Exact search. `gallery` are the originals, `open_shard` opens a shard of items."""

    gallery: Items
    open_shard: Callable[[Items, Origin], SearchBackend]
    watched: Watched
    record = None

    @property
    def key(self) -> Mapping[str, str]:
        """Nothing: the backend cannot change a result."""
        return {}

    @cached_property
    def backend(self) -> SearchBackend:
        """The originals' shard, opened."""
        return self.open_shard(self.gallery, "original")

    def originals(self, queries: Queries, watch: Stopwatch, stage: str) -> BaseSearch:
        """One search of the originals."""
        with watch.stage(LOAD):
            backend = self.backend
        with watch.stage(stage), self.watched(queries.items.name, len(queries)) as advance:
            return search_base(queries, self.gallery, backend, advance=advance)

    def beside(
        self, queries: Queries, base: BaseSearch, fakes: Items, watch: Stopwatch
    ) -> tuple[BaseSearch, VariantSearch]:
        """One search of the variant's shard; what the originals score is what it was."""
        with watch.stage(LOAD):
            backend = self.open_shard(fakes, "adversarial")
        with watch.stage(SEARCH_VARIANT), self.watched(fakes.name, len(queries)) as advance:
            found = search_variant(queries, base.positive.score, fakes, backend, advance=advance)
        return base, found

    def block_scores(self, queries: Queries, fakes: Items | None) -> None:
        """None: lists come from the shards."""
