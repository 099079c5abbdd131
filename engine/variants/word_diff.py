"""Which words of a caption were replaced, read off an original and its altered copy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_CLITIC = re.compile(r"\s*('(?:s|m|d|re|ve|ll)|n't)(?!\w)")
_WORD = re.compile(r"[^\W_]+(?:[-/'][^\W_]+)*|'[^\W_]+")


@dataclass(frozen=True)
class Replacement:
    """`source` became `target` at word `position` of the original; a side may be several words or none."""

    source: str
    target: str
    position: int


def words_of(text: str) -> list[str]:
    """Lower-cased words without punctuation; ``dog's`` and ``do n't`` are two words in any spacing."""
    return _WORD.findall(_CLITIC.sub(r" \1", text.lower()))


def replaced_words(original: str, altered: str) -> tuple[Replacement, ...]:
    """The replacements that lead from `original` to `altered`, in order; empty when no word differs."""
    before, after = words_of(original), words_of(altered)
    if len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return tuple(Replacement(b, a, i) for i, (b, a) in pairs if b != a)
    return _aligned(before, after)


def _aligned(before: Sequence[str], after: Sequence[str]) -> tuple[Replacement, ...]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Replacement(" ".join(before[i:j]), " ".join(after[k:m]), i)
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    )
