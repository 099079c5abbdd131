"""RoCOCO's image galleries as its script `mix_images.py` makes them: mix and patch in paper mode, `reencode`.

Every image is squashed to 384 x 384 and saved as a JPEG. Fakes come from a random permutation within shuffled
batches of 64, so an image can be its own fake (unchanged); one box a batch is pasted. The script draws from
torch (shuffle, permutations) and from numpy (boxes); both are Mersenne Twisters, and `RandomState` of numpy
gives the numbers of both, for ever. So the fakes and boxes here are those of the script for the same seed and
the same order of the images.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.checks import require_change
from engine.variants.fakes import PairRecipe, Pixels, blend, value_pairs
from engine.variants.parameters import LEVEL_EXPECTED, parse_level
from engine.variants.recipes import ImageReference, RecipeFields, recipe_kind, rgb_sources
from engine.variants.variant import VariantItem, VariantItems

SIDE = 384
"""Width and height, in pixels, of every image of the published galleries."""
BATCH = 64
LARGEST_SEED = 2**32 - 1
"""The largest seed that `numpy.random.seed`, and so the script, takes."""

_WORDS = 2**32


# ---------------------------------------------------------------- the script's random numbers


class _TorchStream:
    """The CPU generator of torch after ``torch.manual_seed(seed)``, as far as the script asks it."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed % _WORDS)

    def integer(self) -> int:
        """``torch.empty((), dtype=torch.int64).random_()``."""
        high, low = self._words.randint(0, _WORDS, size=2, dtype=np.uint32).tolist()
        return int((high << 32 | low) % 2**63)

    def permutation(self, count: int) -> list[int]:
        """``torch.randperm(count)``."""
        order = list(range(count))
        words = self._words.randint(0, _WORDS, size=max(0, count - 1), dtype=np.uint32).tolist()
        for place, word in enumerate(words):
            other = place + word % (count - place)
            order[place], order[other] = order[other], order[place]
        return order


@dataclass(frozen=True)
class PublishedBatch:
    """Rows of the corpus in the order of the batch, and the row of the fake of each."""

    rows: tuple[int, ...]
    fakes: tuple[int, ...]


def published_batches(count: int, seed: int) -> Iterator[PublishedBatch]:
    """The batches of `count` images, those of the script for the same seed; the last may be shorter."""
    stream = _TorchStream(seed)
    stream.integer()  # the loader draws a seed for its workers first
    order = _TorchStream(stream.integer()).permutation(count)
    for start in range(0, count, BATCH):
        rows = order[start : start + BATCH]
        yield PublishedBatch(tuple(rows), tuple(rows[i] for i in stream.permutation(len(rows))))


@dataclass(frozen=True)
class PublishedBox:
    """Rows [top, bottom) and columns [left, right) of a published image; never empty."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def pixels(self) -> int:
        """How many pixels it covers."""
        return (self.bottom - self.top) * (self.right - self.left)


def half_side(level: Decimal) -> int:
    """Pixels from the centre of a box to its edge: half of int(384 * sqrt(1 - level)), rounded down."""
    return int(SIDE * np.sqrt(1.0 - float(level))) // 2


def published_box(half: int, row: int, column: int) -> PublishedBox:
    """The box around a centre, cut off at the border."""
    return PublishedBox(
        max(row - half, 0), max(column - half, 0), min(row + half, SIDE), min(column + half, SIDE)
    )


def published_boxes(level: Decimal, seed: int) -> Iterator[PublishedBox]:
    """One box a batch, without end: the centre is uniform over the image."""
    centres, half = np.random.RandomState(seed), half_side(level)
    while True:
        row, column = int(centres.randint(SIDE)), int(centres.randint(SIDE))
        yield published_box(half, row, column)


# ---------------------------------------------------------------- the script's pictures


def squash(image: Image.Image) -> Image.Image:
    """The image at 384 x 384 (bicubic), its aspect ratio lost."""
    return image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def jpeg(image: Image.Image) -> Image.Image:
    """The image as it is after it was saved as a JPEG with Pillow's defaults (quality 75, 4:2:0)."""
    file = io.BytesIO()
    image.save(file, "JPEG")
    with Image.open(file, formats=("JPEG",)) as saved:
        decoded: Image.Image = saved.convert("RGB")
        return decoded


