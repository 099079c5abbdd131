"""Concept groups: which words name things of one concept (`data/concepts.json`, or a user's file).

Thirty-one groups: 24 in the manner of the GRIT benchmark's concepts and the 7 that RoCOCO added; the word
lists are this project's own. The file's layout, for a file of the user's own too::

    {"groups": {NAME: {"lemmas": [...], "part_of_speech": "noun" | "adjective",
                       "mass": [...], "plural": [...], "general": [...]}, ...},
     "interchangeable": [[LEMMA, LEMMA, ...], ...],
     "wider": {LEMMA: [LEMMA, ...], ...}}

Only `lemmas` is needed. `mass` nouns take no article and no plural, `plural` ones have no singular, and
`general` ones are too wide to make a caption false (person, food, thing), so they are never a target. Two
lemmas of one `interchangeable` list can name the same thing (couch, sofa) and never replace each other; a
`wider` word (dirt) is true of all that its list names (sand, mud) and never replaces them. In ours both hold
every pair of one group that WordNet 3.0 takes for near-synonyms or for a word and a wider one.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from engine.errors import InputError, unknown_name
from engine.variants.user_files import UserFile, read_user_file

PartOfSpeech = Literal["noun", "adjective"]

ADDED_GROUPS = frozenset({"material", "color", "direction", "vehicle_part", "shape", "event", "number"})
"""The groups that RoCOCO added: their adjectives, adverbs and numbers can be candidate words too."""

LARGEST_FILE = 4 * 2**20  # bytes; ours has 100,000

_LEMMA = re.compile(r"[a-z]+(?:['-][a-z]+)*")
_SUBSETS = ("mass", "plural", "general")
_GROUP_FIELDS = ("lemmas", "part_of_speech", *_SUBSETS)


@dataclass(frozen=True)
class ConceptGroup:
    """One concept: its lemmas, in the file's order, and the subsets of them that need care."""

    name: str
    lemmas: tuple[str, ...]
    part_of_speech: PartOfSpeech = "noun"
    mass: frozenset[str] = frozenset()
    plural: frozenset[str] = frozenset()
    general: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Concepts:
    """All groups, in the file's order, the lists of lemmas that may name the same thing, and wider lemmas.

    `wider` has for a lemma those that it is true of.
    """

    groups: tuple[ConceptGroup, ...]
    interchangeable: tuple[frozenset[str], ...] = ()
    wider: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def _groups_of(self) -> Mapping[str, tuple[ConceptGroup, ...]]:
        found: dict[str, list[ConceptGroup]] = defaultdict(list)
        for group in self.groups:
            for lemma in group.lemmas:
                found[lemma].append(group)
        return {lemma: tuple(groups) for lemma, groups in found.items()}

    @cached_property
    def _alike(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for lemmas in self.interchangeable:
            for lemma in lemmas:
                found[lemma] |= lemmas
        for wide, narrow in self.wider.items():
            for lemma in narrow:
                found[lemma] |= {lemma, wide}
        return {lemma: frozenset(others) for lemma, others in found.items()}

    def groups_of(self, lemma: str) -> tuple[ConceptGroup, ...]:
        """The groups of a lemma, in the file's order; none when no group has it."""
        return self._groups_of.get(lemma, ())

    def alike(self, lemma: str) -> frozenset[str]:
        """Lemmas that may name what `lemma` names, wider ones too; itself included when there are any."""
        return self._alike.get(lemma, frozenset())


@cache
def default_concepts() -> Concepts:
    """The project's own groups."""
    file = resources.files("engine.variants").joinpath("data").joinpath("concepts.json")
    return parse_concepts(file.read_text(encoding="utf-8"), "concepts.json")


def load_concepts(path: Path) -> tuple[Concepts, UserFile]:
    """The groups of a user's file, and the file.

    Raises `InputError` (one line: file, group, field, lemma) when it is no concept file.
    """
    file = read_user_file(path, "a concept file (JSON)", LARGEST_FILE)
    return parse_concepts(file.text, str(path)), file


def parse_concepts(text: str, place: str) -> Concepts:
    """The groups in a JSON text; `place` is what errors call it."""
    try:
        value = json.loads(text, object_pairs_hook=_Pairs)
    except RecursionError:
        raise InputError(f"{place}: not valid JSON: lists or objects are nested too deeply") from None
    except ValueError as error:  # also for a number of thousands of digits
        raise InputError(f"{place}: not valid JSON: {error}") from error
    fields = _object(value, place, ("groups", "interchangeable", "wider"))
    groups = _object(fields.get("groups"), f"{place}: field 'groups'", None)
    if not groups:
        raise InputError(f"{place}: no groups; expected at least one in the field 'groups'")
    lists = fields.get("interchangeable", [])
    if not isinstance(lists, list):
        raise InputError(
            f"{place}: field 'interchangeable' is {_kind(lists)}; expected a list of lists of lemmas"
        )
    return Concepts(
        tuple(_group(name, group, f"{place}: group {name!r}") for name, group in groups.items()),
        tuple(
            frozenset(_lemmas(lemmas, f"{place}: field 'interchangeable', list {n}", least=2))
            for n, lemmas in enumerate(lists)
        ),
        _wider(fields.get("wider", _Pairs()), f"{place}: field 'wider'"),
    )


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its keys are known to be different."""


def _object(value: Any, place: str, known: Sequence[str] | None) -> dict[str, Any]:
    """A JSON object with different fields, all of them `known` (None: any)."""
    if not isinstance(value, _Pairs):
        raise InputError(f"{place} is {_kind(value)}; expected an object")
    repeated = [name for name, count in Counter(name for name, _ in value).items() if count > 1]
    if repeated:
        raise InputError(f"{place}: {repeated[0]!r} is there twice; expected it once")
    for name, _ in value:
        if known is not None and name not in known:
            raise InputError(f"{place}: {unknown_name('field', name, known)}")
    return dict(value)


def _group(name: str, value: Any, place: str) -> ConceptGroup:
    fields = _object(value, place, _GROUP_FIELDS)
    lemmas = _lemmas(fields.get("lemmas"), f"{place}, field 'lemmas'", least=2)
    part = fields.get("part_of_speech", "noun")
    if part not in ("noun", "adjective"):
        raise InputError(f"{place}: field 'part_of_speech' is {part!r}; expected 'noun' or 'adjective'")
    subsets = {}
    for subset in _SUBSETS:
        chosen = _lemmas(fields.get(subset, []), f"{place}, field {subset!r}", least=0)
        stray = [lemma for lemma in chosen if lemma not in lemmas]
        if stray:
            raise InputError(
                f"{place}, field {subset!r}: {stray[0]!r} is not among the group's lemmas; add it there"
            )
        subsets[subset] = frozenset(chosen)
    return ConceptGroup(name, lemmas, part, **subsets)


def _wider(value: Any, place: str) -> dict[str, frozenset[str]]:
    fields = _object(value, place, None)
    _lemmas(list(fields), place, least=0)
    return {
        wide: frozenset(_lemmas(narrow, f"{place}, {wide!r}", least=1)) for wide, narrow in fields.items()
    }


def _lemmas(value: Any, place: str, least: int) -> tuple[str, ...]:
    """Different lemmas, at least so many."""
    if not isinstance(value, list) or isinstance(value, _Pairs):
        raise InputError(f"{place} is {_kind(value)}; expected a list of lemmas")
    for lemma in value:
        if not isinstance(lemma, str) or not _LEMMA.fullmatch(lemma):
            raise InputError(f"{place}: {lemma!r} is not a lemma; expected one lower-case English word")
    repeated = [lemma for lemma, count in Counter(value).items() if count > 1]
    if repeated:
        raise InputError(f"{place}: {repeated[0]!r} is there twice; expected it once")
    if len(value) < least:
        raise InputError(f"{place}: {len(value)} lemma(s); expected at least {least}")
    return tuple(value)


def _kind(value: Any) -> str:
    names = {type(None): "missing", str: "a text", bool: "a truth value", list: "a list", _Pairs: "an object"}
    return names.get(type(value), "a number")
