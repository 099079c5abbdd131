"""What was done to an original, read from the change records of a store as labels that can be counted.

A record is what its family wrote (`VariantItem.change`): one replaced word (``word``, ``target``, ``groups``,
``position``), several (``replaced``), or a synonym. Texts come from files: only text and whole numbers of the
expected shape are taken, anything else counts as not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.variants.concepts import Concepts
from engine.variants.word_diff import words_of

WORD, TARGET, PAIR = "replaced word", "target word", "replacement"
SOURCE_GROUP, TARGET_GROUP, GROUPS = "concept of the replaced", "concept of the target", "concepts"
PART_OF_SPEECH, POSITION, LENGTH = "part of speech", "word position", "caption length"
DIMENSIONS = (
    WORD,
    TARGET,
    PAIR,
    SOURCE_GROUP,
    TARGET_GROUP,
    GROUPS,
    PART_OF_SPEECH,
    POSITION,
    LENGTH,
)
NUMERIC = (POSITION, LENGTH)  # dimensions whose labels are whole numbers
NO_GROUP = "(none)"
PLURALS = (("ies", "y"), ("es", ""), ("s", ""))

Labels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Replaced:
    """One replacement; None is not recorded."""

    word: str | None
    target: str | None
    position: int | None
    source_groups: tuple[str, ...]
    target_groups: tuple[str, ...]
    part_of_speech: str | None


def labels_of(change: str, original: str | None, concepts: Concepts) -> Labels:
    """Dimension -> labels of one item, from its record (JSON) and the text of its original, if it has one.

    Every label once, also when several words were replaced. Words are in lower case; positions count words
    from 1, lengths are in words. Concept groups are those of the record, or of `concepts` by the word.
    """
    replaced = list(replacements(change, concepts))
    pairs = [f"{one.word} > {one.target}" for one in replaced if one.word and one.target]
    groups = [
        f"{source} > {target}"
        for one in replaced
        if one.word and one.target
        for source in one.source_groups or (NO_GROUP,)
        for target in one.target_groups or (NO_GROUP,)
    ]
    found: dict[str, list[str | None]] = {
        WORD: [one.word for one in replaced],
        TARGET: [one.target for one in replaced],
        PAIR: [*pairs],
        SOURCE_GROUP: [group for one in replaced if one.word for group in one.source_groups or (NO_GROUP,)],
        TARGET_GROUP: [group for one in replaced if one.target for group in one.target_groups or (NO_GROUP,)],
        GROUPS: [*groups],
        PART_OF_SPEECH: [one.part_of_speech for one in replaced],
        POSITION: [str(one.position + 1) for one in replaced if one.position is not None],
        LENGTH: [] if original is None else [str(len(words_of(original)))],
    }
    return {name: tuple(dict.fromkeys(one for one in some if one)) for name, some in found.items()}


def replacements(change: str, concepts: Concepts) -> Iterator[Replaced]:
    """The replacements of a record; none for a record of something else."""
    try:
        record = json.loads(change)
    except (ValueError, RecursionError):
        return
    if not isinstance(record, dict):
        return
    several = record.get("replaced")
    if isinstance(several, list):
        yield from (replacement(one, concepts) for one in several if isinstance(one, dict))
    elif "word" in record:
        yield replacement(record, concepts)


def replacement(record: Mapping[str, Any], concepts: Concepts) -> Replaced:
    """One replacement from its part of a record."""
    word = text(record.get("word", record.get("source")))
    target = text(record.get("target", record.get("synonym")))
    position = record.get("position")
    return Replaced(
        word=word,
        target=target,
        position=position if isinstance(position, int) and position >= 0 else None,
        source_groups=groups_of(record, "groups", word, concepts),
        target_groups=groups_of(record, "target_groups", target, concepts),
        part_of_speech=text(record.get("part_of_speech")),
    )


def text(value: Any) -> str | None:
    """The text in lower case, white space as single spaces; None for anything else and for nothing."""
    return " ".join(value.lower().split()) or None if isinstance(value, str) else None


def groups_of(record: Mapping[str, Any], key: str, word: str | None, concepts: Concepts) -> tuple[str, ...]:
    """The recorded concept groups, or those that hold the word or what its plural ending leaves."""
    recorded = record.get(key)
    if isinstance(recorded, list):
        return tuple(one for one in recorded if isinstance(one, str))
    forms = [] if word is None else [word, *singulars(word)]
    return next((tuple(g.name for g in groups) for form in forms if (groups := concepts.groups_of(form))), ())


def singulars(word: str) -> Sequence[str]:
    """What a regular plural may be the plural of (boxes: box, boxe)."""
    return [word[: -len(end)] + instead for end, instead in PLURALS if word.endswith(end)]
