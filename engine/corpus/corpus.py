"""`Corpus`: images, captions, and which caption belongs to which image."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ImageItem:
    """One image: its id (unique among the images) and its file, relative to the image folder, POSIX style."""

    id: str
    file: str


@dataclass(frozen=True)
class Caption:
    """One caption: its id (unique among the captions), its text, and the row of the image it describes."""

    id: str
    text: str
    image: int


@dataclass(frozen=True)
class Corpus:
    """A captioned image set. Rows are the order of `images` and of `captions`.

    `source` is the file it was read from, `normalisation` what was done to every text ("raw", "pre_caption").
    Ids of images and of captions are two name spaces. Any number of captions an image, none included.
    """

    name: str
    images: tuple[ImageItem, ...]
    captions: tuple[Caption, ...]
    source: Path | None = None
    normalisation: str = "raw"

    @cached_property
    def image_of_caption(self) -> NDArray[np.int64]:
        """int64 [captions]: the image row of every caption."""
        return np.fromiter((c.image for c in self.captions), dtype=np.int64, count=len(self.captions))

    @cached_property
    def captions_of_image(self) -> tuple[NDArray[np.int64], ...]:
        """One int64 array an image: the rows of its captions, in corpus order."""
        order = np.argsort(self.image_of_caption, kind="stable")
        counts = np.bincount(self.image_of_caption, minlength=len(self.images))
        return tuple(np.split(order, np.cumsum(counts)[:-1])) if self.images else ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the ids, files, texts and relevance: what the corpus says, not where it lies."""
        digest = hashlib.sha256()
        for image in self.images:
            digest.update(json.dumps(["image", image.id, image.file]).encode())
        for caption in self.captions:
            digest.update(json.dumps(["caption", caption.id, caption.text, caption.image]).encode())
        return digest.hexdigest()
