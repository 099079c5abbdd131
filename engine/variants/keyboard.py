"""Characters a typing error can befall, and their neighbours on an English keyboard."""

from __future__ import annotations

import unicodedata
from functools import cache

NUMBER_ROW = "1234567890"
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def typeable(text: str) -> list[int]:
    """Positions of letters and digits that stand alone: no combining mark or joiner follows them."""
    places = [place for place, character in enumerate(text) if character.isalnum()]
    if text.isascii():
        return places
    return [place for place in places if not _continues(text[place + 1 : place + 2])]


def _continues(following: str) -> bool:
    return bool(following) and (following in _JOINERS or unicodedata.category(following)[0] == "M")


@cache
def neighbours(character: str) -> tuple[str, ...]:
    """The keys around a letter (lower case) or digit; empty for any other character.

    The keys are those of the package `typo`; a digit's are the ones beside it on the number pad and in the
    number row.
    """
    from typo.keyboardlayouts.en_default import NEIGHBORINGLETTERS, NEIGHBORINGNUMPADDIGITS

    if character in NUMBER_ROW:
        place = NUMBER_ROW.index(character)
        row = NUMBER_ROW[max(0, place - 1) : place] + NUMBER_ROW[place + 1 : place + 2]
        return tuple(sorted({*row, *NEIGHBORINGNUMPADDIGITS[character]}))
    return tuple(sorted(NEIGHBORINGLETTERS.get(character.lower(), ())))


def in_case_of(character: str, model: str) -> str:
    """`character` in the case of `model`; as it is where the other case is not one character (``ß``)."""
    cased = character.upper() if model.isupper() else character.lower()
    return cased if len(cased) == 1 else character
