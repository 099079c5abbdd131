"""Everything under results folders as one list of runs that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import InputError
from engine.evaluate.outcome_files import read_outcomes
from engine.evaluate.results import (
    Direction,
    Provenance,
    Results,
    Run,
    load_json,
    merge_results,
    read_results,
)
from engine.evaluate.sample import Sample, sample_of
from engine.evaluate.ties import tie_policy

HEAD_BYTES = 4096
MARK = b'"schema_version"'
SEED = re.compile(r":seed=(\d+)(?=:|$)")

RunName = tuple[str, Direction, str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class FoundRun:
    """A run with where it comes from and the file that holds it."""

    run: Run
    provenance: Provenance
    file: Path

    @property
    def checkpoint(self) -> str:
        """The name of its checkpoint."""
        return self.provenance.checkpoint

    @property
    def name(self) -> RunName:
        """What tells it from other runs: checkpoint, direction, variant, the sizes of its gallery."""
        sizes = tuple(sorted((str(origin), rows) for origin, rows in self.run.gallery.items()))
        return self.checkpoint, self.run.direction, self.run.variant or "", sizes

    @property
    def label(self) -> str:
        """For people: ``checkpoint, variant, direction``."""
        return f"{self.checkpoint}, {self.run.variant or 'no variant'}, {self.run.direction}"

    @property
    def outcomes(self) -> Path:
        """Its per-query outcomes. Raises `InputError` when it names none, or a file that is not beside it."""
        name = self.run.outcomes
        if name is None:
            raise InputError(
                f"{self.file}: the run {self.label} has no per-query outcomes; evaluate again with --out"
            )
        if name != Path(name).name or name in ("", ".", ".."):
            raise InputError(
                f"{self.file}: names the outcomes {name!r}, expected the name of a file beside it"
            )
        return self.file.parent / name

    def table(self) -> pa.Table:
        """Its per-query outcomes, read. Raises `InputError` when they cannot be, or are of another run."""
        return read_outcomes(self.outcomes, self.run)

    def sample(self) -> Sample:
        """What statistics need of its outcomes. Raises `InputError` as `table`."""
        return sample_of(self.table(), tie_policy(self.run.ties))


def seedless(variant: str | None) -> str | None:
    """A variant's canonical name without its seed: runs that share it differ in their seed only."""
    return None if variant is None else SEED.sub("", variant)


def seed_of(variant: str | None) -> int | None:
    """The seed in a variant's canonical name."""
    found = SEED.search(variant or "")
    return int(found.group(1)) if found else None


def collect_runs(paths: Sequence[Path]) -> tuple[FoundRun, ...]:
    """All runs in results files and, at any depth, in folders; a run found twice counts once.

    Raises `InputError` (one line) when there is none, when a file is damaged, and when the files are not
    comparable: of several schema versions, corpora or tie policies, one name for two checkpoints, or two
    different results of one run.
    """
    found = read_runs(paths)
    check_corpus(found)
    check_setting(found)
    return without_repeats(found)


def read_runs(paths: Sequence[Path]) -> tuple[FoundRun, ...]:
    """All runs, comparable or not. Raises `InputError` when there is none and when a file is damaged or of
    another schema version than the rest."""
    files = [file for path in paths for file in results_files(path)]
    if not files:
        where = ", ".join(str(path) for path in paths)
        raise InputError(f"no results under {where}; make some with `itrstress evaluate --out` or a sweep")
    check_versions(files)
    return tuple(
        FoundRun(run, results.provenance, file)
        for file, results in ((file, read_results(file)) for file in files)
        for run in results.runs
    )


def check_corpus(found: Iterable[FoundRun]) -> None:
    """Raise `InputError` when the runs are of several corpora."""
    check_one(found, "corpora", lambda one: (one.provenance.corpus_fingerprint, corpus_label(one.provenance)))


def check_setting(found: Iterable[FoundRun]) -> None:
    """Raise `InputError` for several tie policies, and when one name stands for two checkpoints."""
    check_one(found, "tie policies", lambda one: (one.run.ties, one.run.ties))
    check_checkpoints(found)


def results_files(path: Path) -> Iterator[Path]:
    """The results files at a path, in order; JSON files that are no results are passed over.

    A file given by name is taken for one. Raises `InputError` when the path is not there.
    """
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise InputError(f"{path} is not there; expected a results folder or file")
    for file in sorted(path.rglob("*.json")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if not hidden and file.is_file() and begins_as_results(file):
            yield file


def begins_as_results(file: Path) -> bool:
    """Whether a JSON file has the mark of results in its beginning; also an empty one, to be named later."""
    with file.open("rb") as opened:
        head = opened.read(HEAD_BYTES)
    return MARK in head or not head.strip()


def check_versions(files: Sequence[Path]) -> None:
    """Raise `InputError` when the files have several schema versions."""
    seen: dict[str, Path] = {}
    for file in files:
        document: Any = load_json(file)
        version = document.get("schema_version") if isinstance(document, dict) else None
        seen.setdefault(repr(version), file)
    if len(seen) > 1:
        raise InputError(f"results of several schema versions: {listed(seen)}; evaluate the older ones again")


def corpus_label(provenance: Provenance) -> str:
    """A corpus for people."""
    return f"{provenance.corpus_name} ({provenance.normalisation}, {provenance.corpus_fingerprint[:8]})"


def check_one(found: Iterable[FoundRun], kind: str, key: Any) -> None:
    """Raise `InputError` when the runs differ in a part that they must share."""
    seen: dict[Any, tuple[str, Path]] = {}
    for one in found:
        value, label = key(one)
        seen.setdefault(value, (label, one.file))
    if len(seen) > 1:
        raise InputError(f"results of several {kind}: {listed(dict(seen.values()))}; compare them apart")


def listed(files: dict[str, Path]) -> str:
    """``label in file`` of each."""
    return ", ".join(f"{label} in {file}" for label, file in files.items())


def check_checkpoints(found: Iterable[FoundRun]) -> None:
    """Raise `InputError` when one name stands for two checkpoints."""
    seen: dict[str, FoundRun] = {}
    for one in found:
        first = seen.setdefault(one.checkpoint, one)
        if first.provenance.encoder_fingerprint != one.provenance.encoder_fingerprint:
            raise InputError(
                f"two checkpoints have the name {one.checkpoint!r}, in {first.file} and {one.file}; give "
                "them names of their own, or compare them apart"
            )


def without_repeats(found: Iterable[FoundRun]) -> tuple[FoundRun, ...]:
    """Every run once, the newest of equals. Raises `InputError` for two different results of one run."""
    kept: dict[RunName, FoundRun] = {}
    for one in found:
        first = kept.setdefault(one.name, one)
        if first.run.key != one.run.key:
            raise InputError(
                f"{first.file} and {one.file} hold different results of the run {one.label}; remove the one "
                "that is no longer wanted, or compare them apart"
            )
        if one.provenance.created > first.provenance.created:
            kept[one.name] = one
    return tuple(kept.values())


def results_of(found: Sequence[FoundRun]) -> dict[str, Results]:
    """The runs of each checkpoint as results, in order of first appearance, their provenance joined."""
    by_checkpoint: dict[str, list[Results]] = {}
    for one in found:
        alone = Results(provenance=one.provenance, runs=(one.run,), timings=one.run.timings)
        by_checkpoint.setdefault(one.checkpoint, []).append(alone)
    return {name: merge_results(runs) for name, runs in by_checkpoint.items()}
