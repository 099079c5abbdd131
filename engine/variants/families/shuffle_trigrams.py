"""`shuffle_within_trigrams`, `shuffle_trigrams`: word order broken near by, or far away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engine.corpus.word_tokens import word_tokens
from engine.variants.parameters import mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.shuffling import Shuffle, Slot, permute_groups, spaced_words

TRIGRAM = 3


@dataclass(frozen=True)
class Trigrams(Shuffle):
    """Consecutive words by threes, the last group may be shorter."""

    def published_slots(self, text: str) -> Sequence[Slot]:
        """NLTK's word tokens by threes."""
        return [Slot(word, place // TRIGRAM) for place, word in enumerate(word_tokens(text))]

    def slots(self, text: str) -> Sequence[Slot]:
        """What white space separates, by threes."""
        return [slot._replace(group=place // TRIGRAM) for place, slot in enumerate(spaced_words(text))]


@family("shuffle_within_trigrams", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ShuffleWithinTrigrams(Trigrams):
    """Each three consecutive words in a random order, the threes in theirs.

    Words are what stands between white space, punctuation included; white space stays byte for byte, and the
    order is drawn until the text changes. A caption with no two different words in a three stays as it is,
    is listed as unchanged and counted. In paper mode one order of NLTK's word tokens is drawn, and they are
    joined by spaces.
    """

    perturbation: ClassVar[str] = "shuffle_within_trigrams"
    no_order: ClassVar[str] = "no two different words within three"


@family("shuffle_trigrams", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ShuffleTrigrams(Trigrams):
    """The threes of consecutive words in a random order, each of them in its own.

    Words are what stands between white space, punctuation included; white space stays byte for byte, and the
    order is drawn until the text changes. A caption of at most three words, or of equal threes, stays as it
    is, is listed as unchanged and counted. In paper mode one order of the threes of NLTK's word tokens is
    drawn, and they are joined by spaces.
    """

    perturbation: ClassVar[str] = "shuffle_trigrams"
    no_order: ClassVar[str] = "no two different groups of three words"

    def draw(self, rng: np.random.Generator, groups: Sequence[int]) -> list[int]:
        """An order of the threes."""
        return permute_groups(rng, groups)
