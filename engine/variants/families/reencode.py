"""`reencode`: every original, encoded again as the published fakes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.corpus.corpus import Corpus
from engine.variants.checks import require_change
from engine.variants.published_images import ReencodeRecipe
from engine.variants.recipes import ImageReference
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItem, VariantItems


@family("reencode")
@dataclass(frozen=True)
class Reencode:
    """A control: every image squashed to 384 x 384 and saved as a JPEG, with nothing mixed in or pasted.

    What mix and patch do in paper mode besides the fake. In the gallery an original and its own copy compete:
    the IR@1 is what the resize and the JPEG alone do to a model, the part of the paper mode's IR@1 that no
    fake is needed for. Source: RoCOCO, image galleries, control.
    """

    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "images"
    name: ClassVar[str] = "reencode"

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an image, in corpus order."""
        recipes = (ReencodeRecipe(ImageReference(row, image.id)) for row, image in enumerate(corpus.images))
        items = (
            VariantItem(f"{r.original.id}@{self.name}", r.original.row, r, True, r.describe())
            for r in recipes
        )
        return require_change(self.name, VariantItems(tuple(items)))
