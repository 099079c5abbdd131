"""Checkpoints x variants x directions: embeds what is missing, evaluates what is not finished.

A run is finished when its JSON file and its outcomes are in the results folder, and the file's key
(`engine.evaluate.sets.run_key`) is the one that the run would have now. A finished run is not repeated. A
file with another key is an error that names the part that differs, because it holds someone's results of
something else; `force` replaces it. Files may be removed: what is missing is done again, from the base's
outcomes where those are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.corpus import Corpus
from engine.corpus.read import read_corpus
from engine.encoders.registry import open_encoder
from engine.errors import InputError, ItrstressError, unknown_name
from engine.evaluate.atomic import make_folder
from engine.evaluate.bootstrap import Resampling
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.names import run_name, safe_name
from engine.evaluate.outcomes import read_outcomes
from engine.evaluate.progress import Progress, Silent
from engine.evaluate.provenance import provenance, seeds_of
from engine.evaluate.results import Direction, Results, merge_results, read_results, write_results
from engine.evaluate.run import execute
from engine.evaluate.run_file import CheckpointSpec, RunFile, seeded
from engine.evaluate.sets import run_key, sets_of, variant_sets
from engine.store.embed import embed
from engine.store.reader import Store, open_store
from engine.variants.registry import make_variant
from engine.variants.variant import Modality, Side, Variant, VariantItems
from indexes.registry import BACKENDS

CHECKPOINT_FAILURES = (ItrstressError, OSError, RuntimeError, ValueError)


class SweepError(ItrstressError):
    """Some checkpoints failed; `results` are those of the others, `failures` the reasons by checkpoint."""

    def __init__(self, results: list[Results], failures: dict[str, str]) -> None:
        self.results, self.failures = results, failures
        lines = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        total = len(results) + len(failures)
        super().__init__(
            f"{len(failures)} of {total} checkpoints failed, the others are done: {lines}; "
            "put it right and run the same command again"
        )


def run_sweep(
    run_file: RunFile,
    *,
    progress: Progress | None = None,
    force: bool = False,
    command: Sequence[str] = (),
) -> list[Results]:
    """Do what is not yet done of a sweep; one `Results` a checkpoint, with all its runs, new and old.

    Can be interrupted anywhere and run again. Raises `InputError` before any work for options, a corpus or
    variants that cannot be used; `SweepError` at the end when some checkpoints failed. With `force`, stores'
    sets and results that are of something else are replaced.
    """
    progress = progress or Silent()
    if run_file.backend not in BACKENDS:
        raise unknown_name("search backend", run_file.backend, BACKENDS)
    corpus, variants = read_inputs(run_file)
    make_folder(run_file.stores)
    results: list[Results] = []
    failures: dict[str, str] = {}
    for checkpoint in run_file.checkpoints:
        sweep = CheckpointSweep(run_file, checkpoint, corpus, variants, progress, force, command)
        try:
            results.append(sweep.run())
        except CHECKPOINT_FAILURES as error:
            failures[checkpoint.label] = " ".join(str(error).split()) or type(error).__name__
            progress.note(f"{checkpoint.label}: failed, the next one follows")
    if failures:
        raise SweepError(results, failures)
    return results


@dataclass(frozen=True)
class AppliedVariant:
    """A `Variant` applied to the one corpus of a sweep: its items are made once for all checkpoints."""

    name: str
    side: Side
    modality: Modality
    items: VariantItems

    def apply(self, corpus: Corpus) -> VariantItems:
        """The items."""
        return self.items


def read_inputs(run_file: RunFile) -> tuple[Corpus, list[Variant]]:
    """The corpus and its variants. Raises `InputError`, also for a variant that is there twice."""
    source = run_file.corpus
    corpus = read_corpus(
        source.path, reader=source.reader, split=source.split, normalisation=source.normalisation
    )
    variants = [make_variant(spec) for spec in seeded(run_file.variants, run_file.seed)]
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the variant {name!r} is in the run file twice; leave one out")
    applied = (AppliedVariant(one.name, one.side, one.modality, one.apply(corpus)) for one in variants)
    return corpus, list(applied)


class CheckpointSweep:
    """One checkpoint of a sweep."""

    def __init__(
        self,
        run_file: RunFile,
        checkpoint: CheckpointSpec,
        corpus: Corpus,
        variants: Sequence[Variant],
        progress: Progress,
        force: bool,
        command: Sequence[str],
    ) -> None:
        self.run_file, self.checkpoint, self.corpus = run_file, checkpoint, corpus
        self.variants, self.progress, self.force, self.command = variants, progress, force, command
        self.name = checkpoint.label
        self.store_path = run_file.stores / f"{safe_name(self.name)}.h5"
        self.folder = run_file.out / safe_name(self.name)

    def run(self) -> Results:
        """Embed, evaluate what is not finished, and gather all runs."""
        self.embed()
        with open_store(self.store_path) as store:
            return merge_results(
                [
                    one
                    for direction in self.run_file.directions
                    for one in self.run_direction(store, direction)
                ]
            )

    def embed(self) -> None:
        """Complete the store; the encoder is let go when it is done."""
        options = self.run_file
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
                self.corpus,
                options.corpus.images,
                self.variants,
                self.store_path,
                batch_size=options.batch_size,
                workers=options.workers,
                skip_unreadable=options.skip_unreadable,
                force=self.force,
                progress=told,
            )

    def run_direction(self, store: Store, direction: Direction) -> list[Results]:
        """The runs of a direction, those that are finished read from their files."""
        searched = variant_sets(store, direction)
        names = [None, *(variant.name for variant in self.variants if variant.name in searched)]
        finished = {name: self.finished(store, direction, name) for name in names}
        missing = [name for name in names if finished[name] is None]
        if len(missing) < len(names):
            there = len(names) - len(missing)
            self.progress.note(f"{self.name} {direction}: {there} of {len(names)} runs are finished")
        if not missing:
            return [one for one in finished.values() if one is not None]
        search = DirectionSearch(
            store, direction, self.run_file.ties, self.run_file.backend, progress=self.progress
        )
        if finished[None] is not None:
            search.adopt(read_outcomes(self.file(direction, None, ".parquet")))
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
        results = read_results(file)
        difference = key_difference(results, run_key(store, direction, variant, self.run_file.ties))
        if difference is None:
            return results if self.file(direction, variant, ".parquet").exists() else None
        if self.force:
            return None
        raise InputError(f"{file}: {difference}; name another `out` folder, or --force replaces it")

    def execute(self, search: DirectionSearch, variant: str | None) -> Results:
        """Do one run and write its files, the results last."""
        resampling = Resampling(self.run_file.resamples, self.run_file.seed)
        run = execute(search, variant, self.file(search.direction, variant, ".parquet"), resampling)
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


def key_difference(results: Results, key: dict[str, str]) -> str | None:
    """Which part of a finished run's key differs from that of the run to be; None when none does."""
    if len(results.runs) != 1:
        return f"holds {len(results.runs)} runs, expected the one of a sweep"
    there = results.runs[0].key
    for part in {**key, **there}:
        if there.get(part) != key.get(part):
            return f"made with another {part}: {there.get(part)!r}, now {key.get(part)!r}"
    return None


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
