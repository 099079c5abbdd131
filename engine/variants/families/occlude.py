"""`occlude:GRID:CELL`: one cell of a grid over every image is black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from PIL import Image

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.checks import require_change
from engine.variants.parameters import Parameter
from engine.variants.recipes import ImageReference, RecipeFields, recipe_kind, rgb_sources
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItem, VariantItems
from engine.whole_numbers import parse_whole_number

FINEST = 64
"""The most cells a side of the image is cut into."""
BLACK = (0, 0, 0)


@recipe_kind
@dataclass(frozen=True)
class OccludeRecipe:
    """The original with one cell set to zero; cells are counted from 0, row by row."""

    kind: ClassVar[str] = "occlude"

    original: ImageReference
    grid: int
    cell: int

    @property
    def references(self) -> tuple[ImageReference, ...]:
        """The original."""
        return (self.original,)

    @property
    def sources(self) -> tuple[int, ...]:
        """Its row."""
        return (self.original.row,)

    def box(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of the cell in an image of `size` (width, height), in pixels.

        Edges are rounded down, so that the cells of a grid cover every pixel once. Raises `InputError` for an
        image with fewer pixels a side than cells: some cells would be empty.
        """
        width, height = size
        if min(size) < self.grid:
            raise InputError(
                f"image {self.original.id!r} has {width} x {height} pixels; expected at least {self.grid} a "
                f"side for a grid of {self.grid} x {self.grid}; take a coarser one"
            )
        row, column = divmod(self.cell, self.grid)
        left, right = (width * edge // self.grid for edge in (column, column + 1))
        top, bottom = (height * edge // self.grid for edge in (row, row + 1))
        return left, top, right, bottom

    def place(self, size: tuple[int, int]) -> Mapping[str, int]:
        """The edges of the cell; errors as `box`."""
        return dict(zip(("left", "top", "right", "bottom"), self.box(size), strict=True))

    def draw(self, images: Sequence[Image.Image]) -> Image.Image:
        """The image at its own size; errors as `box`."""
        (original,) = rgb_sources(self, images)
        drawn = original.copy()
        drawn.paste(BLACK, self.box(original.size))
        return drawn

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready; `engine.variants.recipes.recipe_from_json` reads it back."""
        return {
            "kind": self.kind,
            "original": self.original.describe(),
            "grid": self.grid,
            "cell": self.cell,
        }

    @classmethod
    def from_fields(cls, fields: RecipeFields) -> OccludeRecipe:
        """The recipe that described itself so."""
        grid = fields.integer("grid", FINEST + 1, least=2)
        return cls(fields.image("original"), grid, fields.integer("cell", grid**2))


def _parse_grid(text: str) -> int:
    return parse_whole_number(text, 2, FINEST)


def _parse_cell(text: str) -> int:
    return parse_whole_number(text, 0, FINEST**2 - 1)


@family(
    "occlude",
    Parameter("grid", _parse_grid, f"the cells a side, a whole number from 2 to {FINEST}", positional=True),
    Parameter("cell", _parse_cell, "the number of a cell, from 0, row by row", positional=True),
)
@dataclass(frozen=True)
class Occlude:
    """A probe: one cell of a GRID x GRID grid is black in every image that asks.

    CELL counts from 0, row by row (``occlude:4:0`` is the top left sixteenth). The edges of the cells are
    rounded down to whole pixels, so that the cells of a grid cover an image exactly once. The captions of the
    gallery stay as they are. One variant a cell, against the originals, gives the map of which places a model
    looks at. Source: RoCOCO, spatial influence (a grid of 4).
    """

    grid: int
    cell: int
    side: ClassVar[Side] = "query"
    modality: ClassVar[Modality] = "images"

    def __post_init__(self) -> None:
        """Raise `InputError` for a cell that the grid does not have."""
        if self.cell >= self.grid**2:
            raise InputError(
                f"variant {self.name!r}: cell is {self.cell}; expected 0 to {self.grid**2 - 1}, because a "
                f"grid of {self.grid} has {self.grid**2} cells"
            )

    @property
    def name(self) -> str:
        """Such as ``occlude:4:0``."""
        return f"occlude:{self.grid}:{self.cell}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an image, in corpus order."""
        recipes = (
            OccludeRecipe(ImageReference(row, image.id), self.grid, self.cell)
            for row, image in enumerate(corpus.images)
        )
        items = (
            VariantItem(f"{r.original.id}@{self.name}", r.original.row, r, True, r.describe())
            for r in recipes
        )
        return require_change(self.name, VariantItems(tuple(items)))
