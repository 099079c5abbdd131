"""Shuffles of the words of a query: where a word may go, how an order is drawn and written."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.variants.parameters import PAPER
from engine.variants.queries import Perturbed, Rule, SeededPerturbation
from engine.variants.tagging import Tokens, tag

TRIES = 64
"""Draws until a text counts as one that no order changes; misses a changeable one with chance 2 ** -64."""
_WORD = re.compile(r"\S+")


class Slot(NamedTuple):
    """A word and the characters `start` to `end` it stands at; words change places within a `group`.

    In paper mode, where words are joined by single spaces, the place plays no part.
    """

    word: str
    group: int
    start: int = 0

    @property
    def end(self) -> int:
        """The character after the word."""
        return self.start + len(self.word)


FIXED = -1
"""The group of words that stay where they are."""


def permute_in_groups(rng: np.random.Generator, groups: Sequence[int]) -> list[int]:
    """An order of the places 0 .. n - 1, even over those that keep every word within its group's places."""
    order = list(range(len(groups)))
    for group in dict.fromkeys(groups):
        places = [place for place, own in enumerate(groups) if own == group and group != FIXED]
        for place, drawn in zip(places, rng.permutation(len(places)), strict=True):
            order[place] = places[drawn]
    return order


def permute_groups(rng: np.random.Generator, groups: Sequence[int]) -> list[int]:
    """An order of the places 0 .. n - 1, even over those that keep every group together and in its order."""
    members = [[place for place, own in enumerate(groups) if own == group] for group in dict.fromkeys(groups)]
    return [place for drawn in rng.permutation(len(members)) for place in members[drawn]]


def spaced_words(text: str) -> list[Slot]:
    """What stands between white space, punctuation included, all in one group."""
    return [Slot(match[0], 0, match.start()) for match in _WORD.finditer(text)]


def write(text: str, slots: Sequence[Slot], words: Sequence[str]) -> str:
    """`text` with `words` in the slots (in reading order); everything between the slots stays."""
    pieces, reached = [], 0
    for slot, word in zip(slots, words, strict=True):
        pieces += [text[reached : slot.start], word]
        reached = slot.end
    return "".join([*pieces, text[reached:]])


@dataclass(frozen=True)
class Shuffle(SeededPerturbation):
    """Words change places.

    In default mode the slots are spans of the text, everything between them stays, and an order is drawn
    again until the text changes. In paper mode one order of the tokens is drawn and they are joined by
    single spaces.
    """

    needs_tags: ClassVar[bool] = False
    no_order: ClassVar[str]

    @abstractmethod
    def published_slots(self, text: str) -> Sequence[Slot]:
        """All tokens of the text, as the published rule took them."""

    @abstractmethod
    def slots(self, text: str) -> Sequence[Slot]:
        """The words that may move, at their places."""

    def draw(self, rng: np.random.Generator, groups: Sequence[int]) -> list[int]:
        """An order of the words: which one comes to every place."""
        return permute_in_groups(rng, groups)

    def rule(self, corpus: Corpus) -> Rule:
        """Tags the captions, where the groups depend on that."""
        if self.needs_tags:
            tag(caption.text for caption in corpus.captions)
        return self._published if self.mode == PAPER else self._spaced

    def _published(self, caption: Caption) -> Perturbed:
        slots = self.published_slots(caption.text)
        before = [slot.word for slot in slots]
        order = self.draw(self.rng(caption), [slot.group for slot in slots])
        after = [before[place] for place in order]
        unchanged = "the drawn order gives the same words" if after == before else None
        return Perturbed(" ".join(after), {"order": order}, unchanged)

    def _spaced(self, caption: Caption) -> Perturbed:
        slots = self.slots(caption.text)
        if len({slot.word for slot in slots}) > 1:
            rng, groups = self.rng(caption), [slot.group for slot in slots]
            for _ in range(TRIES):
                order = self.draw(rng, groups)
                text = write(caption.text, slots, [slots[place].word for place in order])
                if text != caption.text:
                    return Perturbed(text, {"order": order})
        return Perturbed(caption.text, unchanged=self.no_order)


def tokens_of(text: str) -> Tokens:
    """spaCy's tokens of a text."""
    return tag([text])[text]


def moving_words(text: str) -> list[Slot]:
    """What stands between white space and holds no noun and no adjective, in one group."""
    kept = [token for token in tokens_of(text) if token.is_noun or token.is_adjective]
    return [s for s in spaced_words(text) if not any(s.start < t.end and t.start < s.end for t in kept)]
