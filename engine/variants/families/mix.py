"""`mix:L[:seed=S]`: a fake image blended into every original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.fakes import cover, pair_with_fakes
from engine.variants.parameters import (
    LEVEL_EXPECTED,
    format_level,
    level_parameter,
    parse_level,
    seed_parameter,
)
from engine.variants.recipes import ImageReference, RecipeFields, recipe_kind, rgb_sources
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItem, VariantItems


@recipe_kind
@dataclass(frozen=True)
class MixRecipe:
    """level * original + (1 - level) * fake, in integers, every value rounded half up."""

    kind: ClassVar[str] = "mix"

    original: ImageReference
    fake: ImageReference
    level: Decimal

    @property
    def sources(self) -> tuple[int, ...]:
        """Rows of the original and the fake."""
        return (self.original.row, self.fake.row)

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The blend, at the original's size; the fake covers it (`engine.variants.fakes.cover`)."""
        original, fake = rgb_sources(self, images)
        kept, whole = self.level.as_integer_ratio()
        blend = kept * np.asarray(original, dtype=np.int32)
        blend += (whole - kept) * np.asarray(cover(fake, original.size), dtype=np.int32)
        return Image.fromarray(((2 * blend + whole) // (2 * whole)).astype(np.uint8))

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        return {
            "kind": self.kind,
            "level": format_level(self.level),
            "original": self.original.describe(),
            "fake": self.fake.describe(),
        }

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> MixRecipe:
        """The recipe that described itself so."""
        level = fields.parsed("level", parse_level, LEVEL_EXPECTED)
        return cls(fields.image("original"), fields.image("fake"), level)


@family("mix", level_parameter(), seed_parameter())
@dataclass(frozen=True)
class Mix:
    """Every image with another image of the corpus blended in: x = L * original + (1 - L) * fake.

    L (for instance 0.9) is the original's share. The fake is drawn from (seed, image id) among the corpus'
    other images, scaled and cropped in its middle to the original's size, both aspect ratios kept. The blend
    is exact in integers, rounded half up, and goes to the encoder with no JPEG in between. Source: RoCOCO,
    image galleries, default mode.
    """

    level: Decimal
    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "images"

    @property
    def name(self) -> str:
        """Such as ``mix:0.9:seed=1``."""
        return f"mix:{format_level(self.level)}:seed={self.seed}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an image, in corpus order.

        Raises `InputError` for a corpus of fewer than two images, and for a level so near 1 that no value of
        0 to 255 could change.
        """
        if (1 - self.level) * 255 < Decimal("0.5"):
            raise InputError(f"{self.name}: a fake's share below 1/510 changes no pixel; take a lower level")
        recipes = (MixRecipe(*pair, self.level) for pair in pair_with_fakes(corpus, self.seed, self.name))
        return VariantItems(
            tuple(
                VariantItem(f"{r.original.id}@{self.name}", r.original.row, r, True, r.describe())
                for r in recipes
            )
        )
