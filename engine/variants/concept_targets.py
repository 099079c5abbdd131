"""Target words out of concept groups: what `same_concept` and `diff_concept` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from engine.variants.concepts import ADDED_GROUPS, ConceptGroup, Concepts
from engine.variants.inflection import has_article, pluralise
from engine.variants.nouns import Noun
from engine.variants.substitution import Target

GroupRule = Callable[[Concepts, tuple[ConceptGroup, ...], bool], Iterable[ConceptGroup]]
"""The groups that give targets to a word, from its own groups (never empty), and whether it is a modifier."""

ODD_NUMBERS = frozenset({"one", "hundred", "thousand"})
"""Never for another number: the noun would have to be singular, or ``a`` to stand before them."""


@dataclass(frozen=True)
class _Slot:
    """What a noun's place in its text asks of a word's number."""

    plural: bool
    article: bool
    mass: bool

    def form(self, group: ConceptGroup, lemma: str) -> str | None:
        """The lemma in the wanted number; None when it has no such form."""
        if group.part_of_speech == "adjective":
            return lemma
        if lemma in group.plural:
            return lemma if self.plural else None
        if lemma in group.mass:
            return None if self.plural or self.article else lemma
        if self.plural:
            return pluralise(lemma)
        return None if self.mass else lemma


class ConceptTargets:
    """A policy whose targets are lemmas of concept groups, chosen by `rule`.

    Never a target: the noun itself, a lemma that may name the same thing, a general word, one whose number
    does not fit, and, with `foreign`, a lemma that shares any group with the noun. An adjective, adverb or
    number counts as a member of the groups `ADDED_GROUPS` only (an orange cat is no food).
    """

    def __init__(self, concepts: Concepts, rule: GroupRule, *, foreign: bool) -> None:
        self._concepts = concepts
        self._rule = rule
        self._foreign = foreign
        self._pools: dict[tuple[frozenset[str], _Slot], tuple[Target, ...]] = {}

    @property
    def record(self) -> Mapping[str, Any]:
        """Nothing beyond the groups."""
        return {}

    def source_groups(self, noun: Noun) -> tuple[str, ...]:
        """Names of the groups that hold the noun's form or its lemma."""
        return tuple(group.name for group in self._own_groups(noun))

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """Words of the rule's groups in the noun's number.

        Mass nouns are none where an article stands, and the only ones where a mass noun stands without an
        article; a group that has no other takes any singular then.
        """
        own = self._own_groups(noun)
        if not own:
            return ()
        giving = tuple(self._rule(self._concepts, own, noun.modifier))
        if noun.modifier:
            return self._filled(giving, _Slot(plural=False, article=False, mass=False))
        article = has_article(text, noun)
        mass = not noun.plural and not article and any(f in g.mass for g in own for f in _forms(noun))
        slot = _Slot(noun.plural, article, mass)
        fitting = self._filled(giving, slot)
        if mass and not any(self.allows(noun, target) for target in fitting):
            return self._filled(giving, replace(slot, mass=False))
        return fitting

    def allows(self, noun: Noun, target: Target) -> bool:
        """See the class."""
        if any(target.lemma == form or target.lemma in self._concepts.alike(form) for form in _forms(noun)):
            return False
        if noun.modifier and target.lemma in ODD_NUMBERS:
            return False
        return not self._foreign or self._is_foreign(noun, target)

    def _is_foreign(self, noun: Noun, target: Target) -> bool:
        return not set(target.groups) & set(self.source_groups(noun))

    def _own_groups(self, noun: Noun) -> tuple[ConceptGroup, ...]:
        found = {group.name: group for form in _forms(noun) for group in self._concepts.groups_of(form)}
        return tuple(group for group in found.values() if not noun.modifier or group.name in ADDED_GROUPS)

    def _filled(self, giving: Sequence[ConceptGroup], slot: _Slot) -> tuple[Target, ...]:
        key = (frozenset(group.name for group in giving), slot)
        if key not in self._pools:
            self._pools[key] = self._fill(giving, slot)
        return self._pools[key]

    def _wanted(self, group: ConceptGroup, lemma: str, slot: _Slot) -> bool:
        return lemma not in group.general

    def _fill(self, giving: Iterable[ConceptGroup], slot: _Slot) -> tuple[Target, ...]:
        found: dict[str, Target] = {}
        for group in giving:
            for lemma in group.lemmas:
                form = slot.form(group, lemma)
                if form is not None and lemma not in found and self._wanted(group, lemma, slot):
                    groups = tuple(other.name for other in self._concepts.groups_of(lemma))
                    found[lemma] = Target(form, lemma, groups)
        return tuple(found.values())


class PublishedConceptTargets(ConceptTargets):
    """The same groups as the published files were made with them: every word, in either number.

    General words, names among them, stay as they are listed (no californias).

    Never a target: the noun as it stands and, with `foreign`, a lemma that shares any group with it.
    """

    def __init__(self, concepts: Concepts, rule: GroupRule, *, foreign: bool) -> None:
        super().__init__(concepts, rule, foreign=foreign)
        self._both: dict[frozenset[str], tuple[Target, ...]] = {}

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """The lemmas of the rule's groups, and their plurals where they have one."""
        own = self._own_groups(noun)
        giving = tuple(self._rule(self._concepts, own, noun.modifier)) if own else ()
        key = frozenset(group.name for group in giving)
        if key not in self._both:
            slots = (_Slot(plural, article=False, mass=False) for plural in (False, True))
            self._both[key] = tuple(dict.fromkeys(chain(*(self._filled(giving, slot) for slot in slots))))
        return self._both[key]

    def allows(self, noun: Noun, target: Target) -> bool:
        """See the class."""
        return target.form != noun.text.lower() and (not self._foreign or self._is_foreign(noun, target))

    def _wanted(self, group: ConceptGroup, lemma: str, slot: _Slot) -> bool:
        return not slot.plural or lemma not in group.general


def _forms(noun: Noun) -> tuple[str, ...]:
    return (noun.text.lower(), noun.lemma)
