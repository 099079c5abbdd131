"""The nouns of a caption, among spaCy's tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.variants.tagging import Tokens, tag


@dataclass(frozen=True)
class Noun:
    """A noun as it stands in a text.

    `token` is its index among spaCy's tokens, `start` and `end` its characters in the text, `lemma` is
    lower-cased.
    """

    text: str
    lemma: str
    token: int
    start: int
    end: int
    plural: bool


def nouns_of(texts: Iterable[str]) -> Mapping[str, tuple[Noun, ...]]:
    """The nouns of every distinct text, in reading order: words of letters tagged NN, NNS, NNP, NNPS.

    Raises `InputError` when no English pipeline is installed.
    """
    return {text: tuple(_nouns(tokens)) for text, tokens in tag(texts).items()}


def _nouns(tokens: Tokens) -> Iterator[Noun]:
    for number, token in enumerate(tokens):
        if token.is_noun and token.text.isalpha() and len(token.text) > 1:
            yield Noun(token.text, token.lemma.lower(), number, token.start, token.end, token.is_plural)
