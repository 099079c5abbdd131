"""`mix:L[:mode=paper][:seed=S]`: a fake image blended into every original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar

import numpy as np
from PIL import Image

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.fakes import (
    PairRecipe,
    Pixels,
    blend,
    cover,
    image_variant_name,
    pair_with_fakes,
    value_pairs,
)
from engine.variants.parameters import (
    DEFAULT,
    LEVEL_EXPECTED,
    PAPER,
    Mode,
    level_parameter,
    mode_parameter,
    parse_level,
    seed_parameter,
)
from engine.variants.published_images import published_mix
from engine.variants.recipes import RecipeFields, recipe_kind, rgb_sources
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItem, VariantItems


@lru_cache(maxsize=16)
def weighted_means(level: Decimal) -> Pixels:
    """uint8 [65536]: level * original + (1 - level) * fake, rounded half up, for every pair of values."""
    kept, whole = level.as_integer_ratio()
    original, fake = (values.astype(np.int64) for values in value_pairs())
    means = kept * original + (whole - kept) * fake
    return ((2 * means + whole) // (2 * whole)).astype(np.uint8)


@recipe_kind
@dataclass(frozen=True)
class MixRecipe(PairRecipe):
    """level * original + (1 - level) * fake, in integers, every value rounded half up."""

    kind: ClassVar[str] = "mix"

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The blend, at the original's size; the fake covers it (`engine.variants.fakes.cover`)."""
        original, fake = rgb_sources(self, images)
        return blend(original, cover(fake, original.size), weighted_means(self.level))

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> MixRecipe:
        """The recipe that described itself so."""
        level = fields.parsed("level", parse_level, LEVEL_EXPECTED)
        return cls(fields.image("original"), fields.image("fake"), level)


@family("mix", level_parameter(), mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class Mix:
    """Every image with another image of the corpus blended in: x = L * original + (1 - L) * fake.

    L (for instance 0.9) is the original's share. The fake is drawn from (seed, image id) among the corpus'
    other images, scaled and cropped in its middle to the original's size, both aspect ratios kept. The blend
    is exact in integers, rounded half up, and goes to the encoder with no JPEG in between.

    In paper mode as published: all images are squashed to 384 x 384, the fakes are those of a random
    permutation in shuffled batches of 64 (the published script's own, for the seed and the order of the
    images), an image that is its own fake is unchanged, and every blend is saved as a JPEG. Source: RoCOCO,
    image galleries.
    """

    level: Decimal
    mode: Mode = DEFAULT
    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "images"

    @property
    def name(self) -> str:
        """Such as ``mix:0.9:seed=1`` or ``mix:0.9:mode=paper:seed=1``."""
        return image_variant_name("mix", self.level, self.mode, self.seed)

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an image, in corpus order.

        Raises `InputError` for a corpus of fewer than two images, for a level so near 1 that no value of 0 to
        255 could change, and as `engine.variants.published_images.published_mix`.
        """
        if (1 - self.level) * 255 < Decimal("0.5"):
            raise InputError(f"{self.name}: a fake's share below 1/510 changes no pixel; take a lower level")
        if self.mode == PAPER:
            return published_mix(corpus, self.name, self.level, self.seed)
        recipes = (MixRecipe(*pair, self.level) for pair in pair_with_fakes(corpus, self.seed, self.name))
        return VariantItems(
            tuple(
                VariantItem(f"{r.original.id}@{self.name}", r.original.row, r, True, r.describe())
                for r in recipes
            )
        )