@recipe_kind
@dataclass(frozen=True)
class PublishedMixRecipe(PairRecipe):
    """level * original + (1 - level) * fake in float32, as the script blends, then a JPEG."""

    kind: ClassVar[str] = "published_mix"

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The blend of the squashed images, 384 x 384."""
        original, fake = map(squash, rgb_sources(self, images))
        return jpeg(blend(original, fake, blends_in_float32(self.level)))

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> PublishedMixRecipe:
        """The recipe that described itself so."""
        level = fields.parsed("level", parse_level, LEVEL_EXPECTED)
        return cls(fields.image("original"), fields.image("fake"), level)


@lru_cache(maxsize=16)
def blends_in_float32(level: Decimal) -> Pixels:
    """uint8 [65536]: every pair of values blended with the script's steps and roundings."""
    original, fake = (values.astype(np.float32) for values in value_pairs())
    kept, added, white = np.float32(level), np.float32(1.0 - float(level)), np.float32(255.0)
    blends = kept * (original / white) + added * (fake / white)
    pixels: Pixels = np.clip(blends * white + np.float32(0.5), 0, white).astype(np.uint8)
    return pixels


@recipe_kind
@dataclass(frozen=True)
class PublishedPatchRecipe(PairRecipe):
    """The original with the batch's box of the fake, then a JPEG."""

    kind: ClassVar[str] = "published_patch"

    box: PublishedBox

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The squashed original with the same region of the squashed fake, 384 x 384."""
        original, fake = (squash(image) for image in rgb_sources(self, images))
        box = (self.box.left, self.box.top, self.box.right, self.box.bottom)
        original.paste(fake.crop(box), box)
        return jpeg(original)

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        box = {"top": self.box.top, "left": self.box.left, "bottom": self.box.bottom, "right": self.box.right}
        return {**super().describe(), "box": box}

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> PublishedPatchRecipe:
        """The recipe that described itself so."""
        level = fields.parsed("level", parse_level, LEVEL_EXPECTED)
        inner = fields.object("box", '{"top": ROW, "left": COLUMN, "bottom": ROW, "right": COLUMN}')
        top, left = (inner.integer(name, SIDE) for name in ("top", "left"))
        bottom = inner.integer("bottom", SIDE + 1, least=top + 1)
        right = inner.integer("right", SIDE + 1, least=left + 1)
        box = PublishedBox(top, left, bottom, right)
        return cls(fields.image("original"), fields.image("fake"), level, box)


@recipe_kind
@dataclass(frozen=True)
class ReencodeRecipe:
    """An original, squashed and saved as the published fakes are."""

    kind: ClassVar[str] = "reencode"

    original: ImageReference

    @property
    def references(self) -> tuple[ImageReference, ...]:
        """The original."""
        return (self.original,)

    @property
    def sources(self) -> tuple[int, ...]:
        """Its row."""
        return (self.original.row,)

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The image at 384 x 384, after a JPEG."""
        (original,) = rgb_sources(self, images)
        return jpeg(squash(original))

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        return {"kind": self.kind, "original": self.original.describe()}

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> ReencodeRecipe:
        """The recipe that described itself so."""
        return cls(fields.image("original"))


# ---------------------------------------------------------------- the items


PairMaker = Callable[[ImageReference, ImageReference, int], PairRecipe]
"""The recipe of an original and its fake in the batch of a number."""


def published_items(corpus: Corpus, name: str, seed: int, make: PairMaker) -> VariantItems:
    """One item an image, in corpus order, by the batches of the script; unchanged where the fake is itself.

    Raises `InputError` when every image is its own fake.
    """
    references = [ImageReference(row, image.id) for row, image in enumerate(corpus.images)]
    items: dict[int, VariantItem] = {}
    for number, batch in enumerate(published_batches(len(references), seed)):
        for row, fake in zip(batch.rows, batch.fakes, strict=True):
            recipe = make(references[row], references[fake], number)
            item_id = f"{references[row].id}@{name}"
            items[row] = VariantItem(item_id, row, recipe, row != fake, recipe.describe())
    return require_change(name, VariantItems(tuple(items[row] for row in range(len(references)))))


def check_seed(name: str, seed: int) -> None:
    """Raise `InputError` for a seed that the script does not take."""
    if seed > LARGEST_SEED:
        raise InputError(f"variant {name!r}: the published script takes seeds up to {LARGEST_SEED}")


def published_mix(corpus: Corpus, name: str, level: Decimal, seed: int) -> VariantItems:
    """The published mix gallery; errors as `check_seed` and `published_items`."""
    check_seed(name, seed)
    return published_items(
        corpus, name, seed, lambda original, fake, batch: PublishedMixRecipe(original, fake, level)
    )


def published_patch(corpus: Corpus, name: str, level: Decimal, seed: int) -> VariantItems:
    """The published patch gallery; errors as `published_mix`, and for a level whose box has no pixel."""
    check_seed(name, seed)
    if half_side(level) == 0:
        raise InputError(f"variant {name!r}: the box would be empty; expected L below 0.99997")
    boxes: list[PublishedBox] = []
    endless = published_boxes(level, seed)

    def make(original: ImageReference, fake: ImageReference, batch: int) -> PairRecipe:
        while len(boxes) <= batch:
            boxes.append(next(endless))
        return PublishedPatchRecipe(original, fake, level, boxes[batch])

    return published_items(corpus, name, seed, make)
