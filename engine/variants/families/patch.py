"""`patch:L[:mode=paper][:seed=S]`: a box of a fake image pasted over every original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from engine.corpus.corpus import Corpus
from engine.variants.fakes import PairRecipe, cover, image_variant_name, pair_with_fakes
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
from engine.variants.published_images import published_patch
from engine.variants.recipes import RecipeFields, recipe_kind, rgb_sources
from engine.variants.registry import family
from engine.variants.rng import item_rng
from engine.variants.variant import Modality, Side, VariantItem, VariantItems

POSITION_STEPS = 2**32
"""A box position is a whole number in [0, POSITION_STEPS), scaled to the room that an image's size leaves."""


@dataclass(frozen=True)
class Box:
    """`width` x `rows` pixels from (left, top), then `rest` (0 <= rest < width) pixels of one row more."""

    left: int
    top: int
    width: int
    rows: int
    rest: int

    @property
    def pixels(self) -> int:
        """How many pixels it covers."""
        return self.width * self.rows + self.rest

    @property
    def height(self) -> int:
        """Rows it touches."""
        return self.rows + (self.rest > 0)


def fit_box(size: tuple[int, int], level: Decimal, across: int, down: int) -> Box:
    """The box of exactly round((1 - level) * W * H) pixels in an image of `size` (W, H).

    Half a pixel rounds up, and at least one pixel is covered. The sides are close to sqrt(1 - level) times
    the image's; what whole rows cannot hold is in a shorter last row, so the number is exact for every size.
    The box lies inside; `across` and `down` in [0, POSITION_STEPS) choose evenly among the places it can
    have.
    """
    image_width, image_height = size
    share = 1 - Fraction(level)
    pixels = max(1, int(share * image_width * image_height + Fraction(1, 2)))
    width = _rounded_square_root(share * image_width**2)
    width = min(image_width, max(1, width, -(-pixels // image_height)))
    rows, rest = divmod(pixels, width)
    left = across * (image_width - width + 1) // POSITION_STEPS
    top = down * (image_height - rows - (rest > 0) + 1) // POSITION_STEPS
    return Box(left, top, width, rows, rest)


def _rounded_square_root(value: Fraction) -> int:
    """The whole number nearest to the root, by integers alone."""
    return (isqrt(4 * value.numerator // value.denominator) + 1) // 2


@recipe_kind
@dataclass(frozen=True)
class PatchRecipe(PairRecipe):
    """The original with a box of the fake; `across` and `down` place the box for any size."""

    kind: ClassVar[str] = "patch"

    across: int
    down: int

    def box(self, size: tuple[int, int]) -> Box:
        """The box in an original of `size` (width, height)."""
        return fit_box(size, self.level, self.across, self.down)

    def place(self, size: tuple[int, int]) -> Mapping[str, int]:
        """The fields of the box."""
        return asdict(self.box(size))

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The original with the box taken from the fake, which is scaled to cover it (`cover`)."""
        original, fake = rgb_sources(self, images)
        box = self.box(original.size)
        pixels, other = np.array(original), np.asarray(cover(fake, original.size))
        right, bottom = box.left + box.width, box.top + box.rows
        pixels[box.top : bottom, box.left : right] = other[box.top : bottom, box.left : right]
        if box.rest:
            last = slice(box.left, box.left + box.rest)
            pixels[bottom, last] = other[bottom, last]
        return Image.fromarray(pixels)

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        return {**super().describe(), "across": self.across, "down": self.down}

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> PatchRecipe:
        """The recipe that described itself so."""
        level = fields.parsed("level", parse_level, LEVEL_EXPECTED)
        place = (fields.integer(name, POSITION_STEPS) for name in ("across", "down"))
        return cls(fields.image("original"), fields.image("fake"), level, *place)


@family("patch", level_parameter(), mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class Patch:
    """Every image with a box of another image pasted over it; L is the share of original pixels.

    The fake is drawn from (seed, image id) among the corpus' other images and covers the original's size,
    aspect kept; the box takes the same region of it. The box has the image's proportions, lies inside at an
    evenly drawn place, and replaces exactly round((1 - L) * width * height) pixels, at least one: its last
    row is shorter where whole rows do not come out even.

    In paper mode as published: all images are squashed to 384 x 384, the fakes are those of a random
    permutation in shuffled batches of 64 (the published script's own, for the seed and the order of the
    images), an image that is its own fake is unchanged, and every result is saved as a JPEG. One square box a
    batch, about its evenly drawn centre and cut off at the border, so that less than 1 - L is replaced: 8.3,
    15.5, 22.3 and 28.2% on average at L = 0.9 to 0.6. Source: RoCOCO, image galleries.
    """

    level: Decimal
    mode: Mode = DEFAULT
    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "images"

    @property
    def name(self) -> str:
        """Such as ``patch:0.8:seed=0`` or ``patch:0.8:mode=paper:seed=0``."""
        return image_variant_name("patch", self.level, self.mode, self.seed)

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an image, in corpus order.

        Raises `InputError` for a corpus of fewer than two images, and as
        `engine.variants.published_images.published_patch`.
        """
        if self.mode == PAPER:
            return published_patch(corpus, self.name, self.level, self.seed)
        items = []
        for original, fake in pair_with_fakes(corpus, self.seed, self.name):
            across, down = item_rng(self.seed, original.id, "box").integers(POSITION_STEPS, size=2).tolist()
            recipe = PatchRecipe(original, fake, self.level, across, down)
            items.append(
                VariantItem(f"{original.id}@{self.name}", original.row, recipe, True, recipe.describe())
            )
        return VariantItems(tuple(items))
