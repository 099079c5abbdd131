"""Where the images of a corpus come from: files of pixels in a folder, or precomputed region features."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage, check_image_folder, decode_image, read_image
from engine.encoders.encoder import Encoder
from engine.encoders.regions import ImageInput, Regions, check_image_source, open_regions, other_input
from engine.errors import InputError
from engine.variants.variant import Variant

JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
PNG_START, PNG_END = b"\x89PNG", b"IEND"


class ImageSource(Protocol):
    """The images of a corpus by row; safe to use from several threads."""

    @property
    def reads(self) -> ImageInput:
        """What `open` gives: "images" or "regions"."""

    def __len__(self) -> int:
        """Images."""

    def open(self, row: int) -> Any:
        """What `Encoder.prepare_image` takes: an RGB image, or features float32 [regions, dim].

        Raises `UnreadableImage` for one that can be left out, any other `InputError` for one that cannot.
        """

    def open_with_digest(self, row: int) -> tuple[Any, str]:
        """What `open` gives, and the digest of the very bytes that it was made from."""

    def digest(self, row: int) -> str:
        """SHA-256 (hex) of what there is to read; "" where that is not there or shows that it is cut off."""


class ImageFolder:
    """Image files in a folder."""

    reads: ImageInput = "images"

    def __init__(self, corpus: Corpus, folder: str | Path) -> None:
        """Raises `InputError` when there is no such folder."""
        self._corpus, self._folder = corpus, check_image_folder(folder)

    def __len__(self) -> int:
        return len(self._corpus.images)

    def open(self, row: int) -> Any:
        """The decoded RGB image."""
        return self.open_with_digest(row)[0]

    def open_with_digest(self, row: int) -> tuple[Any, str]:
        """The file is read once."""
        file = self._corpus.images[row].file
        data = read_image(self._folder, file)
        return decode_image(io.BytesIO(data), file), bytes_digest(data)

    def digest(self, row: int) -> str:
        """Of the file's bytes."""
        try:
            return bytes_digest(read_image(self._folder, self._corpus.images[row].file))
        except UnreadableImage:
            return ""


class RegionImages:
    """Region features; every image of the corpus has its own, whatever the layout of the file."""

    reads: ImageInput = "regions"

    def __init__(self, corpus: Corpus, path: str | Path) -> None:
        """Raises `InputError` as `open_regions` does."""
        self._features = open_regions(Path(path), corpus)

    def __len__(self) -> int:
        return len(self._features)

    def open(self, row: int) -> Regions:
        """float32 [regions, dim]."""
        return self._features.read(row)

    def open_with_digest(self, row: int) -> tuple[Regions, str]:
        """The features are read once."""
        features = self.open(row)
        return features, features_digest(features)

    def digest(self, row: int) -> str:
        """Of the shape and the values as float32, so that another file layout of the same is the same."""
        return features_digest(self.open(row))


@dataclass(frozen=True)
class UnchangedImages:
    """A source whose images still have the digests that a store is about to be keyed by ("": not known)."""

    source: ImageSource
    digests: Sequence[str]

    @property
    def reads(self) -> ImageInput:
        """As of the source."""
        return self.source.reads

    def __len__(self) -> int:
        return len(self.source)

    def open(self, row: int) -> Any:
        """As of the source. Raises `InputError` too for an image that has been replaced meanwhile."""
        return self.open_with_digest(row)[0]

    def open_with_digest(self, row: int) -> tuple[Any, str]:
        """As `open`."""
        image, digest = self.source.open_with_digest(row)
        if self.digests[row] and digest != self.digests[row]:
            raise InputError(
                f"image {row} was changed while it was read (not the file that this command began with); "
                "leave the images alone and run again"
            )
        return image, digest

    def digest(self, row: int) -> str:
        """As of the source."""
        return self.source.digest(row)


class NoImages:
    """In the place of a source where only captions are embedded."""

    reads: ImageInput = "images"

    def __len__(self) -> int:
        return 0

    def open(self, row: int) -> Any:
        """Raises ValueError: nothing may ask."""
        raise ValueError(f"image {row} of no images")

    def open_with_digest(self, row: int) -> tuple[Any, str]:
        """As `open`."""
        return self.open(row), ""

    def digest(self, row: int) -> str:
        """As of a file that is not there."""
        return ""


def reads_of(encoder: object) -> ImageInput:
    """What an encoder or scorer takes for an image; images unless it says otherwise."""
    reads: ImageInput = getattr(encoder, "reads", "images")
    return reads


def open_source(
    encoder: object, spec: str, corpus: Corpus, images: Path | None, features: Path | None
) -> ImageSource:
    """The one source that the model reads. Raises `InputError` for both, neither or the other one."""
    check_image_source(spec, reads_of(encoder), images, features)
    return RegionImages(corpus, features) if features is not None else ImageFolder(corpus, images or Path())


def as_source(images: str | Path | ImageSource, corpus: Corpus) -> ImageSource:
    """A source as it is, a path as the folder of the image files."""
    return ImageFolder(corpus, images) if isinstance(images, str | Path) else images


def check_source(source: ImageSource, encoder: Encoder, variants: Sequence[Variant]) -> None:
    """Raise `InputError` where the encoder reads other inputs, or a variant draws what has no pixels."""
    if source.reads != reads_of(encoder):
        raise other_input(encoder.spec, reads_of(encoder))
    drawn = next((one.name for one in variants if one.modality == "images"), None)
    if source.reads == "regions" and drawn is not None:
        raise InputError(
            f"variant {drawn}: draws new images, and region features have no pixels; leave it out for "
            f"{encoder.spec}"
        )


def digest_images(source: ImageSource, workers: int) -> tuple[str, ...]:
    """The digest of every image, by `workers` threads."""
    with ThreadPoolExecutor(workers) as threads:
        return tuple(threads.map(source.digest, range(len(source))))


def check_features(source: ImageSource, encoder: Encoder, corpus: Corpus, workers: int) -> None:
    """Read all region features once: what the model cannot take is said before any work, with the image."""

    def check(row: int) -> None:
        with naming_image(corpus, row):
            encoder.prepare_image(source.open(row))

    if source.reads == "regions":
        with ThreadPoolExecutor(workers) as threads:
            for _ in threads.map(check, range(len(source))):
                pass


@contextmanager
def naming_image(corpus: Corpus, row: int) -> Iterator[None]:
    """Put the image before what is wrong with it, where that is not said already."""
    try:
        yield
    except UnreadableImage:
        raise
    except InputError as error:
        raise InputError(f"image {corpus.images[row].id!r}: {error}") from error


def features_digest(features: Regions) -> str:
    """SHA-256 (hex) of the shape and the values as float32."""
    shape = np.array(features.shape, dtype="<i8").tobytes()
    return hashlib.sha256(shape + features.astype("<f4", copy=False).tobytes()).hexdigest()


def bytes_digest(data: bytes) -> str:
    """SHA-256 (hex) of an image file's bytes; "" when they show that they are cut off."""
    for start, end in ((JPEG_START, JPEG_END), (PNG_START, PNG_END)):
        if data.startswith(start) and end not in data[-1024:]:
            return ""
    return hashlib.sha256(data).hexdigest()
