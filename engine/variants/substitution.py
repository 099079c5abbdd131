"""One noun of every caption replaced: what the caption policies share.

A policy says which words may stand in for a noun; here the noun is chosen, a target drawn, the text rewritten
by its characters, and everything recorded. Source: RoCOCO, "Making caption galleries ourselves", default
mode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.corpus.wording import same_form
from engine.variants.checks import require_change
from engine.variants.inflection import match_case, replace_noun
from engine.variants.nouns import Noun, nouns_of
from engine.variants.rng import item_rng
from engine.variants.variant import VariantItem, VariantItems
from engine.variants.word_choice import WordChooser

NO_NOUN = "no noun"
NO_TARGET = "no noun that this policy has a word for"
ONLY_REPEATS = "every replacement would repeat a caption of the corpus"


@dataclass(frozen=True)
class Target:
    """A word that may replace a noun: its form (number already right, lower case), its lemma, its groups."""

    form: str
    lemma: str
    groups: tuple[str, ...] = ()


class TargetPolicy(Protocol):
    """Which words may replace a noun."""

    @property
    def name(self) -> str:
        """What the change record calls it."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What else the change record says of every item, such as the source of the words."""

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """Words that come into question for `noun` in `text`, in a fixed order; empty when there are none."""

    def allows(self, noun: Noun, target: Target) -> bool:
        """Whether this word of the pool may replace the noun."""

    def source_groups(self, noun: Noun) -> tuple[str, ...]:
        """Names of the noun's concept groups."""


def substitute(
    corpus: Corpus, variant: str, seed: int, policy: TargetPolicy, chooser: WordChooser
) -> VariantItems:
    """One item a caption, in corpus order, with one noun replaced; who allows none is in `left_out`.

    The noun is the first in the chooser's order that has a target, the target is uniform over the words that
    the policy allows, drawn from (seed, caption id). A target is drawn again when the result would say the
    same (`same_form`) as a caption of the corpus, the original and its image's other captions included: it
    would be no fake. Raises `InputError` when no caption can be changed.
    """
    nouns = nouns_of(caption.text for caption in corpus.captions)
    candidates = [nouns[caption.text] for caption in corpus.captions]
    preferred = chooser.prefer([(c.id, c.text) for c in corpus.captions], candidates, seed)
    taken = {same_form(caption.text) for caption in corpus.captions}
    items: list[VariantItem] = []
    left_out: dict[int, str] = {}
    for row, (caption, preference) in enumerate(zip(corpus.captions, preferred, strict=True)):
        outcome = _replace(caption, preference.order, seed, policy, taken)
        if isinstance(outcome, str):
            left_out[row] = outcome
            continue
        change = {**outcome.change, "word_choice": chooser.name, **preference.record}
        items.append(VariantItem(f"{caption.id}@{variant}", row, outcome.text, True, change))
    return require_change(variant, VariantItems(tuple(items), left_out))


@dataclass(frozen=True)
class _Replaced:
    text: str
    change: Mapping[str, Any]


def _replace(
    caption: Caption, nouns: Sequence[Noun], seed: int, policy: TargetPolicy, taken: Collection[str]
) -> _Replaced | str:
    """The altered caption, or why there is none."""
    reason = NO_TARGET if nouns else NO_NOUN
    rng = item_rng(seed, caption.id, policy.name)
    for noun in nouns:
        pool = policy.pool(noun, caption.text)
        for place in draw_without_replacement(rng, len(pool)):
            target = pool[place]
            if not policy.allows(noun, target):
                continue
            text = replace_noun(caption.text, noun, target.form)
            if same_form(text) not in taken:
                return _Replaced(text, _record(policy, noun, target))
            reason = ONLY_REPEATS
    return reason


def _record(policy: TargetPolicy, noun: Noun, target: Target) -> Mapping[str, Any]:
    return {
        "policy": policy.name,
        **policy.record,
        "word": noun.text,
        "lemma": noun.lemma,
        "position": noun.token,
        "span": [noun.start, noun.end],
        "groups": list(policy.source_groups(noun)),
        "target": match_case(target.form, noun.text),
        "target_lemma": target.lemma,
        "target_groups": list(target.groups),
    }


def draw_without_replacement(rng: np.random.Generator, count: int) -> Iterator[int]:
    """0 .. count - 1 in an evenly drawn order, one at a time: a shuffle paid for only as far as read."""
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        place = int(rng.integers(left))
        yield moved.get(place, place)
        moved[place] = moved.pop(left - 1, left - 1)
