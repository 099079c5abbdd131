"""NLTK's word tokens of a text, as the published perturbations were made with; needs no data.

Straight quotation marks become the Penn Treebank's (two backquotes or two apostrophes).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from engine.variants.tagging import Tokens

TAGGER = "taggers/averaged_perceptron_tagger_eng"
_QUOTES = {"``": '"', "''": '"'}


@cache
def _tokenizer() -> Any:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@cache
def word_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text taken as one sentence."""
    return tuple(_tokenizer().tokenize(text))


@cache
def has_tagger() -> bool:
    """Whether the user has the data of NLTK's own tagger."""
    import nltk

    try:
        nltk.data.find(TAGGER)
    except LookupError:
        return False
    return True


def tags_by_nltk(tokens: Sequence[str]) -> list[str]:
    """The Penn Treebank tags of tokens by NLTK's own tagger; see `has_tagger`."""
    import nltk

    return [tag for _, tag in nltk.pos_tag(list(tokens))]


def tags_by_spacy(text: str, tokens: Sequence[str], tagged: Tokens) -> list[str]:
    """The tags of NLTK's tokens from spaCy's of the same text.

    A token that spaCy splits (``dark-skinned``) has the tag of the last piece, one that begins at none of
    spaCy's has that of the piece it is in, and one that is not found in the text has "".
    """
    tags = []
    for start, end in _places(text, tokens):
        inside = [piece.tag for piece in tagged if piece.start < end and start < piece.end]
        tags.append(inside[-1] if inside else "")
    return tags


def _places(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The characters of every token in reading order; an empty place where it is not found."""
    places = []
    reached = 0
    for token in tokens:
        forms = {token, _QUOTES.get(token, token)}
        found = min(
            ((text.find(f, reached), len(f)) for f in forms if text.find(f, reached) >= 0), default=None
        )
        if found is None:
            places.append((reached, reached))
            continue
        reached = found[0] + found[1]
        places.append((found[0], reached))
    return places
