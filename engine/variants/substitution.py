"""One word of every caption replaced: what the policies with a target word share.

A policy says which words may stand in for a noun; here the noun is chosen, a target drawn, the text
rewritten, and everything recorded. In default mode the text is rewritten by its characters, and a result that
says what another caption says is drawn again; in paper mode as the published files were
(`engine.variants.published_captions`). Source: RoCOCO, "Making caption galleries ourselves".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.corpus.wording import same_form
from engine.variants.caption_policy import CaptionPolicy
from engine.variants.checks import require_change
from engine.variants.concepts import Concepts
from engine.variants.inflection import match_case, replace_noun
from engine.variants.nouns import Noun
from engine.variants.parameters import DEFAULT, PAPER, Mode
from engine.variants.published_captions import replace_as_published
from engine.variants.rng import item_rng
from engine.variants.variant import VariantItem, VariantItems

NO_NOUN = "no noun"
NO_TARGET = "no noun that this policy has a word for"
ONLY_REPEATS = "every replacement would repeat a caption of the corpus"
STAYS = "the published replacement leaves the caption as it is"


@dataclass(frozen=True)
class Target:
    """A word that may replace a noun: its form (number already right, lower case), its lemma, its groups."""

    form: str
    lemma: str
    groups: tuple[str, ...] = ()


class TargetPolicy(Protocol):
    """Which words may replace a noun."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What else the change record says of every item, such as the source of the words."""

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """Words that come into question for `noun` in `text`, in a fixed order; empty when there are none."""

    def allows(self, noun: Noun, target: Target) -> bool:
        """Whether this word of the pool may replace the noun."""

    def source_groups(self, noun: Noun) -> tuple[str, ...]:
        """Names of the noun's concept groups."""


PublishedRule = Callable[[str, str, str], str]
"""(text, source word, target word) -> the fake, as the published files have it."""


@dataclass(frozen=True)
class Substitution(CaptionPolicy):
    """One noun of every caption becomes another word."""

    mode: Mode = DEFAULT
    published_rule: ClassVar[PublishedRule] = staticmethod(replace_as_published)

    @abstractmethod
    def targets(self, concepts: Concepts) -> TargetPolicy:
        """The words that may stand in, in the variant's mode."""

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order, with one noun replaced; who allows none is `left_out`.

        The noun is the first in the chooser's order that has a target; the target is uniform over the words
        that the policy allows, drawn from (seed, caption id). In default mode it is drawn again when the
        result would say the same (`same_form`) as a caption of the corpus, the original and its image's other
        captions included: it would be no fake. In paper mode such an item is kept, marked as unchanged when
        it says what its original says. Raises `InputError` when no caption can be changed, or for a user's
        file that cannot be used.
        """
        groups, chooser, name = self.groups(), self.chooser(), self.name
        policy = self.targets(groups.concepts)
        preferred = chooser.prefer(
            [(c.id, c.text) for c in corpus.captions], self.candidates(corpus, groups.concepts), self.seed
        )
        taken = {same_form(caption.text) for caption in corpus.captions} if self.mode == DEFAULT else set()
        items: list[VariantItem] = []
        left_out: dict[int, str] = {}
        for row, (caption, preference) in enumerate(zip(corpus.captions, preferred.captions, strict=True)):
            outcome = self._replace(caption, preference.order, policy, taken)
            if isinstance(outcome, str):
                left_out[row] = outcome
                continue
            change = {**outcome.change, **groups.record, "word_choice": chooser.name, **preference.record}
            unchanged = change.get("unchanged") is not None
            items.append(VariantItem(f"{caption.id}@{name}", row, outcome.text, not unchanged, change))
        made_with = {**groups.record, **policy.record, **preferred.record}
        return require_change(name, VariantItems(tuple(items), left_out, made_with))

    def _replace(
        self, caption: Caption, nouns: Sequence[Noun], policy: TargetPolicy, taken: Collection[str]
    ) -> _Replaced | str:
        """The altered caption, or why there is none."""
        reason = NO_TARGET if nouns else NO_NOUN
        rng = item_rng(self.seed, caption.id, self.policy)
        for noun in nouns:
            pool = policy.pool(noun, caption.text)
            for place in draw_without_replacement(rng, len(pool)):
                target = pool[place]
                if not policy.allows(noun, target):
                    continue
                replaced = self._rewritten(caption.text, noun, target)
                if same_form(replaced.text) not in taken:
                    record = {"policy": self.policy, **policy.record, **_record(policy, noun, target)}
                    return _Replaced(replaced.text, {**record, **replaced.change})
                reason = ONLY_REPEATS
        return reason

    def _rewritten(self, text: str, noun: Noun, target: Target) -> _Replaced:
        """The text with the target for the noun, and what the record says of it beyond the default mode's."""
        if self.mode == DEFAULT:
            return _Replaced(replace_noun(text, noun, target.form), {})
        fake = type(self).published_rule(text, noun.text, target.form)
        change: dict[str, Any] = {"mode": PAPER, "target": target.form}
        if same_form(fake) == same_form(text):
            change["unchanged"] = STAYS
        return _Replaced(fake, change)


@dataclass(frozen=True)
class _Replaced:
    text: str
    change: Mapping[str, Any]


def _record(policy: TargetPolicy, noun: Noun, target: Target) -> Mapping[str, Any]:
    return {
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
