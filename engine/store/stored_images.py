"""The images of a store's sets, drawn again: originals from their files, variants from their recipes."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.corpus.images import MissingImage, UnreadableImage, decode_image, read_image
from engine.errors import InputError, naming
from engine.store.image_source import bytes_digest
from engine.store.pair_file import content_key
from engine.store.reader import EmbeddingSet, Store
from engine.store.schema import ORIGINAL
from engine.variants.recipes import DescribedRecipe, recipe_from_json


class OtherImage(UnreadableImage):
    """A file that is not the one that was embedded under its name."""


@dataclass
class StoredImages:
    """The images of a store's sets; `folder` is where the files of its originals are.

    A file counts as the image that was embedded when its bytes have the digest that the store keeps. A store
    that keeps none (imported embeddings; not `verified`) leaves files to be taken by their names, which is
    for the caller to say. Safe to use from several threads.
    """

    store: Store
    folder: Path
    _contents: dict[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @cached_property
    def originals(self) -> EmbeddingSet:
        """The images that files hold."""
        return self.store.load("images", ORIGINAL, complete=False)

    @property
    def verified(self) -> bool:
        """Whether the store tells its images from others."""
        return self.originals.content_digest is not None

    @cached_property
    def _digests(self) -> dict[int, str]:
        """By row: of the store where it has them, else of the files as they were first read."""
        stored = self.originals.content_digest or ()
        return {row: digest for row, digest in enumerate(stored) if digest}

    def keys(self, name: str, rows: Sequence[int]) -> NDArray[np.uint64]:
        """uint64 [rows]: equal keys mean equal images of a set. Raises `UnreadableImage` as `draw`.

        An original counts as its file's bytes, another image as its recipe and the bytes of what it is drawn
        from.
        """
        return np.array([content_key(self._identity(name, row)) for row in rows], dtype=np.uint64)

    def draw(self, name: str, row: int) -> Image.Image:
        """An image of a set, decoded RGB.

        Raises `MissingImage`, `OtherImage` or another `UnreadableImage` for the file of an original, any
        other `InputError` for a recipe that cannot be read.
        """
        if name == ORIGINAL:
            return self._open(row)
        recipe = self._recipe(name, row)
        return recipe.draw([self._open(source) for source in recipe.sources])

    def _identity(self, name: str, row: int) -> str:
        if name == ORIGINAL:
            return self._digest(row)
        recipe = self._recipe(name, row)
        return json.dumps([self._contents[name][row], *map(self._digest, recipe.sources)])

    def _recipe(self, name: str, row: int) -> DescribedRecipe:
        if name not in self._contents:
            self._contents[name] = self.store.load("images", name, complete=False).content
        with naming(f"{self.store.path}: images/{name}"):
            try:
                recipe = recipe_from_json(json.loads(self._contents[name][row]))
            except (ValueError, RecursionError, AttributeError) as error:
                raise InputError(f"a recipe that cannot be read ({error}); embed the variant again") from None
            if not 0 <= min(recipe.sources) <= max(recipe.sources) < len(self.originals.ids):
                raise InputError(f"a recipe of other image rows than 0 to {len(self.originals.ids) - 1}")
        return recipe

    def _digest(self, row: int) -> str:
        if row not in self._digests:
            self._read(row)
        return self._digests[row]

    def _open(self, row: int) -> Image.Image:
        return decode_image(io.BytesIO(self._read(row)), self.originals.content[row])

    def _read(self, row: int) -> bytes:
        """The bytes of an original's file, which are those that were embedded."""
        file = self.originals.content[row]
        remedy = "give the folder of the same images with --images"
        try:
            data = read_image(self.folder, file)
        except MissingImage:
            raise MissingImage(file, f"{self.folder} holds no such file; {remedy}") from None
        digest = bytes_digest(data)
        if not digest:
            raise UnreadableImage(file, f"is cut off; {remedy}")
        if digest != self._digests.setdefault(row, digest):
            raise OtherImage(file, f"{self.folder} holds another one than was embedded; {remedy}")
        return data
