"""What a way of scoring is: it says where the queries of one direction stand, with and without a variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.gallery import Items, Queries
from engine.evaluate.results import StageRecord
from engine.evaluate.search import BaseSearch, VariantSearch
from engine.progress import Advance
from engine.stopwatch import Stopwatch

LOAD, SEARCH_BASE, SEARCH_VARIANT, SCORE_PAIRS = "load", "search base", "search variant", "score pairs"


class Watched(Protocol):
    """Tells whoever watches of one piece of work: its name, how much it is, and of what."""

    def __call__(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Advance]:
        """A context manager that gives the function to call with what was just done."""


BlockScores = Callable[[int, int], NDArray[np.float32]]
"""Scores float32 [queries, rows] of queries [start, stop) with all originals, then with a variant's items."""


class Stage(Protocol):
    """One way of scoring, for the queries and the originals of one direction of one store.

    Where an item has no score of its own (outside of a shortlist) it scores ``-inf``: below all that have
    one, and tied with all others that have none.
    """

    @property
    def record(self) -> StageRecord | None:
        """What results say of it; None for embeddings alone."""

    @property
    def key(self) -> Mapping[str, str]:
        """What it adds to the key of a run (`engine.evaluate.sets.run_key`)."""

    def originals(self, queries: Queries, watch: Stopwatch, stage: str) -> BaseSearch:
        """The originals seen from some queries; `stage` is the name under which a search is timed."""

    def beside(
        self, queries: Queries, base: BaseSearch, fakes: Items, watch: Stopwatch
    ) -> tuple[BaseSearch, VariantSearch]:
        """The originals and a variant's items in one gallery; `base` is what `originals` gave."""

    def block_scores(self, queries: Queries, fakes: Items | None) -> BlockScores | None:
        """What lists are made from; None where they come from a search of shards."""
