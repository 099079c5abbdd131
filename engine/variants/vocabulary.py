"""The vocabulary that `rand_voca` draws from: frequent English words, from the package `wordfreq`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata

SIZE = 20_000
"""How many words it holds: the most frequent ones that qualify."""

_WORD = re.compile(r"[a-z]{2,17}")
"""What RoCOCO's published random words are: English letters, 2 to 17 of them, no word pieces."""

_ASKED = 26_000  # of so many most frequent entries, more than SIZE qualify


@dataclass(frozen=True)
class Vocabulary:
    """Words, the most frequent first, and where they come from."""

    words: tuple[str, ...]
    source: str


@cache
def default_vocabulary() -> Vocabulary:
    """The `SIZE` most frequent English words of the `wordfreq` version that `source` names."""
    import wordfreq

    entries = wordfreq.top_n_list("en", _ASKED, wordlist="best")
    words = tuple(word for word in entries if _WORD.fullmatch(word))[:SIZE]
    return Vocabulary(words, f"wordfreq {metadata.version('wordfreq')}, en, the {len(words)} most frequent")
