"""The Penn Treebank tags of word tokens (`engine.corpus.word_tokens`), by NLTK's tagger or from spaCy's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from engine.variants.cache import files_digest
from engine.variants.tagging import Tokens

TAGGER = "taggers/averaged_perceptron_tagger_eng"
_QUOTES = {"``": '"', "''": '"'}


@cache
def has_tagger() -> bool:
    """Whether the user has the data of NLTK's own tagger."""
    import nltk

    try:
        nltk.data.find(TAGGER)
    except LookupError:
        return False
    return True


def tagger_digest() -> str:
    """SHA-256 (hex) of the data of NLTK's own tagger, which are there."""
    import nltk

    return files_digest(Path(str(nltk.data.find(TAGGER))))


def tags_by_nltk(tokens: Sequence[str]) -> list[str]:
    """The Penn Treebank tags of tokens by NLTK's own tagger; see `has_tagger`."""
    import nltk

    return [tag for _, tag in nltk.pos_tag(list(tokens))]


def tags_by_spacy(text: str, tokens: Sequence[str], tagged: Tokens) -> list[str]:
    """The tags of NLTK's tokens from spaCy's of the same text.

    A token that spaCy splits (``dark-skinned``) has the tag of the last piece, one that begins at none of
    spaCy's has that of the piece it is in, and one that is not found in the text has "". The *next* of *next
    to* is an adjective, as NLTK's tagger mostly has it (in 37 of the 47 stored queries of `synonym_adj` that
    tell); spaCy's calls it an adverb.
    """
    tags = []
    for (start, end), token in zip(_places(text, tokens), tokens, strict=True):
        inside = [piece.tag for piece in tagged if piece.start < end and start < piece.end]
        if inside and token.lower() == "next":
            inside.append("JJ")
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
