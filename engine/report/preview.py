"""What a contact sheet of variants shows: some images of a corpus, their fakes, their captions' changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath

from PIL import Image

from engine.corpus.corpus import Corpus
from engine.corpus.images import open_image
from engine.report.contact_sheet import Line, Picture, Row, Span
from engine.variants.rng import item_rng
from engine.variants.variant import Variant, VariantItem, VariantItems

ORIGINAL, UNCHANGED, NO_ITEM = "original", "unchanged", "left out"
MOST_STRUCK = 3
"""Changed places up to which the words that are gone are shown too; else only where the new ones are."""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Applied:
    """A variant and its items, by the row of their original."""

    variant: Variant
    items: VariantItems
    by_source: Mapping[int, VariantItem]

    @classmethod
    def of(cls, variant: Variant, items: VariantItems) -> Applied:
        """The first item of every original."""
        by_source: dict[int, VariantItem] = {}
        for item in items.items:
            by_source.setdefault(item.source, item)
        return cls(variant, items, by_source)


def preview_rows(
    corpus: Corpus, applied: Sequence[Applied], folder: Path | None, count: int, seed: int
) -> list[Row]:
    """A row for each of `count` images, drawn from (seed, corpus); without a `folder` with no pictures.

    The caption shown of an image is the first of those that most variants have an item for. Raises
    `InputError` for an image that cannot be read.
    """
    order = item_rng(seed, corpus.fingerprint, "preview").permutation(len(corpus.images)).tolist()
    of_images = [one for one in applied if one.variant.modality == "images"]
    of_captions = [one for one in applied if one.variant.modality == "captions"]
    return [
        Row(
            corpus.images[row].id,
            () if folder is None else _pictures(corpus, of_images, folder, row),
            _lines(corpus, of_captions, row),
        )
        for row in sorted(order[:count])
    ]


def _pictures(corpus: Corpus, applied: Sequence[Applied], folder: Path, row: int) -> tuple[Picture, ...]:
    def opened(source: int) -> Image.Image:
        return open_image(folder, corpus.images[source].file)

    pictures = [Picture(opened(row), ORIGINAL)]
    for one in applied:
        item = one.by_source.get(row)
        if item is None or isinstance(item.content, str):
            continue
        drawn = item.content.draw([opened(source) for source in item.content.sources])
        pictures.append(Picture(drawn, one.variant.name, _note(item)))
    return tuple(pictures)


def _note(item: VariantItem) -> str:
    """What an image item is made with, in a few words."""
    if not item.changed:
        return UNCHANGED
    fake = item.change.get("fake")
    return f"fake: {PurePosixPath(str(fake['id'])).name}" if isinstance(fake, Mapping) else ""


def _lines(corpus: Corpus, applied: Sequence[Applied], image: int) -> tuple[Line, ...]:
    rows = corpus.captions_of_image[image].tolist()
    if not rows:
        return ()
    row = max(rows, key=lambda row: (sum(row in one.by_source for one in applied), -row))
    text = corpus.captions[row].text
    lines = [Line(ORIGINAL, (Span(text),))]
    for one in applied:
        item = one.by_source.get(row)
        if item is None:
            reason = one.items.left_out.get(row, "")
            lines.append(Line(one.variant.name, (), f"{NO_ITEM}: {reason}" if reason else NO_ITEM))
        elif isinstance(item.content, str):
            spans = marked(text, item.content) if item.changed else (Span(item.content),)
            lines.append(Line(one.variant.name, spans, "" if item.changed else UNCHANGED))
    return tuple(lines)


def marked(before: str, after: str) -> tuple[Span, ...]:
    """`after` in spans: what is new in it is marked, and, for up to `MOST_STRUCK` places, what is gone.

    Words are compared with their case, white space not at all: it is no change worth a mark.
    """
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    matcher = SequenceMatcher(None, _shapes(old), _shapes(new), autojunk=False)
    pieces = [
        (code == "equal", "".join(old[i:j]), "".join(new[k:m])) for code, i, j, k, m in matcher.get_opcodes()
    ]
    struck = sum(_is_visible(*piece) for piece in pieces) <= MOST_STRUCK
    spans: list[Span] = []
    for piece in pieces:
        _, gone, come = piece
        spans += _changed(gone if struck else "", come) if _is_visible(*piece) else [Span(come)]
    return tuple(span for span in spans if span.text)


def _shapes(tokens: Sequence[str]) -> list[str]:
    return [" " if token.isspace() else token for token in tokens]


def _is_visible(equal: bool, gone: str, come: str) -> bool:
    return not equal and bool(gone.strip() or come.strip())


def _changed(gone: str, come: str) -> Iterator[Span]:
    """One changed place; white space at its ends stays unmarked."""
    if gone.strip():
        before, after = _ends(gone)
        yield from (Span(before if not come else ""), Span(gone.strip(), "gone"))
        yield Span(" " if come.strip() else after)
    if come.strip():
        before, after = _ends(come)
        yield from (Span(before), Span(come.strip(), "new"), Span(after))


def _ends(text: str) -> tuple[str, str]:
    """The white space before and behind a text."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
