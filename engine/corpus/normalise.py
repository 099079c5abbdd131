"""Text normalisation: a named, recorded choice of a run.

RoCOCO's adversarial captions were made from tokenised lower-case text, so punctuation and case alone can give
a fake away; `pre_caption` takes most of that difference out on both sides, `tokenised` the spacing alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from engine.corpus.word_tokens import word_tokens
from engine.errors import unknown_name

MAX_WORDS = 30
_TO_SPACE = re.compile(r"[.!\"()*#:;~\-/]")


def raw(text: str) -> str:
    """The text as published."""
    return text


def pre_caption(text: str) -> str:
    """RoCOCO's normalisation: BLIP's, with hyphens and slashes made spaces as in ALBEF's.

    Lower-case; ``. ! " ( ) * # : ; ~``, hyphens and slashes become spaces; runs of white space become one
    space, none at the ends; at most 30 words. A word changed beyond the 30th is therefore gone.
    """
    return " ".join(_TO_SPACE.sub(" ", text.lower()).split()[:MAX_WORDS])


def tokenised(text: str) -> str:
    """Word tokens with a space between, as SCAN's captions have them, which RoCOCO's fakes were made from.

    Case and full stops stay, so they still tell these fakes from originals.
    """
    return " ".join(word_tokens(text))


NORMALISATIONS: Mapping[str, Callable[[str], str]] = {
    "raw": raw,
    "pre_caption": pre_caption,
    "tokenised": tokenised,
}


def find_normalisation(name: str) -> Callable[[str], str]:
    """The function of that name; `InputError` with the nearest known name otherwise."""
    if name not in NORMALISATIONS:
        raise unknown_name("text normalisation", name, NORMALISATIONS)
    return NORMALISATIONS[name]
