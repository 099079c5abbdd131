"""Image recipes as data: any item of an image variant can be drawn again alone from its JSON description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from PIL import Image

from engine.corpus.shape import shorten
from engine.errors import InputError, unknown_name
from engine.variants.variant import ImageRecipe

SHOWN = 80
"""Characters of a description that an error shows."""


@dataclass(frozen=True)
class ImageReference:
    """An image of the corpus: its row and, so that a description is readable without the corpus, its id."""

    row: int
    id: str

    def describe(self) -> Mapping[str, Any]:
        """``{"row": 3, "id": "..."}``."""
        return {"row": self.row, "id": self.id}


class DescribedRecipe(ImageRecipe, Protocol):
    """A recipe whose `describe()` holds its `kind` and can be read back."""

    kind: ClassVar[str]

    @property
    def references(self) -> tuple[ImageReference, ...]:
        """The images that `sources` are rows of, in that order."""

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> DescribedRecipe:
        """The recipe that described itself so; reads every field it needs through `fields`."""


@runtime_checkable
class PlacedRecipe(Protocol):
    """A recipe that changes one place of its original, which depends on the original's size."""

    def place(self, size: tuple[int, int]) -> Mapping[str, int]:
        """The place in an original of `size` (width, height), in pixels, JSON-ready."""


class RecipeFields:
    """Typed access to a description from outside: every fault is an `InputError` that names the field."""

    def __init__(self, kind: str, values: Mapping[str, Any]) -> None:
        self._kind = kind
        self._values = values

    def integer(self, name: str, below: int, least: int = 0) -> int:
        """A whole number in [least, below)."""
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < below:
            raise self._wrong(name, value, f"a whole number from {least} to {below - 1}")
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self._get(name)
        if not isinstance(value, str):
            raise self._wrong(name, value, "a text")
        return value

    def image(self, name: str) -> ImageReference:
        """An image reference."""
        inner = self.object(name, '{"row": ROW, "id": ID}')
        return ImageReference(inner.integer("row", 2**63), inner.text("id"))

    def object(self, name: str, expected: str) -> RecipeFields:
        """The fields of an object; `expected` shows its form."""
        value = self._get(name)
        if not isinstance(value, Mapping):
            raise self._wrong(name, value, expected)
        return RecipeFields(f"{self._kind}.{name}", value)

    def parsed(self, name: str, parse: Callable[[str], Any], expected: str) -> Any:
        """A text that `parse` takes (it raises ValueError otherwise)."""
        value = self.text(name)
        try:
            return parse(value)
        except ValueError:
            raise self._wrong(name, value, expected) from None

    def _get(self, name: str) -> Any:
        if name not in self._values:
            found = ", ".join(map(repr, sorted(self._values))) or "no fields"
            raise InputError(
                f"image recipe {self._kind!r}: field {name!r} is missing; found {shorten(found, SHOWN)}"
            )
        return self._values[name]

    def _wrong(self, name: str, value: Any, expected: str) -> InputError:
        found = shorten(repr(value), SHOWN)
        return InputError(f"image recipe {self._kind!r}: field {name!r} is {found}; expected {expected}")


_KINDS: dict[str, type[DescribedRecipe]] = {}
_Recipe = TypeVar("_Recipe", bound=type[DescribedRecipe])


def recipe_kind(recipe: _Recipe) -> _Recipe:
    """Class decorator: `recipe_from_json` reads descriptions of this `kind`."""
    if recipe.kind in _KINDS:
        raise ValueError(f"two image recipes are of the kind {recipe.kind!r}")
    _KINDS[recipe.kind] = recipe
    return recipe


@cache
def _known_kinds() -> Mapping[str, type[DescribedRecipe]]:
    from engine.variants.registry import variant_families  # the families' files define the recipes

    variant_families()
    return _KINDS


def recipe_from_json(description: Mapping[str, Any]) -> DescribedRecipe:
    """The recipe whose `describe()` gave `description`, through JSON or not: it draws the same bytes.

    Raises `InputError` that names the field when the description is not one.
    """
    kind = description.get("kind")
    known = _known_kinds()
    if not isinstance(kind, str) or kind not in known:
        raise unknown_name("image recipe", shorten(str(kind)), known)
    return known[kind].from_fields(RecipeFields(kind, description))


def rgb_sources(recipe: ImageRecipe, images: Sequence[Image.Image]) -> list[Image.Image]:
    """The source images as RGB; raises ValueError when there are not as many as `recipe.sources` names."""
    if len(images) != len(recipe.sources):
        raise ValueError(f"{len(images)} images for a recipe of {len(recipe.sources)} sources")
    return [image if image.mode == "RGB" else image.convert("RGB") for image in images]
