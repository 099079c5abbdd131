"""Small pictures for the page, as data URIs, within a limit on their bytes.

An image is shown only when its file is the one that was embedded (the store has its SHA-256): a picture of
another file under the same name would be a false witness. Fakes are drawn again from their recipes.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from engine.corpus.images import MissingImage, UnreadableImage, decode_image, find_image
from engine.errors import InputError
from engine.progress import Progress
from engine.report.html.failures import Failure, ImageKey
from engine.report.html.sources import Sources
from engine.store.image_source import file_digest
from engine.store.reader import EmbeddingSet, Store
from engine.store.schema import ORIGINAL
from engine.variants.recipes import recipe_from_json

SIDE = 224  # pixels of the longer side: 112 on the page, sharp on dense screens
QUALITY = 72
LIMIT = 3_500_000  # characters of all data URIs together
LEFT_OUT = "left out to keep the report small"


@dataclass(frozen=True)
class Thumbnails:
    """`uris` by image, and why the others have none."""

    uris: Mapping[ImageKey, str]
    missing: Mapping[ImageKey, str]

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
                    missing[image] = str(error)
            else:
                missing[image] = LEFT_OUT
            advance(1)
    return Thumbnails(uris, missing)


@dataclass
class Artist:
    """Draws images of a corpus and the fakes made of them."""

    sources: Sources
    folder: Path
    _sets: dict[str, tuple[EmbeddingSet, dict[str, int]]] = field(default_factory=dict)

    def draw(self, name: str, id: str) -> str:
        """The data URI of an item of a set of images. Raises `InputError` when it cannot be drawn."""
        items, rows = self.find(name)
        content = items.content[rows[id]]
        if name == ORIGINAL:
            return data_uri(self.original(rows[id]))
        try:
            description = json.loads(content)
        except (ValueError, RecursionError):
            description = None
        if not isinstance(description, dict):
            raise InputError("the store holds no recipe of the fake")
        recipe = recipe_from_json(description)
        return data_uri(recipe.draw([self.original(row) for row in recipe.sources]))

    def original(self, row: int) -> Image.Image:
        """An image of the corpus. Raises `InputError` when its file is not at hand or another one."""
        originals, _ = self.find(ORIGINAL)
        if not 0 <= row < len(originals.ids):
            raise InputError("the recipe of the fake is of another corpus")
        if originals.content_digest is None:
            raise InputError("the store keeps no digests of its images, so files cannot be told apart")
        file = originals.content[row]
        try:
            path = find_image(self.folder, file).path
            if file_digest(self.folder, file) != originals.content_digest[row]:
                raise InputError("the file is not the one that was embedded")
            return decode_image(path, file)
        except MissingImage:
            raise InputError("the file is not in the image folder") from None
        except UnreadableImage:
            raise InputError("the file cannot be decoded") from None

    def find(self, name: str) -> tuple[EmbeddingSet, dict[str, int]]:
        """A set of images, of the first store that has it."""
        if name not in self._sets:
            store = next(one for one in self.sources.stores if has_images(one, name))
            loaded = store.load("images", name, complete=False)
            self._sets[name] = loaded, {one: row for row, one in enumerate(loaded.ids)}
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
