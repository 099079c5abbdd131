"""What the `blip` and `rococo` layouts share, and what tells them apart.

Both are a list of ``{"image": ..., "caption": [...]}``. In a RoCOCO file the last five captions of an entry
are altered copies of its first five, in the same order, so each of them shares most of its words with *its
own* original and not with the other four. In a plain list with ten captions an image, that holds by chance
for about one caption in five.

The rule: over the entries with ten captions or more (at most `SAMPLE` of them, evenly spaced), count how many
of the last five are strictly nearest, by shared words, to the original at the same place.

- no entry has ten captions, or at most half of the copies sit at their original: `blip`
- at least nine in ten do, and at least half of all entries have ten captions: `rococo`
- between: both readers recognise it, and the user is asked for `--reader`

The published files give 99.8%. A damaged RoCOCO file, where an entry lost captions, still counts as one, so
its reader can name that entry; a plain reading would take fakes for originals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.corpus.document import Document
from engine.corpus.shape import describe, expect_field, expect_image_file, expect_object, expect_text
from engine.errors import InputError

ADVERSARIALS = 5
"""Adversarial captions at the end of a RoCOCO entry."""
SAMPLE = 1000
ROCOCO_FROM = 0.9
BLIP_UNTIL = 0.5

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Entry:
    """One checked entry: its image file, its captions, and where it stands, for errors."""

    file: str
    captions: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class Evidence:
    """How much a list looks like a RoCOCO file.

    `long` of `entries` have ten captions or more; `share` in [0, 1] of their last five are nearest to their
    originals.
    """

    entries: int
    long: int
    share: float

    @property
    def allows_rococo(self) -> bool:
        """Whether it can be a RoCOCO file."""
        return self.long > 0 and self.share > BLIP_UNTIL

    @property
    def allows_blip(self) -> bool:
        """Whether it can be a plain list."""
        return self.long == 0 or self.share < ROCOCO_FROM or 2 * self.long < self.entries

    def __str__(self) -> str:
        if not self.long:
            return f"no entry has {2 * ADVERSARIALS} captions"
        return (
            f"{self.long:,} of {self.entries:,} entries have {2 * ADVERSARIALS} captions or more, "
            f"{self.share:.1%} of their last {ADVERSARIALS} "
            f"nearest to the one of the first {ADVERSARIALS} at the same place"
        )


def gather_evidence(document: Document) -> Evidence | None:
    """The evidence in a list of entries with `image` and `caption`; None when it is no such list."""
    if not document.is_json or not isinstance(document.value, list):
        return None
    entries = [e for e in document.value if isinstance(e, dict) and "image" in e and "caption" in e]
    if not entries:
        return None
    long = [e["caption"] for e in entries if _is_long(e["caption"])]
    step = -(-len(long) // SAMPLE) if long else 1
    matches = [match for captions in long[::step] for match in copies_at_original(captions)]
    return Evidence(len(entries), len(long), sum(matches) / len(matches) if matches else 0.0)


def copies_at_original(captions: list[str]) -> list[bool]:
    """Of each of the last five: whether the one of the first five at its place is strictly nearest."""
    originals = [_words(text) for text in captions[:ADVERSARIALS]]
    copies = [_words(text) for text in captions[-ADVERSARIALS:]]
    return [_is_nearest(copy, originals, own) for own, copy in enumerate(copies)]


def iterate_entries(document: Document) -> Iterator[Entry]:
    """The entries in order, checked. Raises `InputError` that names the entry (from 0) and the field."""
    if not document.is_json:
        raise InputError(f"{document.path}: not valid JSON: {document.fault}")
    if not isinstance(document.value, list) or not document.value:
        raise InputError(f"{document.path}: found {describe(document.value)}; expected a list of entries")
    for row, value in enumerate(document.value):
        place = f"{document.path}: entry {row} (from 0)"
        entry = expect_object(value, place)
        file = expect_image_file(expect_field(entry, "image", place), f"{place}: field 'image'")
        yield Entry(file, _captions(expect_field(entry, "caption", place), place), place)


def _captions(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise InputError(
            f"{place}: field 'caption' is {describe(value)}; expected a list with at least one caption"
        )
    return tuple(expect_text(text, f"{place}: caption {k}") for k, text in enumerate(value))


def _is_long(captions: object) -> bool:
    return (
        isinstance(captions, list)
        and len(captions) >= 2 * ADVERSARIALS
        and all(isinstance(text, str) for text in captions)
    )


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _is_nearest(copy: Counter[str], originals: list[Counter[str]], own: int) -> bool:
    overlaps = [_overlap(copy, original) for original in originals]
    return overlaps[own] > max(overlaps[:own] + overlaps[own + 1 :])


def _overlap(a: Counter[str], b: Counter[str]) -> float:
    """Words in common (as multisets) over the words of the longer text, in [0, 1]."""
    return sum((a & b).values()) / max(sum(a.values()), sum(b.values()), 1)
