"""Which word of a caption is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from engine.variants.nouns import Noun
from engine.variants.rng import item_rng


class WordChooser(Protocol):
    """Puts the candidate words of captions in order of preference; the first that can be replaced is."""

    name: ClassVar[str]

    def prefer(
        self, captions: Sequence[tuple[str, str]], candidates: Sequence[Sequence[Noun]], seed: int
    ) -> Sequence[Sequence[Noun]]:
        """For every caption (id, text) its candidates, the preferred one first.

        All captions come at once, so that a chooser which needs an encoder can batch. The outcome for a
        caption depends on (seed, id) and its text only.
        """


class RandomWord:
    """Every order of a caption's candidates is as likely; the same for every policy with one seed."""

    name: ClassVar[str] = "random"

    def prefer(
        self, captions: Sequence[tuple[str, str]], candidates: Sequence[Sequence[Noun]], seed: int
    ) -> Sequence[Sequence[Noun]]:
        """See `WordChooser.prefer`."""
        return [
            [nouns[i] for i in item_rng(seed, caption_id, "word").permutation(len(nouns))]
            for (caption_id, _), nouns in zip(captions, candidates, strict=True)
        ]
