"""`shuffle_nouns_and_adj`, `shuffle_allbut_nouns_and_adj`: content words, or all others, change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.variants.parameters import mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.shuffling import FIXED, Shuffle, Slot, moving_words, tokens_of
from engine.variants.tagging import Token

NOUNS, ADJECTIVES, OTHERS = 0, 1, 2


def group_of(token: Token) -> int:
    """Nouns, adjectives or others."""
    return NOUNS if token.is_noun else ADJECTIVES if token.is_adjective else OTHERS


@family("shuffle_nouns_and_adj", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ShuffleNounsAndAdj(Shuffle):
    """Nouns change places with nouns, adjectives with adjectives (white dog, red hat to red hat, white dog).

    Nouns and adjectives are spaCy's (NN, NNS, NNP, NNPS; JJ, JJR, JJS); everything else stays byte for byte,
    and the order is drawn until the text changes. A caption with no two different nouns or adjectives stays
    as it is, is listed as unchanged and counted. In paper mode one order is drawn and spaCy's tokens are
    joined by spaces.
    """

    perturbation: ClassVar[str] = "shuffle_nouns_and_adj"
    needs_tags: ClassVar[bool] = True
    no_order: ClassVar[str] = "no two different nouns or adjectives"

    def published_slots(self, text: str) -> Sequence[Slot]:
        """spaCy's tokens; the others are fixed."""
        groups = ((token.text, group_of(token)) for token in tokens_of(text))
        return [Slot(word, FIXED if group == OTHERS else group) for word, group in groups]

    def slots(self, text: str) -> Sequence[Slot]:
        """The nouns and the adjectives."""
        tokens = tokens_of(text)
        return [Slot(t.text, group_of(t), t.start) for t in tokens if group_of(t) != OTHERS]


@family("shuffle_allbut_nouns_and_adj", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ShuffleAllbutNounsAndAdj(Shuffle):
    """All but nouns and adjectives change places (a dog sits on grass to on dog a sits grass).

    What moves is what stands between white space without a noun or adjective (spaCy's) in it, its punctuation
    included; everything else stays byte for byte, so punctuation beside a noun does, and no two words grow
    together. The order is drawn until the text changes. A caption with no two such words that differ stays as
    it is, is listed as unchanged and counted. In paper mode one order of spaCy's tokens is drawn, punctuation
    too, and they are joined by spaces.
    """

    perturbation: ClassVar[str] = "shuffle_allbut_nouns_and_adj"
    needs_tags: ClassVar[bool] = True
    no_order: ClassVar[str] = "no two different words beside nouns and adjectives"

    def published_slots(self, text: str) -> Sequence[Slot]:
        """spaCy's tokens; nouns and adjectives are fixed."""
        groups = ((token.text, group_of(token)) for token in tokens_of(text))
        return [Slot(word, OTHERS if group == OTHERS else FIXED) for word, group in groups]

    def slots(self, text: str) -> Sequence[Slot]:
        """The words without a noun or adjective in them."""
        return moving_words(text)
