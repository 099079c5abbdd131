"""What a variant is: a named, seeded transformation of a corpus into items beside the originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from PIL.Image import Image

from engine.corpus.corpus import Corpus

Side = Literal["gallery", "query"]
Modality = Literal["captions", "images"]


class ImageRecipe(Protocol):
    """How an adversarial image is drawn from images of the corpus; any item can be drawn again alone."""

    @property
    def sources(self) -> tuple[int, ...]:
        """Rows of the corpus images that `draw` needs, the original first."""

    def draw(self, images: Sequence[Image]) -> Image:
        """The adversarial image (RGB) from the source images (RGB), given in the order of `sources`."""

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready parameters that say what is drawn; equal recipes give equal descriptions."""


@dataclass(frozen=True)
class VariantItem:
    """One item of a variant.

    `source` is the row of the original in the corpus (captions or images, by the variant's modality),
    `content` the text or the image recipe, `changed` whether it differs from its original, `change` a
    JSON-ready record of what was done.
    """

    id: str
    source: int
    content: str | ImageRecipe
    changed: bool
    change: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VariantItems:
    """What `Variant.apply` gives: the items, and the rows of originals that have none, with the reason.

    `made_with` is a JSON-ready record of what all items were made with beyond the variant's name: the digests
    of files, the encoders, the source of a vocabulary. `note` is a line for whoever makes them where
    they are not what the name lets expect.
    """

    items: tuple[VariantItem, ...]
    left_out: Mapping[int, str] = field(default_factory=dict)
    made_with: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def changed_rate(self) -> float:
        """Share of items in [0, 1] that differ from their originals; 0.0 when there is no item."""
        return sum(item.changed for item in self.items) / len(self.items) if self.items else 0.0


class Variant(Protocol):
    """A member of the registry in `engine.variants.registry`, found by a spec such as ``mix:0.9:seed=1``."""

    @property
    def name(self) -> str:
        """Canonical name with all parameters; the set's name in a store. Never holds a slash."""

    @property
    def side(self) -> Side:
        """Whether it adds adversarial items beside the originals ("gallery") or replaces the query texts."""

    @property
    def modality(self) -> Modality:
        """What its items are."""

    def apply(self, corpus: Corpus) -> VariantItems:
        """Make the items. Deterministic: every choice is drawn from (seed, id of the original).

        Raises `engine.errors.InputError` when it does not fit the corpus or would change nothing.
        """
