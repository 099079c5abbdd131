"""What an encoder is: images and texts into L2-normalised vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image


class Encoder(Protocol):
    """A member of the registry in `engine.encoders.registry`, found by a spec ``family:name[:weights]``.

    It may also say: `reads` ("images", the default, or "regions": what `prepare_image` takes), `description`
    (words by topic, for people), `fingerprint_parts` (what the fingerprint is the digest of), and
    ``is_cut(texts)``, bool [n]: which texts the model reads without their end.
    """

    @property
    def spec(self) -> str:
        """The spec string it was found by."""

    @property
    def dim(self) -> int:
        """Length of an embedding."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of weights + preprocessing + tokeniser + precision: equal means equal embeddings."""

    def prepare_image(self, image: Image) -> Any:
        """The model's own preprocessing of one decoded RGB image; safe to call from several threads."""

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised, of images that went through `prepare_image`."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised; a text too long is cut as the model's tokeniser does."""
