"""The fake image of every original: which it is, and how it is brought to the original's size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.parameters import DEFAULT, Mode, format_level
from engine.variants.recipes import ImageReference
from engine.variants.rng import item_rng

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class PairRecipe(ABC):
    """What recipes of an original and its fake share; `level` is the original's share."""

    kind: ClassVar[str]

    original: ImageReference
    fake: ImageReference
    level: Decimal

    @property
    def references(self) -> tuple[ImageReference, ...]:
        """The original and the fake."""
        return (self.original, self.fake)

    @property
    def sources(self) -> tuple[int, ...]:
        """Their rows."""
        return (self.original.row, self.fake.row)

    @abstractmethod
    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """See `engine.variants.variant.ImageRecipe`."""

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        return {
            "kind": self.kind,
            "level": format_level(self.level),
            "original": self.original.describe(),
            "fake": self.fake.describe(),
        }


def image_variant_name(family: str, level: Decimal, mode: Mode, seed: int) -> str:
    """The canonical name, such as ``mix:0.9:seed=1``; the mode is part of it when it is not the default."""
    modes = [] if mode == DEFAULT else [f"mode={mode}"]
    return ":".join([family, format_level(level), *modes, f"seed={seed}"])


def pair_with_fakes(
    corpus: Corpus, seed: int, variant: str
) -> Iterator[tuple[ImageReference, ImageReference]]:
    """(original, fake) of every image of the corpus, in corpus order.

    The fake is uniform over the corpus' other images, never the original; it is drawn from (seed, image id)
    out of the sorted ids, so the order of the corpus does not matter, and every level of mix and patch with
    one seed meets the same fake. Raises `InputError` for a corpus of fewer than two images.
    """
    count = len(corpus.images)
    if count < 2:
        raise InputError(
            f"variant {variant!r}: the corpus {corpus.name!r} has {count} image(s); expected at least 2, "
            f"because the fake is another image of the corpus"
        )
    by_id = sorted(range(count), key=lambda row: corpus.images[row].id)
    places = {row: place for place, row in enumerate(by_id)}
    for row, image in enumerate(corpus.images):
        drawn = int(item_rng(seed, image.id, "fake").integers(count - 1))
        fake = by_id[drawn + (drawn >= places[row])]
        yield ImageReference(row, image.id), ImageReference(fake, corpus.images[fake].id)


def value_pairs() -> tuple[Pixels, Pixels]:
    """Every pair of values of an original and a fake, uint8 [65536] each, in the order of `blend`'s table."""
    values = np.arange(2**16, dtype=np.uint16)
    return (values >> 8).astype(np.uint8), (values & 255).astype(np.uint8)


def blend(original: Image.Image, fake: Image.Image, table: Pixels) -> Image.Image:
    """Two RGB images of one size, each pair of values looked up in a table (see `value_pairs`).

    A look-up costs a tenth of the arithmetic, so that drawing keeps up with decoding.
    """
    pairs = np.asarray(original).astype(np.uint16)
    pairs <<= 8
    pairs |= np.asarray(fake)
    return Image.fromarray(table.take(pairs))


def cover(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The middle of `image`, scaled (bicubic) to `size` (width, height): nothing is squashed.

    The crop is the largest middle rectangle of the target's aspect ratio in whole pixels (at least one),
    computed in integers; the resampling is Pillow's 8-bit fixed-point one. An image that has the size already
    comes back as it is.
    """
    if image.size == size:
        return image
    (width, height), (target_width, target_height) = image.size, size
    crop_width = max(1, min(width, height * target_width // target_height))
    crop_height = max(1, min(height, width * target_height // target_width))
    left, top = (width - crop_width) // 2, (height - crop_height) // 2
    box = (left, top, left + crop_width, top + crop_height)
    return image.crop(box).resize(size, Image.Resampling.BICUBIC)
