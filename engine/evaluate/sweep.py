"""Checkpoints x variants x directions: embeds what is missing, evaluates what is not finished.

A run is finished when its JSON file and its outcomes are in the results folder, whole, and the file's key
(`engine.evaluate.sets.run_key`) is the one that the run would have now. A finished run is not repeated; only
its intervals are drawn anew from its outcomes when other resamples or another seed are asked for. A file with
another key is an error that names the part that differs, because it holds someone's results of something
else; `force` replaces it. Files may be removed: what is missing or cut off is done again, from the base's
outcomes where those are there. A store whose stamp holds (`engine.evaluate.stamp`) is not looked into again.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from engine.corpus.read import read_corpus
from engine.encoders.registry import open_encoder
from engine.errors import InputError, ItrstressError, naming, unknown_name
from engine.evaluate.bootstrap import Resampling
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.finished import (
    check_run,
    is_whole_json,
    redrawn_provenance,
    with_intervals,
)
from engine.evaluate.names import run_name, safe_name
from engine.evaluate.outcome_files import identity, outcomes_problem, read_outcomes
from engine.evaluate.progress import Progress, Silent
from engine.evaluate.provenance import provenance, seeds_of
from engine.evaluate.results import Direction, Results, merge_results, read_results, write_results
from engine.evaluate.run import execute
from engine.evaluate.run_file import CheckpointSpec, RunFile, seeded
from engine.evaluate.sets import run_key, sets_of, variant_sets
from engine.evaluate.stamp import Inputs, is_embedded, stamp_of, write_stamp
from engine.outputs.atomic import make_folder
from engine.store.embed import embed
from engine.store.reader import Store, open_store
from engine.variants.registry import make_variant
from indexes.errors import SearchInputError
from indexes.memory import MemoryLimit, parse_bytes
from indexes.registry import BACKENDS

CHECKPOINT_FAILURES = (ItrstressError, OSError, RuntimeError, ValueError)
OF_THE_USER = (ItrstressError, SearchInputError, OSError)


class SweepError(ItrstressError):
    """Some checkpoints failed; `results` are those of the others, `failures` the errors by checkpoint.

    Raised from the last of them.
    """

    def __init__(self, results: list[Results], failures: Mapping[str, Exception]) -> None:
        self.results, self.failures = results, failures
        lines = "; ".join(f"{name}: {describe(error)}" for name, error in failures.items())
        total = len(results) + len(failures)
        super().__init__(
            f"{len(failures)} of {total} checkpoints failed, the others are done: {lines}; "
            "put it right and run the same command again"
        )


def describe(error: Exception) -> str:
    """An error in one line; what nobody foresaw is named as such, so that it is not taken for bad input."""
    text = " ".join(str(error).split())
    if isinstance(error, OF_THE_USER):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (a defect of itrstress or of a library, --debug shows where)"


def run_sweep(
    run_file: RunFile,
    *,
    progress: Progress | None = None,
    force: bool = False,
    check: bool = False,
    command: Sequence[str] = (),
) -> list[Results]:
    """Do what is not yet done of a sweep; one `Results` a checkpoint, with all its runs, new and old.

    Can be interrupted anywhere and run again. Raises `InputError` before any work for options, a corpus or
    variants that cannot be used; `SweepError` at the end when some checkpoints failed. With `force`, stores'
    sets and results that are of something else are replaced. With `check` or `force` no stamp is trusted:
    every encoder is opened and every image read (`engine.evaluate.stamp`).
    """
    progress = progress or Silent()
    if run_file.backend not in BACKENDS:
        raise unknown_name("search backend", run_file.backend, BACKENDS)
    inputs = read_inputs(run_file)
    sweeps = [CheckpointSweep(inputs, one, progress, force, command) for one in run_file.checkpoints]
    embedded = {one.name for one in sweeps if not (check or force) and one.is_embedded()}
    if len(embedded) < len(sweeps):
        _ = inputs.applied  # what is wrong with a variant is said before any work
    make_folder(run_file.stores)
    results: list[Results] = []
    failures: dict[str, Exception] = {}
    for sweep in sweeps:
        try:
            if sweep.name not in embedded:
                sweep.embed()
            results.append(sweep.run())
        except CHECKPOINT_FAILURES as error:
            let_go(error)
            failures[sweep.name] = error
            progress.note(f"{sweep.name}: failed, the next one follows")
    if failures:
        raise SweepError(results, failures) from list(failures.values())[-1]
    return results


def let_go(error: BaseException) -> None:
    """Free what the frames of an error hold, such as the model; where it happened can still be told."""
    traceback.clear_frames(error.__traceback__)
    for before in (error.__cause__, error.__context__):
        if before is not None:
            let_go(before)


def read_inputs(run_file: RunFile) -> Inputs:
    """The corpus and the variants. Raises `InputError`, also for a variant that is there twice."""
    source = run_file.corpus
    corpus = read_corpus(
        source.path, reader=source.reader, split=source.split, normalisation=source.normalisation
    )
    variants = [make_variant(spec) for spec in seeded(run_file.variants, run_file.seed)]
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the variant {name!r} is in the run file twice; leave one out")
    return Inputs(run_file, corpus, variants)


class CheckpointSweep:
    """One checkpoint of a sweep."""

    def __init__(
        self,
        inputs: Inputs,
        checkpoint: CheckpointSpec,
        progress: Progress,
        force: bool,
        command: Sequence[str],
    ) -> None:
        self.inputs, self.run_file, self.checkpoint = inputs, inputs.run_file, checkpoint
        self.progress, self.force, self.command = progress, force, command
        self.name = checkpoint.label
        self.store_path = self.run_file.stores / f"{safe_name(self.name)}.h5"
        self.stamp_path = self.store_path.with_name(f"{safe_name(self.name)}.inputs.json")
        self.folder = self.run_file.out / safe_name(self.name)
        self.resampling = Resampling(self.run_file.resamples, self.run_file.seed)

    def is_embedded(self) -> bool:
        """Whether the store is complete, as far as that can be told without opening the encoder."""
        labels = self.inputs.labels
        return is_embedded(self.stamp_path, self.store_path, self.inputs.of(self.checkpoint), labels)

    def run(self) -> Results:
        """Evaluate what is not finished, and gather all runs."""
        with open_store(self.store_path) as store:
            return merge_results(
                [
                    one
                    for direction in self.run_file.directions
                    for one in self.run_direction(store, direction)
                ]
            )

    def embed(self) -> None:
        """Complete the store and put its stamp beside it; the encoder is let go when it is done."""
        options, inputs = self.run_file, self.inputs.of(self.checkpoint)  # as they are before they are read
        encoder = open_encoder(
            self.checkpoint.model,
            device=options.device,
            precision=options.precision,
            batch_size=options.batch_size,
            preprocess=self.checkpoint.preprocess,
        )
        with EmbedProgress(self.progress, self.name) as told:
            embed(
                encoder,
                self.inputs.corpus,
                self.inputs.source,
                self.inputs.applied,
                self.store_path,
                batch_size=options.batch_size,
                workers=options.workers,
                skip_unreadable=options.skip_unreadable,
                force=self.force,
                progress=told,
                file_digests=self.inputs.image_digests,
                command=self.command,
            )
        with open_store(self.store_path) as store:
            write_stamp(stamp_of(store, inputs, self.inputs.labels), self.stamp_path)

    def run_direction(self, store: Store, direction: Direction) -> list[Results]:
        """The runs of a direction, those that are finished read from their files."""
        searched = variant_sets(store, direction)
        names = [None, *(variant.name for variant in self.inputs.variants if variant.name in searched)]
        finished = {name: self.finished(store, direction, name) for name in names}
        missing = [name for name in names if finished[name] is None]
        if len(missing) < len(names):
            there = len(names) - len(missing)
            self.progress.note(f"{self.name} {direction}: {there} of {len(names)} runs are finished")
        if not missing:
            return [one for one in finished.values() if one is not None]
        limit = self.run_file.memory_limit
        search = DirectionSearch(
            store,
            direction,
            self.run_file.ties,
            self.run_file.backend,
            progress=self.progress,
            limit=None if limit is None else MemoryLimit(parse_bytes(limit)),
        )
        base = finished[None]
        if base is not None:
            outcomes = self.file(direction, None, ".parquet")
            table = read_outcomes(outcomes, base.runs[0])
            with naming(outcomes):
                search.adopt(table)
        return [finished[name] or self.execute(search, name) for name in names]

    def file(self, direction: Direction, variant: str | None, extension: str) -> Path:
        """A file of a run."""
        return self.folder / f"{run_name(variant, direction)}{extension}"

    def finished(self, store: Store, direction: Direction, variant: str | None) -> Results | None:
        """The results of a run that is finished; None when it is to be done.

        Raises `InputError` for a file of something else, unless `force`.
        """
        file = self.file(direction, variant, ".json")
        if not file.exists():
            return None
        if not is_whole_json(file):
            self.progress.note(f"{file}: cut off, it is done again")
            return None
        try:
            results = read_results(file)
            check_run(results, identity(variant, 0, run_key(store, direction, variant, self.run_file.ties)))
        except InputError as error:
            if self.force:
                return None
            message = str(error).removeprefix(f"{file}: ")
            raise InputError(
                f"{file}: {message}; name another `out` folder, or --force replaces it"
            ) from error
        problem = outcomes_problem(self.file(direction, variant, ".parquet"), results.runs[0])
        if problem is not None:
            self.progress.note(f"{problem}; the run is done again")
            return None
        return self.redraw(results, file)

    def redraw(self, results: Results, file: Path) -> Results:
        """A finished run's results with the intervals of this run file, written where they differ."""
        drawn = with_intervals(results, file.with_suffix(".parquet"), self.resampling)
        if drawn is results:
            return results
        config = self.run_file.model_dump(mode="json")
        drawn = redrawn_provenance(drawn, tuple(self.command), config, self.run_file.seed)
        write_results(drawn, file)
        return drawn

    def execute(self, search: DirectionSearch, variant: str | None) -> Results:
        """Do one run and write its files, the results last."""
        run = execute(search, variant, self.file(search.direction, variant, ".parquet"), self.resampling)
        results = Results(
            provenance=provenance(
                search.store,
                sets_of(search.store, [variant]),
                checkpoint=self.name,
                command=self.command,
                config=self.run_file.model_dump(mode="json"),
                seeds={"run": self.run_file.seed, **seeds_of([] if variant is None else [variant])},
                searched_by=search.backends,
            ),
            runs=(run,),
            timings=run.timings,
        )
        write_results(results, self.file(search.direction, variant, ".json"))
        return results


class EmbedProgress:
    """Called by `engine.store.embed.embed`; shows one task after the other. A context manager."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name
        self._task = ExitStack()
        self._what: str | None = None
        self._done = 0

    def __enter__(self) -> EmbedProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._task.close()

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` items are encoded; another `what` begins another task."""
        if what != self._what:
            self._task.close()
            self._advance = self._task.enter_context(self._progress.task(self._name, total, what))
            self._what, self._done = what, 0
        self._advance(done - self._done)
        self._done = done
