"""Models of made-up embeddings, to measure everything but a model: ``python:bench.made_up_models:NAME``.

Every name, such as ``model_3``, is a model with vectors of its own. An image says its number in its colour, a
text in its digits; a text's vector is its image's with noise drawn by the text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from bench.vectors import CAPTION_NOISE, Space, unit

IMAGES = 5_000
DIM = 512
NOISES = 4_096
_NUMBER = re.compile(r"\d+")


def colour(number: int) -> tuple[int, int, int]:
    """Red, green and blue of the image with that number."""
    return number >> 16 & 255, number >> 8 & 255, number & 255


@dataclass(frozen=True)
class MadeUpModel:
    """One model; its vectors are drawn from its name."""

    name: str
    dim: int = DIM

    @property
    def spec(self) -> str:
        """How it is named in a run file."""
        return f"python:{__name__}:{self.name}"

    @property
    def fingerprint(self) -> str:
        """The name says all."""
        return f"{zlib.crc32(self.spec.encode()):08x}"

    @cached_property
    def space(self) -> Space:
        """The images' vectors."""
        return Space.draw(IMAGES, self.dim, zlib.crc32(self.name.encode()))

    @cached_property
    def noises(self) -> NDArray[np.float64]:
        """float64 [NOISES, dim]."""
        return np.random.default_rng([self.space.seed, 1]).standard_normal((NOISES, self.dim))

    def prepare_image(self, image: Image) -> int:
        """Its number."""
        red, green, blue = image.getpixel((0, 0))  # type: ignore[misc]
        return int(red << 16 | green << 8 | blue) % IMAGES

    def encode_images(self, images: Sequence[int]) -> NDArray[np.float32]:
        """float32 [n, dim]."""
        return unit(self.space.images[list(images)] + self.space.mean)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dim]."""
        digests = [zlib.crc32(text.encode()) for text in texts]
        found = [_NUMBER.search(text) for text in texts]
        numbers = [
            int(one[0]) % IMAGES if one else digest % IMAGES
            for one, digest in zip(found, digests, strict=True)
        ]
        noise = self.noises[[digest % NOISES for digest in digests]]
        return unit(self.space.images[numbers] + CAPTION_NOISE * noise + self.space.mean)


def __getattr__(name: str) -> MadeUpModel:
    if not name.startswith("model_"):
        raise AttributeError(name)
    return MadeUpModel(name)
