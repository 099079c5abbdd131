"""A caption without one of its words: what embedding influence is measured on, and what `delete_*` makes."""

from __future__ import annotations

from engine.variants.nouns import Noun


def without_word(text: str, word: Noun) -> str:
    """`text` without this occurrence of the word and the white space before it (after it, at the start).

    Everything else stays byte for byte, an article before it too: which form it should take is not defined
    where its noun is gone.
    """
    before, after = text[: word.start], text[word.end :]
    return before.rstrip() + after if before.strip() else before + after.lstrip()
