"""For notebooks and scripts: `engine.evaluate`, `engine.sweep` and `engine.load` do what the commands do.

They return an `Evaluation`, frozen, which shows itself as the commands print it: as a table in text, and as
HTML in a notebook. Everything a user can get wrong raises `engine.errors.InputError` with the line that the
command would print. Nothing is printed; `progress=True` shows bars.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console, Group
from rich.text import Text

from engine.errors import InputError
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampling
from engine.evaluate.collection import FoundRun, collect_runs, results_of
from engine.evaluate.distractors import DistractorChoice
from engine.evaluate.extra_positives import read_positives
from engine.evaluate.indexed import Against
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import DIRECTIONS, RESULTS_FILE, Direction, Results, Run, write_results
from engine.evaluate.run import evaluate_store
from engine.evaluate.run_file import load_run_files
from engine.evaluate.sets import canonical_name
from engine.evaluate.sweep import Sweep
from engine.evaluate.ties import DEFAULT_POLICY
from engine.outputs.atomic import output_folder
from engine.progress import Progress, Silent
from engine.report.console import ConsoleProgress
from engine.report.export import RunTable
from engine.report.notebook import as_html
from engine.report.table import checkpoints_table, results_table
from engine.store.fixed_index import open_index
from engine.store.reader import open_store
from indexes.memory import MemoryLimit, parse_bytes

WIDTH = 120  # of the text form
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Evaluation:
    """Results of one checkpoint or many, in order; `results` holds everything, with its provenance."""

    results: tuple[Results, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of all checkpoints."""
        return tuple(run for one in self.results for run in one.runs)

    def run(
        self,
        direction: Direction,
        variant: str | None = None,
        *,
        checkpoint: str | None = None,
        distractors: int = 0,
    ) -> Run:
        """The one run with these properties; `checkpoint` may be left out where there is one only.

        Raises `InputError` when there is none, or more than one, with what there is.
        """
        names = [one.provenance.checkpoint for one in self.results]
        found = [
            run
            for one in self.results
            if checkpoint in (None, one.provenance.checkpoint)
            for run in one.runs
            if (run.direction, run.variant, run.distractors) == (direction, variant, distractors)
        ]
        if len(found) != 1:
            variants = sorted({str(run.variant) for run in self.runs if run.direction == direction})
            raise InputError(
                f"{len(found)} runs of {direction} with variant {variant!r}, checkpoint {checkpoint!r}, "
                f"{distractors} distractors; there are checkpoints {', '.join(names)} and in {direction} the "
                f"variants {', '.join(variants) or 'none'}"
            )
        return found[0]

    def table(self) -> pa.Table:
        """One row a run, numbers as they are: ``.to_pandas()`` makes a data frame of it."""
        records = RunTable(self._found).records()
        return pa.Table.from_pylist([dict(record) for record in records])

    @property
    def _found(self) -> tuple[FoundRun, ...]:
        return tuple(FoundRun(run, one.provenance, Path()) for one in self.results for run in one.runs)

    def __repr__(self) -> str:
        console = Console(file=io.StringIO(), width=WIDTH, color_system=None)
        with console.capture() as drawn:
            console.print(self._shown())
        return drawn.get()

    def _repr_html_(self) -> str:
        return as_html(self._shown().renderables)

    def _shown(self) -> Group:
        if len(self.results) == 1:
            return results_table(self.results[0])
        return checkpoints_table(self.results) if self.results else Group(Text("no results"))


def evaluate(
    store: PathLike,
    *,
    variants: Sequence[str] | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
    ties: str = DEFAULT_POLICY,
    backend: str = "auto",
    distractors: Sequence[int] = (0,),
    distractor_set: str | None = None,
    memory_limit: str | None = None,
    out: PathLike | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    ranked: bool = False,
    relevance: PathLike | None = None,
    positives: PathLike | None = None,
    index: PathLike | None = None,
    allow_space_mismatch: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Search a store's galleries without and with every variant: ``itrstress evaluate``, whose options these
    are.

    `out` is a folder for results.json and the per-query Parquet files (None: nothing is written). Raises
    `InputError`, and `indexes.errors.SearchInputError` for what cannot be searched.
    """
    check_directions(directions)
    if relevance is not None and not ranked:
        raise InputError("relevance belongs to ranked=True; add it or leave it out")
    if allow_space_mismatch and index is None:
        raise InputError("allow_space_mismatch belongs to index; name one or leave it out")
    extra = None if positives is None else read_positives(Path(positives))
    with ExitStack() as stack:
        opened = stack.enter_context(open_store(Path(store)))
        other = None if relevance is None else stack.enter_context(open_store(Path(relevance)))
        against = None
        if index is not None:
            against = Against(stack.enter_context(open_index(Path(index))), allow_space_mismatch)
        held = [opened] if against is None else [opened, against.index.gallery]
        folder = None
        if out is not None:
            inputs = [Path(one) for one in (store, relevance, positives) if one is not None]
            folder = stack.enter_context(output_folder(Path(out), RESULTS_FILE, force=force, inputs=inputs))
        results = evaluate_store(
            opened,
            None if variants is None else [canonical_name(spec, *held) for spec in variants],
            directions,
            ties,
            backend,
            progress=watcher(progress),
            outcomes=folder,
            command=("engine.evaluate",),
            resampling=Resampling(resamples, seed),
            ranked=RankedMetrics(other) if ranked else None,
            positives=extra,
            distractors=DistractorChoice(tuple(distractors), distractor_set),
            limit=None if memory_limit is None else MemoryLimit(parse_bytes(memory_limit)),
            against=against,
        )
        if folder is not None:
            write_results(results, folder / RESULTS_FILE)
    return Evaluation((results,))


def sweep(
    run_file: PathLike, *, force: bool = False, check: bool = False, progress: bool = False
) -> Evaluation:
    """Do what is not yet done of a run file: ``itrstress sweep``; all its results, new and old.

    Raises `InputError` before any work, and `engine.evaluate.sweep.SweepError` when checkpoints failed.
    """
    sweeps = [
        Sweep(one, progress=watcher(progress), force=force, check=check, command=("engine.sweep",))
        for one in load_run_files(Path(run_file))
    ]
    for one in sweeps:
        one.check()
    return Evaluation(tuple(results for one in sweeps for results in one.run()))


def load(*paths: PathLike) -> Evaluation:
    """The results under folders, or in files, that `evaluate` and `sweep` wrote. Raises `InputError`."""
    return Evaluation(tuple(results_of(collect_runs([Path(path) for path in paths])).values()))


def check_directions(directions: Sequence[str]) -> None:
    """Raise `InputError` unless they are one or both of the directions, each once."""
    if not directions or not set(directions) <= set(DIRECTIONS) or len(set(directions)) < len(directions):
        raise InputError(f"directions {list(directions)!r}: expected one or both of {', '.join(DIRECTIONS)}")


def watcher(progress: bool) -> Progress:
    """Bars, or silence."""
    return ConsoleProgress() if progress else Silent()
