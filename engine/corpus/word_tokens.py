"""The word tokens of the published perturbations and of SCAN's captions: NLTK's `word_tokenize`.

It cuts a text into sentences (Punkt), and these into the Penn Treebank's tokens: only the last full stop of a
sentence stands apart. Straight quotation marks become two backquotes or two apostrophes. No data are needed:
of Punkt's trained English model only the commonest abbreviations are here. Measured: the tokens of 24,999 of
SCAN's 25,000 captions and of all 5,000 stored trigram shuffles (NLTK 3.10's own tokens of a text taken as one
sentence: 24,954 and 4,995; its `NLTKWordTokenizer` has changed since both were made).
"""

from __future__ import annotations

from functools import cache
from typing import Any

ABBREVIATIONS = frozenset(
    (
        *("st", "ave", "mt", "ft", "dr", "mr", "mrs", "ms", "jr", "sr", "vs", "etc"),
        *("j.r", "u.s", "u.s.a", "u.k", "d.c", "a.m", "p.m"),
    )
)
"""Words whose full stop ends no sentence, without it."""


@cache
def _sentences() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


@cache
def _words() -> Any:
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer()


@cache
def word_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text, sentence by sentence."""
    return tuple(word for sentence in _sentences().tokenize(text) for word in _words().tokenize(sentence))
