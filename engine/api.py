"""For notebooks and scripts: `engine.evaluate`, `engine.sweep` and `engine.load` do what the commands do.

They return an `Evaluation`, frozen, which shows itself as the commands print it: as a table in text, and as
HTML in a notebook. Everything a user can get wrong raises `engine.errors.InputError` with the line that the
command would print. Nothing is printed; `progress=True` shows bars.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console, Group
from rich.text import Text

from engine.errors import InputError
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, DEFAULT_SEED
from engine.evaluate.collection import FoundRun, collect_runs, results_of
from engine.evaluate.job import Job, SecondStage
from engine.evaluate.results import DIRECTIONS, Direction, Results, Run
from engine.evaluate.ties import DEFAULT_POLICY
from engine.progress import Progress, Silent
from engine.report.console import ConsoleProgress
from engine.report.export import RunTable
from engine.report.notebook import as_html
from engine.report.table import checkpoints_table, results_table
from engine.sweeps.run_file.load import load_run_files
from engine.sweeps.sweep import Sweep, run_sweeps

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
    name: str | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    ranked: bool = False,
    relevance: PathLike | None = None,
    positives: PathLike | None = None,
    index: PathLike | None = None,
    allow_space_mismatch: bool = False,
    rerank: str | None = None,
    k_test: int | str | None = None,
    images: PathLike | None = None,
    pair_scores: PathLike | None = None,
    device: str | None = None,
    precision: str | None = None,
    batch_size: int | None = None,
    force: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Search a store's galleries without and with every variant: ``itrstress evaluate``, whose options these
    are; errors name them as the command does.

    `out` is a folder for results.json and the per-query Parquet files (None: nothing is written), `name` what
    the checkpoint is called in them (None: the encoder's spec). Raises `InputError`, and
    `indexes.errors.SearchInputError` for what cannot be searched.
    """
    job = Job(
        Path(store),
        variants=variants,
        directions=directions,
        ties=ties,
        backend=backend,
        distractors=distractors,
        distractor_set=distractor_set,
        memory_limit=memory_limit,
        out=path_of(out),
        name=name,
        resamples=resamples,
        seed=seed,
        ranked=ranked,
        relevance=path_of(relevance),
        positives=path_of(positives),
        index=path_of(index),
        allow_space_mismatch=allow_space_mismatch,
        second=SecondStage(
            rerank=rerank,
            k_test=None if k_test is None else str(k_test),
            images=path_of(images),
            pair_scores=path_of(pair_scores),
            device=device,
            precision=precision,
            batch_size=batch_size,
        ),
        force=force,
    )
    return Evaluation((job.run(watcher(progress), ("engine.evaluate",))[0],))


def path_of(path: PathLike | None) -> Path | None:
    """The same as a path."""
    return None if path is None else Path(path)


def sweep(
    run_file: PathLike, *, force: bool = False, check: bool = False, progress: bool = False
) -> Evaluation:
    """Do what is not yet done of a run file: ``itrstress sweep``; all its results, new and old.

    Raises `InputError` before any work, and `engine.sweeps.sweep.SweepError` when checkpoints failed.
    """
    sweeps = [
        Sweep(one, progress=watcher(progress), force=force, check=check, command=("engine.sweep",))
        for one in load_run_files(Path(run_file))
    ]
    for one in sweeps:
        one.check()
    return Evaluation(tuple(run_sweeps(sweeps)))


def load(*paths: PathLike) -> Evaluation:
    """The results under folders, or in files, that `evaluate` and `sweep` wrote. Raises `InputError`."""
    return Evaluation(tuple(results_of(collect_runs([Path(path) for path in paths])).values()))


def watcher(progress: bool) -> Progress:
    """Bars, or silence."""
    return ConsoleProgress() if progress else Silent()
