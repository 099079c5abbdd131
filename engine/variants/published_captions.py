"""How RoCOCO's published captions were written: ``mode=paper`` of the policies that replace a noun.

They were made from SCAN's tokenised text (` ,`, ` 's`, ` n't`), three of the four files in lower case and
without the final full stop, by a plain replacement of the source word in the whole text: every occurrence,
inside longer words too, and nothing inflected. Measured on the published files: NLTK's tokens give SCAN's
text for 24,999 of 25,000 captions, and this replacement the published bytes for over 98% of the fakes.
Source: RoCOCO, "The published files".
"""

from __future__ import annotations

from engine.corpus.word_tokens import word_tokens

FINAL_STOP = " ."


def tokenised(text: str) -> str:
    """NLTK's word tokens of a text, joined by single spaces."""
    return " ".join(word_tokens(text))


def replace_as_published(text: str, word: str, target: str) -> str:
    """The fake of `same_concept`, `diff_concept` and `rand_voca` with `target` for the noun `word`."""
    return tokenised(text).lower().removesuffix(FINAL_STOP).replace(word.lower(), target)


def replace_keeping_case(text: str, word: str, target: str) -> str:
    """The fake of `danger`: as the others, but case and the final full stop stay."""
    return tokenised(text).replace(word, target)
