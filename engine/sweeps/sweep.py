"""Checkpoints x variants x directions: embeds what is missing, evaluates what is not finished.

A run is finished when its JSON file and its outcomes are in the results folder, whole and written together
(`engine.evaluate.outcome_files`), and the run is the one that would be done now. A finished run is not
repeated; only its intervals are drawn anew from its outcomes when other resamples or another seed are asked
for. Results of another run are an error that names the part that differs, because they are someone's results
of something else; `force` replaces them. Files may be removed: what is missing, cut off or not the run's own
is done again, from the base's outcomes where those are there. A store whose stamp holds
(`engine.sweeps.stamp`) is not looked into again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence

from engine.corpus.read import read_corpus
from engine.encoders.influence import open_influence
from engine.encoders.registry import check_model
from engine.errors import InputError, ItrstressError, naming
from engine.evaluate.indexed import Against
from engine.evaluate.results import Results
from engine.outputs.atomic import make_folder
from engine.outputs.place import check_output_folder
from engine.progress import Progress, Silent
from engine.resources import shortage
from engine.store.fixed_index import open_index
from engine.store.reader import open_store
from engine.sweeps.checkpoint import CheckpointSweep
from engine.sweeps.run_file.options import RunFile
from engine.sweeps.stamp import Inputs
from engine.variants.influence_binding import bind_influence
from engine.variants.registry import make_variant
from indexes.errors import SearchInputError
from indexes.registry import check_backend

OF_INPUT = (InputError, SearchInputError, OSError)
OF_THE_USER = (*OF_INPUT, ItrstressError)


class SweepError(ItrstressError):
    """Some checkpoints failed; `results` are those of the others, `failures` the errors by checkpoint.

    Raised from the last of them. The exit code is that of an input error when all of them are.
    """

    def __init__(self, results: Sequence[Results], failures: Mapping[str, Exception]) -> None:
        self.results, self.failures = list(results), dict(failures)
        self.exit_code = 2 if all(isinstance(one, OF_INPUT) for one in failures.values()) else 1
        total = len(results) + len(failures)
        others = ", the others are done" if results else ""
        super().__init__(
            f"{len(failures)} of {total} checkpoints failed{others}: {reasons(failures)}; "
            "put it right and run the same command again"
        )


def reasons(failures: Mapping[str, Exception]) -> str:
    """``one, two: what is wrong with both; three: what is wrong with it``."""
    names: dict[str, list[str]] = {}
    for name, error in failures.items():
        names.setdefault(describe(error).removeprefix(f"{name}: "), []).append(name)
    return "; ".join(f"{', '.join(some)}: {what}" for what, some in names.items())


def describe(error: Exception) -> str:
    """An error in one line; what nobody foresaw is named as such, so that it is not taken for bad input."""
    if (short_of := shortage(error)) is not None:
        return short_of
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

    The options are those of `Sweep`. Raises `InputError` before any work for what cannot be used, and
    `SweepError` at the end when some checkpoints failed.
    """
    sweep = Sweep(run_file, progress=progress, force=force, check=check, command=command)
    sweep.check()
    return sweep.run()


def run_sweeps(
    sweeps: Sequence[Sweep],
    before: Callable[[Sweep], None] | None = None,
    after: Callable[[Sweep, Sequence[Results]], None] | None = None,
) -> list[Results]:
    """Run the checked sweeps of a run file, one a corpus, none stopped by failures in another; all results.

    `before` and `after` are told of each. Raises `SweepError` at the end, for all of them, when checkpoints
    failed; they are named with their corpus where there are several.
    """
    results: list[Results] = []
    failures: dict[str, Exception] = {}
    for one in sweeps:
        if before is not None:
            before(one)
        try:
            found = one.run()
        except SweepError as error:
            found = error.results
            corpus = f"{one.run_file.out.name} " if len(sweeps) > 1 else ""
            failures |= {f"{corpus}{name}": failure for name, failure in error.failures.items()}
        results += found
        if after is not None:
            after(one, found)
    if failures:
        raise SweepError(results, failures) from list(failures.values())[-1]
    return results


