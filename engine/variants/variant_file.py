"""A variant as one JSON Lines file: what `itrstress variants make` writes and ``file:PATH`` reads.

The first line is the header, every other one an item or an original without one::

    {"itrstress_variant": 1, "name": "mix:0.9:seed=1", "family": "mix", "parameters": {...}, "seed": 1,
     "side": "gallery", "modality": "images",
     "corpus": {"name": ..., "fingerprint": ..., "normalisation": "raw", "images": 5000, "captions": 25010},
     "items": 5000, "left_out": 0, "changed_rate": 1.0, "made_with": {...}, "versions": {...}}
    {"id": ..., "original": ID, "text": ..., "changed": true, "change": {...}}        (captions)
    {"id": ..., "original": ID, "recipe": {...}, "changed": true}                     (images)
    {"original": ID, "left_out": REASON}

``change`` is what was done, whatever the family says of it; an image's recipe is part of it, unsaid.
``made_with`` is what all items share: digests of files, encoders, a vocabulary.
The file holds no date, path or count of processes: equal variants of equal corpora give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from engine.corpus.corpus import Corpus
from engine.path_text import storable
from engine.variants.recipes import PlacedRecipe
from engine.variants.variant import Modality, Side, Variant, VariantItem, VariantItems

SCHEMA = 1
MARK = "itrstress_variant"
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Header:
    """The first line. `rows` counts the corpus' items by modality; the rest is as in the file."""

    name: str
    side: Side
    modality: Modality
    corpus: str
    fingerprint: str
    normalisation: str
    rows: Mapping[Modality, int]
    items: int
    left_out: int
    changed_rate: float
    family: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    made_with: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> int | None:
        """The seed among the parameters."""
        return self.parameters.get("seed")


def header_of(
    variant: Variant,
    items: VariantItems,
    corpus: Corpus,
    *,
    family: str,
    parameters: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Header:
    """The header of a variant's items; of parameters that are paths only the name is kept."""
    return Header(
        name=variant.name,
        side=variant.side,
        modality=variant.modality,
        corpus=corpus.name,
        fingerprint=corpus.fingerprint,
        normalisation=corpus.normalisation,
        rows={"images": len(corpus.images), "captions": len(corpus.captions)},
        items=len(items.items),
        left_out=len(items.left_out),
        changed_rate=items.changed_rate,
        family=family,
        parameters={name: _plain(value) for name, value in parameters.items()},
        made_with=items.made_with,
        versions=versions,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, PurePath):
        return value.name
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_plain(one) for one in (sorted(value) if isinstance(value, (frozenset, set)) else value)]
    return value


def with_boxes(items: VariantItems, sizes: Sequence[tuple[int, int]]) -> VariantItems:
    """The same items, with the pixels of the original and of the box in the change of every one that has one.

    `sizes` has (width, height) of every image of the corpus. Raises `InputError` for an image that is too
    small.
    """
    return replace(items, items=tuple(_with_box(item, sizes[item.source]) for item in items.items))


def _with_box(item: VariantItem, size: tuple[int, int]) -> VariantItem:
    if not isinstance(item.content, PlacedRecipe):
        return item
    placed = {"size": list(size), "pixels": dict(item.content.place(size))}
    return replace(item, change={**item.change, **placed})


def file_lines(header: Header, items: VariantItems, corpus: Corpus) -> Iterator[bytes]:
    """The lines of the file, UTF-8, each with its newline."""
    ids = original_ids(corpus, header.modality)
    yield _line(storable(_header_record(header)))
    for item in items.items:
        yield _line(_item_record(item, ids[item.source]))
    for row, reason in sorted(items.left_out.items()):
        yield _line({"original": ids[row], "left_out": reason})


def original_ids(corpus: Corpus, modality: Modality) -> tuple[str, ...]:
    """The ids of the corpus' items of a modality, in corpus order."""
    return tuple(item.id for item in (corpus.images if modality == "images" else corpus.captions))


def _header_record(header: Header) -> Mapping[str, Any]:
    return {
        MARK: SCHEMA,
        "name": header.name,
        "family": header.family,
        "parameters": dict(header.parameters),
        "seed": header.seed,
        "side": header.side,
        "modality": header.modality,
        "corpus": {
            "name": header.corpus,
            "fingerprint": header.fingerprint,
            "normalisation": header.normalisation,
            **header.rows,
        },
        "items": header.items,
        "left_out": header.left_out,
        "changed_rate": header.changed_rate,
        "made_with": dict(header.made_with),
        "versions": dict(header.versions),
    }


def _item_record(item: VariantItem, original: str) -> Mapping[str, Any]:
    record: dict[str, Any] = {"id": item.id, "original": original}
    if isinstance(item.content, str):
        return record | {"text": item.content, "changed": item.changed, "change": dict(item.change)}
    recipe = dict(item.content.describe())
    record |= {"recipe": recipe, "changed": item.changed}
    beyond = {name: value for name, value in item.change.items() if name not in recipe}
    return record | {"change": beyond} if beyond else record


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{_JSON.encode(record)}\n".encode()
