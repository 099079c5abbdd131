"""Words of a caption as the GRU models' published code splits them (Penn Treebank conventions).

The published code runs NLTK's `word_tokenize`, on the captions of precomputed files (whose words are apart
already, so little is left to do) and on raw ones alike. This is the same splitting without NLTK and the data
it downloads: inside a sentence it gives the words that NLTK 3.10 gives for all 57,010 captions of SCAN's COCO
and Flickr30k test files, COCO's raw ones and a sample of Flickr8k's. Where a sentence ends inside a caption,
NLTK asks a trained model for abbreviations; here a short list stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ABBREVIATIONS = frozenset(
    ("mr.", "mrs.", "ms.", "dr.", "st.", "ave.", "mt.", "jr.", "sr.", "vs.", "no.", "u.s.", "co.", "etc.")
)
# a mark that ends a sentence, what closes with it, and closing quotes that stand apart
_CLOSING = r"[\"')\]}]+"
_SENTENCE_END = re.compile(rf"(\S*[.!?])(?:{_CLOSING})?\s+(?:{_CLOSING}(?:\s+|$))?")
_DOTTED = re.compile(r"(?:[a-z]\.)+", re.IGNORECASE)

# (what, how it is set apart), in this order: later rules see the spaces of the earlier ones
_RULES: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"([\u00ab\u201c\u2018\u201e]|``)", r" \1 "),
        (r"(^\"|(?<=[\s(\[{<])(?:\"|''))", " `` "),
        (r"([:,])(?!\d)", r" \1 "),
        (r"(\.{2,})", r" \1 "),
        (r"([;@#$%&?!*()\[\]{}<>]|--)", r" \1 "),
        (r"(?<!\.)(\.)(?=[\s\"')\]}>\u00bb\u201d\u2019]*$)", r" \1 "),
        (r'("|\'\')', " '' "),
        (r"([\u00bb\u201d\u2019])", r" \1 "),
        (r"(?<!\S)'(?=\w)(?!(?:re|ve|ll|m|t|s|d|n|twas|tis)\b)", "' "),
        (r"(?<=\w)(n't)(?!\S)", r" \1"),
        (r"(?<=[^'\s])('(?:s|m|d|ll|re|ve)?)(?!\S)", r" \1"),
        (r"\b(can)(not)\b", r"\1 \2"),
        (r"\b(gon|wan)(na)\b", r"\1 \2"),
        (r"\b(got)(ta)\b", r"\1 \2"),
        (r"\b(gim|lem)(me)\b", r"\1 \2"),
        (r"\b(more)('n)\b", r"\1 \2"),
        (r"(?<!\S)(d)('ye)\b", r"\1 \2"),
        (r"(?<!\S)('t)(is|was)\b", r"\1 \2"),
    )
)
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a caption, in its own case."""
    return [word for sentence in _split_sentences(text) for word in _split_sentence(sentence)]


def lower_ascii(text: str) -> str:
    """Lower-case in A to Z only: SGRAF and VSRN lower a caption's bytes before they decode them."""
    return text.translate(_ASCII_LOWER)


def _split_sentences(text: str) -> list[str]:
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if not _is_abbreviation(match.group(1)):
            sentences.append(text[start : match.end()])
            start = match.end()
    return [*sentences, text[start:]]


def _is_abbreviation(word: str) -> bool:
    return word.lower() in _ABBREVIATIONS or _DOTTED.fullmatch(word) is not None


def _split_sentence(sentence: str) -> list[str]:
    spaced = sentence.strip()
    for pattern, replacement in _RULES:
        spaced = pattern.sub(replacement, spaced)
    return spaced.split()
