"""What the items of a store are: the texts it holds, and its images, read again from their folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.images import open_image
from engine.errors import InputError, naming
from engine.evaluate.gallery import Items
from engine.store.image_source import file_digest
from engine.store.pair_file import content_key
from engine.store.reader import EmbeddingSet, Store
from engine.store.schema import ORIGINAL
from engine.variants.recipes import recipe_from_json


@dataclass
class StoreImages:
    """The images of a store's sets; `folder` is where the files of its originals are.

    An original counts as its file's bytes, a variant's image as its recipe and the bytes of what it is drawn
    from. Where the store has the digest of a file, another file under its name is an error.
    """

    store: Store
    folder: Path
    _contents: dict[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @cached_property
    def originals(self) -> EmbeddingSet:
        """The images that files hold."""
        return self.store.load("images", ORIGINAL)

    @cached_property
    def digests(self) -> Sequence[str]:
        """Digest of every original's file, from the store where it has it."""
        stored = self.originals.content_digest or [""] * len(self.originals.ids)
        return [
            digest or file_digest(self.folder, file)
            for digest, file in zip(stored, self.originals.content, strict=True)
        ]

    def keys(self, items: Items) -> NDArray[np.uint64]:
        """uint64 [items]: equal keys mean equal images. Raises `InputError` for a file that is not there."""
        rows = items.row.tolist()
        if items.name == ORIGINAL:
            return np.array([content_key(self._digest(row)) for row in rows], dtype=np.uint64)
        recipes = self._recipes(items.name)
        found = []
        for row in rows:
            sources = [self._digest(source) for source in self._recipe(items.name, recipes[row]).sources]
            found.append(content_key(json.dumps([recipes[row], *sources])))
        return np.array(found, dtype=np.uint64)

    def draw(self, items: Items, number: int) -> Any:
        """The image of an item, decoded RGB. Safe to call from several threads."""
        row = int(items.row[number])
        if items.name == ORIGINAL:
            return self._open(row)
        recipe = self._recipe(items.name, self._recipes(items.name)[row])
        return recipe.draw([self._open(source) for source in recipe.sources])

    def _recipes(self, name: str) -> Sequence[str]:
        if name not in self._contents:
            self._contents[name] = self.store.load("images", name).content
        return self._contents[name]

    def _recipe(self, name: str, text: str) -> Any:
        with naming(f"{self.store.path}: images/{name}"):
            try:
                recipe = recipe_from_json(json.loads(text))
            except (ValueError, RecursionError, AttributeError) as error:
                raise InputError(f"a recipe that cannot be read ({error}); embed the variant again") from None
            highest = max(recipe.sources)
            if highest >= len(self.originals.ids):
                raise InputError(f"a recipe of image row {highest}; there are {len(self.originals.ids)}")
        return recipe

    def _digest(self, row: int) -> str:
        if not self.digests[row]:
            raise InputError(
                f"image {self.originals.content[row]}: not in {self.folder} or cut off; "
                "give the folder of the images that were embedded with --images"
            )
        return self.digests[row]

    def _open(self, row: int) -> Any:
        file = self.originals.content[row]
        if file_digest(self.folder, file) != self._digest(row):
            raise InputError(
                f"image {file}: {self.folder} holds no such file or another one than was embedded; "
                "give the folder of the same images with --images"
            )
        return open_image(self.folder, file)


def texts_of(store: Store, items: Items) -> list[str]:
    """The texts of caption items."""
    content = store.load("captions", items.name).content
    return [content[row] for row in items.row.tolist()]
