"""`char_swap`, `missing_char`, `extra_char`, `nearby_char`: one typing error in every query."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from engine.corpus.corpus import Caption, Corpus
from engine.variants.keyboard import in_case_of, neighbours, typeable
from engine.variants.parameters import PAPER, mode_parameter, seed_parameter
from engine.variants.queries import Perturbed, Rule, SeededPerturbation
from engine.variants.registry import family
from engine.variants.variant import VariantItems

PUBLISHED_SEED = 42
NO_EFFECT = "the published rule leaves the text as it is"


@dataclass(frozen=True)
class Typo(SeededPerturbation):
    """One edit of one place. In paper mode every caption is drawn with the seed 42 by the package `typo`."""

    no_place: ClassVar[str]

    @property
    def name(self) -> str:
        """Such as ``char_swap:seed=0``; in paper mode no seed, because the published one is fixed."""
        return f"{self.perturbation}:mode={PAPER}" if self.mode == PAPER else super().name

    def apply(self, corpus: Corpus) -> VariantItems:
        """See `QueryPerturbation.apply`; Python's global generator, which `typo` seeds, is put back."""
        state = random.getstate()
        try:
            return super().apply(corpus)
        finally:
            random.setstate(state)

    def rule(self, corpus: Corpus) -> Rule:
        """The edit, as published or drawn from (seed, caption id)."""
        return self._published if self.mode == PAPER else self._drawn

    def _published(self, caption: Caption) -> Perturbed:
        from typo import StrErrer

        try:
            text = str(getattr(StrErrer(caption.text, seed=PUBLISHED_SEED), self.perturbation)().result)
        except KeyError as error:  # a digit of another script: the package has no keys around it
            return Perturbed(caption.text, unchanged=f"no keyboard neighbour of {error.args[0]!r}")
        return Perturbed(text, unchanged=NO_EFFECT if text == caption.text else None)

    def _drawn(self, caption: Caption) -> Perturbed:
        places = self.places(caption.text)
        if not places:
            return Perturbed(caption.text, unchanged=self.no_place)
        rng = self.rng(caption)
        place = places[int(rng.integers(len(places)))]
        options = self.replacements(caption.text, place)
        old, new = options[int(rng.integers(len(options)))]
        text = caption.text[:place] + new + caption.text[place + len(old) :]
        return Perturbed(text, {"position": place, "old": old, "new": new})

    @abstractmethod
    def places(self, text: str) -> Sequence[int]:
        """Positions where the edit changes the text."""

    @abstractmethod
    def replacements(self, text: str, place: int) -> Sequence[tuple[str, str]]:
        """What the edit may do there: (characters that go, characters that come)."""


@family("char_swap", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class CharSwap(Typo):
    """Two neighbouring characters of a word change places (people to pepole); upper case stays where it was.

    Only places where this changes the text; a caption without one stays as it is, is listed as unchanged and
    counted. In paper mode any two neighbouring word characters, equal ones too, drawn by the package typo
    with the seed 42 for every caption.
    """

    perturbation: ClassVar[str] = "char_swap"
    no_place: ClassVar[str] = "no two different letters or digits side by side"

    def places(self, text: str) -> Sequence[int]:
        """First positions of pairs of different letters or digits."""
        single = typeable(text)
        pairs = [i for i, following in pairwise(single) if following == i + 1]
        return [i for i in pairs if text[i].lower() != text[i + 1].lower()]

    def replacements(self, text: str, place: int) -> Sequence[tuple[str, str]]:
        """The pair, turned around."""
        return [(text[place : place + 2], _swapped(text, place))]


@family("missing_char", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class MissingChar(Typo):
    """One character of a word is left out (orange to orage).

    Words of one character are spared; a caption of nothing else stays as it is, is listed as unchanged and
    counted. In paper mode any word character, if there are two in the caption, drawn by the package typo with
    the seed 42 for every caption.
    """

    perturbation: ClassVar[str] = "missing_char"
    no_place: ClassVar[str] = "no word of two letters or digits"

    def places(self, text: str) -> Sequence[int]:
        """Positions with a letter or digit before or after them."""
        return [
            i for i in typeable(text) if text[i + 1 : i + 2].isalnum() or text[max(0, i - 1) : i].isalnum()
        ]

    def replacements(self, text: str, place: int) -> Sequence[tuple[str, str]]:
        """The character, gone."""
        return [(text[place], "")]


@family("extra_char", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class ExtraChar(Typo):
    """Before one character a neighbour of it on the keyboard is typed (hat to hqat).

    Only English letters and digits have neighbours; a caption without one stays as it is, is listed as
    unchanged and counted. In paper mode any word character, one without neighbours is doubled, drawn by the
    package typo with the seed 42 for every caption.
    """

    perturbation: ClassVar[str] = "extra_char"
    no_place: ClassVar[str] = "no character with a keyboard neighbour"

    def places(self, text: str) -> Sequence[int]:
        """Positions of characters with neighbours."""
        return _with_neighbours(text)

    def replacements(self, text: str, place: int) -> Sequence[tuple[str, str]]:
        """Each neighbour, in the character's case, before it."""
        return [("", in_case_of(key, text[place])) for key in neighbours(text[place])]


@family("nearby_char", mode_parameter(), seed_parameter())
@dataclass(frozen=True)
class NearbyChar(Typo):
    """One character becomes a neighbour of it on the keyboard (hat to hqt); upper case stays.

    Only English letters and digits have neighbours; a caption without one stays as it is, is listed as
    unchanged and counted. In paper mode any word character, one without neighbours stays, drawn by the
    package typo with the seed 42 for every caption.
    """

    perturbation: ClassVar[str] = "nearby_char"
    no_place: ClassVar[str] = "no character with a keyboard neighbour"

    def places(self, text: str) -> Sequence[int]:
        """Positions of characters with neighbours."""
        return _with_neighbours(text)

    def replacements(self, text: str, place: int) -> Sequence[tuple[str, str]]:
        """Each neighbour, in the character's case, for it."""
        return [(text[place], in_case_of(key, text[place])) for key in neighbours(text[place])]


def _swapped(text: str, place: int) -> str:
    first, second = text[place], text[place + 1]
    return in_case_of(second, first) + in_case_of(first, second)


def _with_neighbours(text: str) -> Sequence[int]:
    return [place for place in typeable(text) if neighbours(text[place])]
