"""Query perturbations: what all of them share.

A perturbation replaces the text of every caption when it asks (text to image); the image gallery stays as it
is. A caption that the rule cannot change stays among the queries, marked as unchanged with the reason, so
that every run has the same queries and the changed rate says how many of them were put to the test. A rule
that fails lets the command fail: no clean caption stands in for a perturbed one. Source: `Assessing
Brittleness of Image-Text Retrieval Benchmarks`, its perturbations of the query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.variants.checks import require_change
from engine.variants.parameters import DEFAULT, Mode
from engine.variants.query_cache import cache_file, read_queries, write_queries
from engine.variants.rng import item_rng
from engine.variants.variant import Modality, Side, VariantItem, VariantItems


@dataclass(frozen=True)
class Perturbed:
    """The text that asks, a JSON-ready record of what was done, and why it is `unchanged` if it is.

    In paper mode the text of an unchanged query may be spaced otherwise than its caption (``hat .``), because
    the published rule joins tokens.
    """

    text: str
    change: Mapping[str, Any] = field(default_factory=dict)
    unchanged: str | None = None


Rule = Callable[[Caption], Perturbed]


@dataclass(frozen=True)
class QueryPerturbation(ABC):
    """A variant whose items are the texts of all captions, in corpus order, perturbed by one rule."""

    mode: Mode = DEFAULT
    side: ClassVar[Side] = "query"
    modality: ClassVar[Modality] = "captions"
    perturbation: ClassVar[str]

    @property
    def name(self) -> str:
        """The perturbation, then ``mode=paper`` when it is, then the seed where chance plays a part."""
        return ":".join([self.perturbation, *([] if self.mode == DEFAULT else [f"mode={self.mode}"])])

    @abstractmethod
    def rule(self, corpus: Corpus) -> Rule:
        """What turns a caption into its query, in the variant's mode; prepared once for the corpus."""

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item a caption, in corpus order.

        An item's `change` holds the perturbation, the mode, what was done, and for an unchanged one the
        reason under ``unchanged``. Raises `InputError` when no caption can be changed.
        """
        name = self.name
        pairs = zip(corpus.captions, self._perturbed(corpus), strict=True)
        items = tuple(self._item(row, *pair, name) for row, pair in enumerate(pairs))
        return require_change(name, VariantItems(items, made_with=self.made_with(), note=self.note()))

    def made_with(self) -> Mapping[str, Any]:
        """What all queries are made with beyond the name and the installed packages, for people."""
        return {}

    def note(self) -> str:
        """As of `VariantItems`."""
        return ""

    def tools(self) -> str:
        """What the queries depend on beside the name and the installed packages, for the cache of them."""
        return ""

    def _perturbed(self, corpus: Corpus) -> Sequence[Perturbed]:
        """The queries of all captions, kept ones where there is a cache; a plug-in's are not kept."""
        ours = type(self).__module__.startswith(f"{__package__}.")
        file = cache_file(self.name, self.tools, corpus) if ours else None
        kept = read_queries(file, len(corpus.captions))
        if kept is not None:
            return [Perturbed(*record) for record in kept]
        rule = self.rule(corpus)
        made = [rule(caption) for caption in corpus.captions]
        write_queries(file, [(one.text, dict(one.change), one.unchanged) for one in made])
        return made

    def _item(self, row: int, caption: Caption, perturbed: Perturbed, name: str) -> VariantItem:
        change = {"perturbation": self.perturbation, "mode": self.mode, **perturbed.change}
        if perturbed.unchanged is not None:
            change["unchanged"] = perturbed.unchanged
        changed = perturbed.unchanged is None
        return VariantItem(f"{caption.id}@{name}", row, perturbed.text, changed, change)


@dataclass(frozen=True)
class SeededPerturbation(QueryPerturbation):
    """A perturbation with chance in it: every choice is drawn from (seed, caption id)."""

    seed: int = 0

    @property
    def name(self) -> str:
        """Such as ``shuffle_all_words:mode=paper:seed=0``."""
        return f"{super().name}:seed={self.seed}"

    def rng(self, caption: Caption) -> np.random.Generator:
        """The generator of one caption, the perturbation's own."""
        return item_rng(self.seed, caption.id, self.perturbation)
