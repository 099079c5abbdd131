"""From a corpus and its variants to the plans of the sets that a store will hold."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from engine.corpus.corpus import Corpus
from engine.store.schema import ORIGINAL, SetPlan, VariantRecord
from engine.variants.variant import ImageRecipe, Variant, VariantItems


def original_plans(corpus: Corpus, image_digests: Sequence[str] | None = None) -> tuple[SetPlan, SetPlan]:
    """``images/original`` and ``captions/original`` of a corpus.

    `image_digests`, one an image, may say what the files hold: then another file under the same name is
    another key.
    """
    images = SetPlan(
        modality="images",
        name=ORIGINAL,
        ids=tuple(image.id for image in corpus.images),
        source=np.arange(len(corpus.images), dtype=np.int64),
        content=tuple(image.file for image in corpus.images),
        content_digest=image_digests,
    )
    captions = SetPlan(
        modality="captions",
        name=ORIGINAL,
        ids=tuple(caption.id for caption in corpus.captions),
        source=np.arange(len(corpus.captions), dtype=np.int64),
        content=tuple(caption.text for caption in corpus.captions),
        image=corpus.image_of_caption,
    )
    return images, captions


def variant_plan(
    corpus: Corpus, variant: Variant, items: VariantItems, image_digests: Sequence[str] | None = None
) -> SetPlan:
    """The set of a variant's items, in their order.

    With `image_digests` (one a corpus image), an image item's digest is those of the images it is drawn from.
    Raises ValueError for an item whose source is no row of the corpus.
    """
    rows = len(corpus.images) if variant.modality == "images" else len(corpus.captions)
    source = np.array([item.source for item in items.items], dtype=np.int64)
    if len(source) and not (int(source.min()) >= 0 and int(source.max()) < rows):
        raise ValueError(
            f"variant {variant.name} has an item made from a row outside of the {rows} {variant.modality}"
        )
    digests = None
    if image_digests is not None and variant.modality == "images":
        digests = tuple(recipe_digests(item.content, image_digests) for item in items.items)
    return SetPlan(
        modality=variant.modality,
        name=variant.name,
        ids=tuple(item.id for item in items.items),
        source=source,
        content=tuple(content_text(item.content) for item in items.items),
        variant=VariantRecord(
            variant.name, variant.side, variant.modality, items.changed_rate, dict(items.left_out)
        ),
        change=tuple(canonical_json(dict(item.change)) for item in items.items),
        changed=np.array([item.changed for item in items.items], dtype=np.bool_),
        content_digest=digests,
    )


def content_text(content: str | ImageRecipe) -> str:
    """A caption's text, or an image recipe as canonical JSON."""
    return content if isinstance(content, str) else canonical_json(dict(content.describe()))


def recipe_digests(content: str | ImageRecipe, image_digests: Sequence[str]) -> str:
    """The digests of the images that a recipe draws from."""
    return "" if isinstance(content, str) else " ".join(image_digests[row] for row in content.sources)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spare space: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
