"""`random_letter`: some words of every query get a wrong letter."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.variants.keyboard import in_case_of, typeable
from engine.variants.parameters import PAPER, mode_parameter, seed_parameter
from engine.variants.queries import Perturbed, Rule, SeededPerturbation
from engine.variants.registry import family
from engine.variants.shuffling import spaced_words

CHANCE = 0.1


@family("random_letter", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class RandomLetter(SeededPerturbation):
    """Each word with chance .1, but at least one of them, gets a random letter for one of its characters.

    Words are what stands between white space; the letter or digit that goes and the English letter that
    comes are drawn evenly, they differ, and upper case stays. A caption without a letter or digit stays as
    it is, is listed as unchanged and counted. In paper mode words are split at single spaces, the letter is
    any of a to z and A to Z, and a caption in which no word is drawn stays as it is.
    """

    perturbation: ClassVar[str] = "random_letter"

    def rule(self, corpus: Corpus) -> Rule:
        """Draws words, then a character in each."""
        return self._published if self.mode == PAPER else self._at_least_one

    def _published(self, caption: Caption) -> Perturbed:
        rng = self.rng(caption)
        words = caption.text.split(" ")
        for place, word in enumerate(words):
            if word and rng.random() < CHANCE:
                at = int(rng.integers(len(word)))
                letter = string.ascii_letters[int(rng.integers(len(string.ascii_letters)))]
                words[place] = word[:at] + letter + word[at + 1 :]
        text = " ".join(words)
        return Perturbed(text, unchanged="no word was drawn" if text == caption.text else None)

    def _at_least_one(self, caption: Caption) -> Perturbed:
        characters = list(caption.text)
        words = list(_words(caption.text))
        if not words:
            return Perturbed(caption.text, unchanged="no letter or digit")
        rng = self.rng(caption)
        drawn = [word for word, number in zip(words, rng.random(len(words)), strict=True) if number < CHANCE]
        changes = []
        for places in drawn or [words[int(rng.integers(len(words)))]]:
            place = places[int(rng.integers(len(places)))]
            letter = _other_letter(rng, characters[place])
            changes.append({"position": place, "old": characters[place], "new": letter})
            characters[place] = letter
        return Perturbed("".join(characters), {"letters": changes})


def _words(text: str) -> Iterator[list[int]]:
    """The positions of the letters and digits of every word that has any."""
    single = set(typeable(text))
    for word in spaced_words(text):
        places = [place for place in range(word.start, word.end) if place in single]
        if places:
            yield places


def _other_letter(rng: np.random.Generator, old: str) -> str:
    letters = [letter for letter in string.ascii_lowercase if letter != old.lower()]
    return in_case_of(letters[int(rng.integers(len(letters)))], old)