class Sweep:
    """The sweep of a run file. Can be interrupted anywhere and run again.

    With `force`, stores' sets and results that are of something else are replaced. With `check` or `force` no
    stamp is trusted: every encoder is opened and every image read. Raises `InputError` for a corpus or
    variants that cannot be read.
    """

    def __init__(
        self,
        run_file: RunFile,
        *,
        progress: Progress | None = None,
        force: bool = False,
        check: bool = False,
        command: Sequence[str] = (),
    ) -> None:
        self.run_file, self.progress = run_file, progress or Silent()
        check_backend(run_file.backend)
        self.inputs = read_inputs(run_file, self.progress)
        self.checkpoints = [
            CheckpointSweep(self.inputs, one, self.progress, force, command) for one in run_file.checkpoints
        ]
        self.embedded = {one.name for one in self.checkpoints if not (check or force) and one.is_embedded()}

    @property
    def to_embed(self) -> list[CheckpointSweep]:
        """The checkpoints whose stores are not known to be complete."""
        return [one for one in self.checkpoints if one.name not in self.embedded]

    def check(self) -> None:
        """Raise `InputError` for what can be known, before any work, to be wrong with what is to be done."""
        options = self.run_file
        for one in self.checkpoints:
            one.check_places()
        if options.relevance is not None:
            open_store(options.relevance).close()
        if options.index is not None:
            with open_index(options.index) as index:
                Against(index, options.allow_space_mismatch).check_plan(
                    self.inputs.corpus, options.directions, self.inputs.variants, options.space or ""
                )
            reranked = next((one.name for one in self.checkpoints if one.checkpoint.rerank is not None), None)
            if reranked is not None:
                raise InputError(
                    f"{reranked}: reranking reads a store's own galleries; leave out index or rerank"
                )
        if self.to_embed:
            check_output_folder(options.stores, "stores:")
            _ = self.inputs.applied
        for one in self.to_embed:
            with naming(one.name):
                check_model(
                    one.checkpoint.model,
                    device=options.device,
                    precision=options.precision,
                    preprocess=one.checkpoint.preprocess,
                )
        if self.to_embed or any(
            not file.exists()
            for one in self.checkpoints
            for direction in options.directions
            for file in one.files(direction).values()
        ):
            check_output_folder(options.out, "out:")

    def run(self) -> list[Results]:
        """Embed and evaluate, one checkpoint after the other, one that fails not stopping the others."""
        make_folder(self.run_file.stores)
        results: list[Results] = []
        failures: dict[str, Exception] = {}
        for one in self.checkpoints:
            try:
                if one.name not in self.embedded:
                    one.embed()
                results.append(one.run())
            except Exception as error:  # noqa: BLE001 - whatever a model, a library or a plug-in raises
                let_go(error)
                failures[one.name] = error
                follows = "" if one is self.checkpoints[-1] else ", the next one follows"
                self.progress.note(f"{one.name}: failed{follows}")
        if failures:
            raise SweepError(results, failures) from list(failures.values())[-1]
        return results


def let_go(error: BaseException) -> None:
    """Free what the frames of an error hold, such as the model; where it happened can still be told."""
    traceback.clear_frames(error.__traceback__)
    for before in (error.__cause__, error.__context__):
        if before is not None:
            let_go(before)


def read_inputs(run_file: RunFile, progress: Progress) -> Inputs:
    """The corpus and the variants. Raises `InputError`."""
    source = run_file.corpus
    corpus = read_corpus(
        source.path, reader=source.reader, split=source.split, normalisation=source.normalisation
    )
    influence = None
    if run_file.influence:
        named = {one.model: one.preprocess for one in run_file.checkpoints}
        influence = open_influence(
            run_file.influence, device=run_file.device, preprocess=named, progress=progress
        )
    variants = bind_influence([make_variant(spec) for spec in run_file.variants], influence)
    return Inputs(run_file, corpus, variants)
