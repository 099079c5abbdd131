"""Small pictures for the page, as data URIs, within a limit on their bytes.

An image is shown only when its file is the one that was embedded: a picture of another file under the same
name would be a false witness. Where the store keeps no digests to tell, the page says so. Fakes are drawn
again from their recipes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

from PIL import Image

from engine.corpus.images import MissingImage, UnreadableImage
from engine.errors import InputError
from engine.progress import Progress
from engine.report.html.failures import Failure, ImageKey
from engine.report.html.sources import Sources
from engine.store.reader import Store
from engine.store.schema import ORIGINAL
from engine.store.stored_images import OtherImage, StoredImages

SIDE = 224  # pixels of the longer side: 112 on the page, sharp on dense screens
QUALITY = 72
LIMIT = 3_500_000  # characters of all data URIs together
REASONS: Mapping[type[InputError], str] = {  # the more special first
    MissingImage: "the file is not in the image folder",
    OtherImage: "the file is not the one that was embedded",
    UnreadableImage: "the file cannot be decoded",
}
LEFT_OUT = "left out to keep the report small"


@dataclass(frozen=True)
class Thumbnails:
    """`uris` by image, and why the others have none; `by_name`: nothing but names told files apart."""

    uris: Mapping[ImageKey, str]
    missing: Mapping[ImageKey, str]
    by_name: bool = False

    @property
    def reasons(self) -> dict[str, int]:
        """How many images have no thumbnail, by reason."""
        counts: dict[str, int] = {}
        for reason in self.missing.values():
            counts[reason] = counts.get(reason, 0) + 1
        return counts


def make_thumbnails(
    failures: Iterable[Failure], sources: Sources, progress: Progress, limit: int = LIMIT
) -> Thumbnails:
    """Thumbnails of what the failures show, the worst query of every run first, up to `limit` characters."""
    ordered = sorted(failures, key=lambda one: one.place)
    wanted = list(dict.fromkeys(image for one in ordered for image in one.images))
    if sources.images is None:
        return Thumbnails({}, dict.fromkeys(wanted, "no image folder"))
    artist = Artist(sources, sources.images)
    uris: dict[ImageKey, str] = {}
    missing: dict[ImageKey, str] = {}
    used = 0
    with progress.task("thumbnails", len(wanted), "images") as advance:
        for image in wanted:
            if used < limit:
                try:
                    uris[image] = artist.draw(*image)
                    used += len(uris[image])
                except (InputError, ValueError) as error:
                    missing[image] = reason_of(error)
            else:
                missing[image] = LEFT_OUT
            advance(1)
    return Thumbnails(uris, missing, artist.by_name)


def reason_of(error: InputError | ValueError) -> str:
    """Why an image has no thumbnail, the same words for all images."""
    for kind, reason in REASONS.items():
        if isinstance(error, kind):
            return reason
    return str(error)


@dataclass
class Artist:
    """Draws images of a corpus and the fakes made of them."""

    sources: Sources
    folder: Path
    by_name: bool = False
    _sets: dict[str, tuple[StoredImages, dict[str, int]]] = field(default_factory=dict)

    def draw(self, name: str, id: str) -> str:
        """The data URI of an item of a set of images. Raises `InputError` when it cannot be drawn."""
        stored, rows = self.find(name)
        uri = data_uri(stored.draw(name, rows[id]))
        self.by_name |= not stored.verified
        return uri

    def find(self, name: str) -> tuple[StoredImages, dict[str, int]]:
        """A set of images, of the first store that has it and its originals, and the row of every id."""
        if name not in self._sets:
            holds = (has_images(one, name) and has_images(one, ORIGINAL) for one in self.sources.stores)
            store = next(compress(self.sources.stores, holds), None)
            if store is None:
                raise InputError("no store at hand holds the image and what it was made from")
            ids = store.load("images", name, complete=False).ids
            stored = StoredImages(store, self.folder)
            self._sets[name] = stored, {one: row for row, one in enumerate(ids)}
        return self._sets[name]


def has_images(store: Store, name: str) -> bool:
    """Whether a store has a set of images."""
    return any((one.modality, one.name) == ("images", name) for one in store.sets)


def data_uri(image: Image.Image) -> str:
    """A small WebP of the image."""
    small = image.copy()
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=4)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
