"""The audit of a variant of images: from its recipes; no picture is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.corpus.corpus import Corpus
from engine.variants.audit.audit import Audit, audit_items
from engine.variants.families.patch import PatchRecipe
from engine.variants.published_images import SIDE, PublishedPatchRecipe
from engine.variants.variant import Variant, VariantItems


@dataclass(frozen=True)
class ImageAudit(Audit):
    """What a variant of images is like. Counts are of items.

    `no_ops` are drawn from the original alone where a fake belongs, `repeats` drawn as an item before them.
    `fakes` are different images drawn from beside the original, `most_used` the uses of the commonest.
    `replaced` is the share of pixels in [0, 1] that a box replaces (mean, least, most), where it is known.
    """

    no_ops: int
    repeats: int
    fakes: int
    most_used: int
    replaced: tuple[float, float, float] | None


def audit_images(
    variant: Variant, items: VariantItems, corpus: Corpus, sizes: Sequence[tuple[int, int]] | None = None
) -> ImageAudit:
    """Audit the items of a variant of this corpus' images.

    `sizes` has (width, height) of every image; without it the share that a default patch replaces is unknown.
    """
    recipes = [item.content for item in items.items if not isinstance(item.content, str)]
    drawn = Counter(tuple(sorted(str(one) for one in recipe.describe().items())) for recipe in recipes)
    fakes = Counter(source for recipe in recipes for source in recipe.sources[1:])
    shares = [share for recipe in recipes if (share := _replaced(recipe, sizes)) is not None]
    return ImageAudit(
        **vars(audit_items(variant, items, len(corpus.images))),
        no_ops=sum(len(recipe.sources) > 1 and len(set(recipe.sources)) == 1 for recipe in recipes),
        repeats=sum(count - 1 for count in drawn.values()),
        fakes=len(fakes),
        most_used=max(fakes.values(), default=0),
        replaced=(sum(shares) / len(shares), min(shares), max(shares)) if shares else None,
    )


def _replaced(recipe: object, sizes: Sequence[tuple[int, int]] | None) -> float | None:
    """The share of pixels that a patch replaces; None for other recipes and where it is not known."""
    if isinstance(recipe, PublishedPatchRecipe):
        return recipe.box.pixels / SIDE**2
    if isinstance(recipe, PatchRecipe) and sizes is not None:
        width, height = sizes[recipe.original.row]
        return float(Fraction(recipe.box((width, height)).pixels, width * height))
    return None
