"""The words of a caption that may be replaced or deleted, among spaCy's tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from engine.variants.concepts import ADDED_GROUPS, Concepts
from engine.variants.parameters import Parameter
from engine.variants.tagging import ADJECTIVE_TAGS, Token, Tokens, tag

Words = Literal["nouns", "all"]
NOUNS: Words = "nouns"
WORDS: tuple[Words, ...] = get_args(Words)

MODIFIER_TAGS = ADJECTIVE_TAGS | {"RB", "RBR", "RBS", "CD"}
SINGULAR_NUMBER = "one"  # any other number would need the noun's plural


@dataclass(frozen=True)
class Noun:
    """A noun (or, as a `modifier`, an adjective, adverb or number) as it stands in a text.

    `token` is its index among spaCy's tokens, `start` and `end` its characters in the text, `lemma` is
    lower-cased.
    """

    text: str
    lemma: str
    token: int
    start: int
    end: int
    plural: bool
    modifier: bool = False


def parse_words(text: str) -> Words:
    """A member of `WORDS`."""
    for words in WORDS:
        if text == words:
            return words
    raise ValueError(text)


def words_parameter() -> Parameter:
    """``words=all``: adjectives, adverbs and numbers of the added concept groups too, not nouns only."""
    return Parameter("words", parse_words, " or ".join(WORDS), default=NOUNS)


def words_of(texts: Iterable[str], words: Words, concepts: Concepts) -> Mapping[str, tuple[Noun, ...]]:
    """The candidate words of every distinct text, in reading order.

    With "nouns" those of `nouns_of`; with "all" also adjectives, adverbs and numbers that one of the groups
    `ADDED_GROUPS` holds (red, left, three). Raises `InputError` when no English pipeline is installed.
    """
    if words == NOUNS:
        return nouns_of(texts)
    added = {lemma for group in concepts.groups if group.name in ADDED_GROUPS for lemma in group.lemmas}
    added -= {SINGULAR_NUMBER}
    return {text: tuple(_with_modifiers(tokens, added)) for text, tokens in tag(texts).items()}


def plain_words_of(texts: Iterable[str]) -> Mapping[str, tuple[Noun, ...]]:
    """Every word of letters of every distinct text, whatever its kind, in reading order, but the articles."""
    return {
        text: tuple(
            as_word(number, token)
            for number, token in enumerate(tokens)
            if is_word(token) and token.text.lower() != "an"
        )
        for text, tokens in tag(texts).items()
    }


def nouns_of(texts: Iterable[str]) -> Mapping[str, tuple[Noun, ...]]:
    """The nouns of every distinct text, in reading order: words of letters tagged NN, NNS, NNP, NNPS.

    Raises `InputError` when no English pipeline is installed.
    """
    return {text: tuple(_nouns(tokens)) for text, tokens in tag(texts).items()}


def _nouns(tokens: Tokens) -> Iterator[Noun]:
    for number, token in enumerate(tokens):
        if token.is_noun and is_word(token):
            yield as_word(number, token)


def _with_modifiers(tokens: Tokens, added: Collection[str]) -> Iterator[Noun]:
    for number, token in enumerate(tokens):
        if not is_word(token):
            continue
        if token.is_noun:
            yield as_word(number, token)
        elif token.tag in MODIFIER_TAGS and token.text.lower() in added:
            yield as_word(number, token, modifier=True)


def is_word(token: Token) -> bool:
    """Whether a token is nothing but letters, two at least."""
    return token.text.isalpha() and len(token.text) > 1


def as_word(number: int, token: Token, *, modifier: bool = False) -> Noun:
    """A token as a candidate word."""
    lemma = token.text.lower() if modifier else token.lemma.lower()
    return Noun(token.text, lemma, number, token.start, token.end, token.is_plural, modifier)
