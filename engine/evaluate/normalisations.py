"""Results of one corpus file with its texts in two normalisations: the one is a control for the other.

A model can tell fakes from originals by punctuation and case; what an attack takes with the texts as they
are, and with both sides normalised, says how much hangs on that. Results of two corpora are not compared.
These two are, and are known by what a normalisation leaves alone: the corpus' name, and for every checkpoint
that was evaluated on both the same images (by the content key of their set) and as many captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.evaluate.collection import FoundRun, check_corpus, check_setting, read_runs, without_repeats
from engine.store.schema import ORIGINAL

RAW = "raw"


@dataclass(frozen=True)
class Collected:
    """Runs of one corpus, and those of the same file in another normalisation (none: there are no such)."""

    runs: tuple[FoundRun, ...]
    control: tuple[FoundRun, ...] = ()


def collect_with_control(paths: Sequence[Path]) -> Collected:
    """All runs as `collect_runs` finds them; of two normalisations of one corpus file the raw comes first.

    Raises `InputError` as `collect_runs` does, for any other two corpora too.
    """
    found = read_runs(paths)
    parts: dict[str, list[FoundRun]] = {}
    for one in found:
        parts.setdefault(one.provenance.corpus_fingerprint, []).append(one)
    first, *others = sorted(parts.values(), key=lambda part: normalisation_of(part) != RAW)
    if len(others) != 1 or not are_normalisations(first, others[0]):
        check_corpus(found)
    check_setting(found)
    return Collected(without_repeats(first), without_repeats(others[0]) if others else ())


def normalisation_of(part: Sequence[FoundRun]) -> str:
    """What was done to the texts of a corpus' runs."""
    return part[0].provenance.normalisation


def are_normalisations(first: Sequence[FoundRun], second: Sequence[FoundRun]) -> bool:
    """Whether the runs of two corpora are of one file, its texts in two normalisations."""
    if normalisation_of(first) == normalisation_of(second):
        return False
    one, two = items_of(first), items_of(second)
    shared = one.keys() & two.keys()
    return bool(shared) and all(one[name] == two[name] for name in shared)


def items_of(part: Sequence[FoundRun]) -> dict[str, set[tuple[str, str, object]]]:
    """Checkpoint -> what its results say of the corpus that no normalisation changes."""
    items: dict[str, set[tuple[str, str, object]]] = {}
    for found in part:
        there = items.setdefault(found.checkpoint, set())
        name = found.provenance.corpus_name
        for one in found.provenance.sets:
            if one.name in (ORIGINAL, f"index {ORIGINAL}"):
                what = one.content_key if one.modality == "images" else one.rows
                there.add((name, one.modality, what))
    return items
