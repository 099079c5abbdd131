"""`shuffle_all_words`: the words of every query in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.variants.parameters import mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.shuffling import Shuffle, Slot, spaced_words


@family("shuffle_all_words", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ShuffleAllWords(Shuffle):
    """All words in a random order (a dog on grass to grass on a dog); punctuation goes with its word.

    Words are what stands between white space, which itself stays byte for byte; the order is drawn until the
    text changes. A caption with no two different words stays as it is, is listed as unchanged and counted. In
    paper mode words are split at single spaces and one order is drawn.
    """

    perturbation: ClassVar[str] = "shuffle_all_words"
    no_order: ClassVar[str] = "no two different words"

    def published_slots(self, text: str) -> Sequence[Slot]:
        """What single spaces separate."""
        return [Slot(word, 0) for word in text.split(" ")]

    def slots(self, text: str) -> Sequence[Slot]:
        """What white space separates."""
        return spaced_words(text)
