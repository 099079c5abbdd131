"""Forms of a target word: number and case of the word it replaces, and the article before it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from engine.variants.nouns import Noun

if TYPE_CHECKING:
    import inflect

_ARTICLE_BEFORE = re.compile(r"(?<!\w)(an?)(\s+)\Z", re.IGNORECASE)
_ARTICLE_OF_PHRASE = re.compile(r"(?<!\w)an?\s+(?:[\w'-]+\s+){0,3}\Z", re.IGNORECASE)


@cache
def _engine() -> inflect.engine:
    import inflect  # takes over a second

    return inflect.engine()


@cache
def pluralise(lemma: str) -> str:
    """The plural of a singular noun."""
    return str(_engine().plural_noun(lemma))


@cache
def article(word: str) -> str:
    """``a`` or ``an``, whichever stands before `word`."""
    return str(_engine().a(word)).split(" ", 1)[0]


def match_case(word: str, pattern: str) -> str:
    """`word` in capitals when `pattern` (two letters or more) is, else with its first capital."""
    if len(pattern) > 1 and pattern.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if pattern[:1].isupper() else word


def has_article(text: str, noun: Noun) -> bool:
    """Whether ``a`` or ``an`` stands before the noun, with up to three words between them."""
    return _ARTICLE_OF_PHRASE.search(text, 0, noun.start) is not None


def replace_noun(text: str, noun: Noun, word: str) -> str:
    """`text` with `word` for the noun, in its case; an article right before agrees, all else stays."""
    before, after = text[: noun.start], text[noun.end :]
    found = _ARTICLE_BEFORE.search(before)
    if found:
        before = before[: found.start()] + match_case(article(word), found[1][0]) + found[2]
    return before + match_case(word, noun.text) + after
