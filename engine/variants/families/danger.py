"""`danger`: a noun becomes a word of public security."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.variants.caption_policy import concepts_parameter
from engine.variants.concepts import Concepts
from engine.variants.inflection import pluralise
from engine.variants.nouns import Noun, words_parameter
from engine.variants.parameters import PAPER, Parameter, mode_parameter, seed_parameter
from engine.variants.published_captions import replace_keeping_case
from engine.variants.registry import family
from engine.variants.substitution import PublishedRule, Substitution, Target, TargetPolicy
from engine.variants.word_choice import choice_parameter

POLICY = "danger"
GROUP = "danger"
PARAMETERS = (
    mode_parameter(),
    words_parameter(),
    choice_parameter(),
    concepts_parameter(),
    seed_parameter(),
)


@dataclass(frozen=True)
class Kind:
    """Words for nouns of some concept groups (of no other kind, where it names none).

    `targets` are singular, the published one first. `true` are nouns that a target may name rightly: no fake
    is made of them.
    """

    groups: Collection[str]
    targets: Sequence[str]
    true: Collection[str]


KINDS = (
    Kind(
        {"people"},
        ("criminal", "terrorist", "gunman", "kidnapper", "assassin"),
        {
            "bandit",
            "burglar",
            "convict",
            "crook",
            "pirate",
            "prisoner",
            "robber",
            "sniper",
            "thief",
        },
    ),
    Kind({"places", "landscape"}, ("minefield", "battlefield", "warzone"), {"battlefield"}),
    Kind(
        (),
        ("weapon", "bomb", "grenade", "rifle", "missile", "landmine"),
        {
            *("ammunition", "arrow", "axe", "bat", "blade", "bow", "cannon", "cleaver", "club", "dagger"),
            *("explosive", "firearm", "firecracker", "gun", "hatchet", "knife", "machete", "pistol"),
            *("revolver", "rocket", "saber", "shotgun", "spear", "sword", "tank", "torpedo"),
        },
    ),
)
"""Fourteen words, as in the published file; a noun is of the first kind that has one of its groups."""


class DangerTargets:
    """The dangerous words of a noun's kind, in its number; with `published` the kind's published word."""

    def __init__(self, concepts: Concepts, *, published: bool) -> None:
        self._concepts = concepts
        self._published = published
        self.record: Mapping[str, Any] = {}

    def source_groups(self, noun: Noun) -> tuple[str, ...]:
        """Names of the groups that hold the noun's form or its lemma."""
        found = (group.name for form in _forms(noun) for group in self._concepts.groups_of(form))
        return tuple(dict.fromkeys(found))

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """The words of the noun's kind."""
        kind = self._kind(noun)
        if self._published:
            return (Target(kind.targets[0], kind.targets[0], (GROUP,)),)
        return tuple(
            Target(pluralise(word) if noun.plural else word, word, (GROUP,)) for word in kind.targets
        )

    def allows(self, noun: Noun, target: Target) -> bool:
        """Whether the word would make the caption false; in paper mode always, the noun's own form too."""
        if self._published:
            return True
        kind = self._kind(noun)
        return not any(form in kind.true or form in kind.targets for form in _forms(noun))

    def _kind(self, noun: Noun) -> Kind:
        groups = set(self.source_groups(noun))
        return next(kind for kind in KINDS if not kind.groups or groups & set(kind.groups))


def _forms(noun: Noun) -> tuple[str, ...]:
    return (noun.text.lower(), noun.lemma)


@family(POLICY, *PARAMETERS)
@dataclass(frozen=True)
class Danger(Substitution):
    """One noun of every caption becomes a word of public security (man to criminal, park to minefield).

    People become criminal, terrorist, gunman, kidnapper or assassin, places minefield, battlefield or
    warzone, anything else weapon, bomb, grenade, rifle, missile or landmine; never where that could be true
    (knife, pirate). The kind is read off the noun's concept groups people, places and landscape. The noun is
    chosen as for same_concept (words, choice, concepts), alike with the same seed. Number, case and a/an
    carry over; everything else stays byte for byte. Captions with no noun are left out and counted. In paper
    mode people become criminal, places minefield, the rest weapon, wherever the noun's letters stand in
    NLTK's tokens, case and full stop kept; the published file's phrase for words that are no nouns is not
    made. Source: RoCOCO, danger captions.
    """

    published_rule: ClassVar[PublishedRule] = staticmethod(replace_keeping_case)
    policy: ClassVar[str] = POLICY
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def targets(self, concepts: Concepts) -> TargetPolicy:
        """Words of the noun's kind."""
        return DangerTargets(concepts, published=self.mode == PAPER)
