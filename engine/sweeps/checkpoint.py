"""One checkpoint of a sweep: its store is completed, its runs are done or found finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import cast

from engine.encoders.encoder import Encoder
from engine.encoders.scorer import PUBLISHED_SHORTLISTS, is_pair_scorer
from engine.encoders.scorer_registry import open_model, open_reranker
from engine.errors import InputError, naming
from engine.evaluate.bootstrap import Resampling
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.distractors import DistractorChoice, Distractors, open_distractors
from engine.evaluate.indexed import Against, AnySets
from engine.evaluate.names import run_name, safe_name
from engine.evaluate.outcome_files import identity, read_outcomes
from engine.evaluate.provenance import provenance, seeds_of, set_records
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import Direction, Results, merge_results, write_results
from engine.evaluate.run import execute
from engine.evaluate.sets import direction_of, run_key
from engine.evaluate.stages.reranking import Reranking, open_reranking, parse_k_test, reranking_key
from engine.outputs.own import check_own_place
from engine.progress import Progress
from engine.store.embedding.fill import fill_store
from engine.store.embedding.report import EmbedReport
from engine.store.fixed_index import open_index
from engine.store.reader import Store, open_store
from engine.store.schema import StoreHeader
from engine.store.writer import OtherStoreError
from engine.sweeps.finished import (
    check_places,
    find_finished,
    outcomes_of,
    redrawn_provenance,
    with_intervals,
)
from engine.sweeps.run_file.options import CheckpointSpec
from engine.sweeps.stamp import (
    STAMP_HEAD,
    Inputs,
    Measured,
    hub_state,
    is_embedded,
    read_stamp,
    stamp_of,
    write_stamp,
)
from indexes.memory import MemoryLimit, parse_bytes

RunName = tuple[str | None, int]
"""Of a direction: its variant (None: none) and how many distractors."""


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
        store = safe_name(checkpoint.store_label)
        self.store_path = self.run_file.stores / f"{store}.h5"
        self.stamp_path = self.store_path.with_name(f"{store}.inputs.json")
        self.folder = self.run_file.out / safe_name(self.name)
        self.resampling = Resampling(self.run_file.resamples, self.run_file.seed)
        self.choice = DistractorChoice(self.run_file.distractors, self.run_file.distractor_set)

    def is_embedded(self) -> bool:
        """Whether the store is complete, as far as that can be told without opening the encoder."""
        return is_embedded(self.stamp_path, self.store_path, self.inputs, self.checkpoint)

    def files(self, direction: Direction) -> dict[RunName, Path]:
        """Where the results of a direction's runs belong, in their order."""
        variants = [
            one.name for one in self.inputs.variants if direction_of(one.side, one.modality) == direction
        ]
        return {
            (variant, size): self.folder / f"{run_name(variant, direction, size)}.json"
            for variant, size in product((None, *variants), self.choice.sizes)
        }

    def check_places(self) -> None:
        """Raise `InputError` where a file of this checkpoint would replace what is none of a sweep's."""
        check_own_place(self.stamp_path, b"" if self.force else STAMP_HEAD)
        for direction in self.run_file.directions:
            for file in self.files(direction).values():
                check_places(file, force=self.force)

    def embed(self) -> None:
        """Complete the store and put its stamp beside it; the encoder is let go when it is done."""
        options, inputs = self.run_file, self.inputs.of(self.checkpoint)  # as they are before they are read
        model = open_model(
            self.checkpoint.model,
            device=options.device,
            precision=options.precision,
            batch_size=options.batch_size,
            preprocess=self.checkpoint.preprocess,
        )
        if not is_pair_scorer(model):
            self.check_index(cast(Encoder, model))
        repositories = self.inputs.repositories(self.checkpoint)  # what was missing is downloaded by now
        inputs["hub"] = hub_state(repositories)
        with advising(self.store_path):
            report = fill_store(
                model,
                self.inputs.corpus,
                self.inputs.source,
                self.inputs.applied,
                self.store_path,
                batch_size=options.batch_size,
                workers=options.workers,
                skip_unreadable=options.skip_unreadable,
                force=self.force,
                progress=self.progress,
                label=self.name,
                file_digests=self.inputs.image_digests,
                command=self.command,
                modalities=self.inputs.modalities,
                space=options.space or "",
            )
        for line in remarks(report):
            self.progress.note(f"{self.name}: {line}")
        measured = None if is_pair_scorer(model) else Measured.of(report)
        if measured is None:
            old = read_stamp(self.stamp_path)
            measured = None if old is None else old.measured
        with open_store(self.store_path) as store:
            stamp = stamp_of(store, inputs, repositories, self.inputs.labels, measured)
        write_stamp(stamp, self.stamp_path)

    def check_index(self, model: Encoder) -> None:
        """Raise `InputError` before anything is embedded where no query of the model fits the index."""
        options, corpus = self.run_file, self.inputs.corpus
        if options.index is None:
            return
        header = StoreHeader(
            encoder_spec=model.spec,
            encoder_fingerprint=model.fingerprint,
            dim=model.dim,
            corpus_name=corpus.name,
            corpus_fingerprint=corpus.fingerprint,
            normalisation=corpus.normalisation,
            space=options.space or "",
        )
        with open_index(options.index) as index:
            Against(index, options.allow_space_mismatch).check_header(header, self.store_path)

    def run(self) -> Results:
        """Evaluate what is not finished, and gather all runs."""
        with ExitStack() as stack:
            store = stack.enter_context(open_store(self.store_path))
            sets = stack.enter_context(self.open_sets(store))
            crowds = stack.enter_context(open_distractors(sets, self.choice))
            rerank = cache(lambda: stack.enter_context(self.open_reranking(store)))
            ranked = None
            if self.run_file.ranked:
                other = self.run_file.relevance
                ranked = RankedMetrics(None if other is None else stack.enter_context(open_store(other)))
            return merge_results(
                [
                    one
                    for direction in self.run_file.directions
                    for one in self.run_direction(
                        sets[direction], direction, crowds.get(direction), ranked, rerank
                    )
                ]
            )

    @contextmanager
    def open_sets(self, store: Store) -> Iterator[Mapping[Direction, AnySets]]:
        """What is searched in each direction: the store itself, or its queries against the run file's index.

        Raises `InputError` for an index that does not fit the store.
        """
        if self.run_file.index is None:
            yield dict.fromkeys(self.run_file.directions, store)
            return
        with open_index(self.run_file.index) as index:
            against = Against(index, self.run_file.allow_space_mismatch)
            yield {one: against.sets(store, one) for one in self.run_file.directions}

    @contextmanager
    def open_reranking(self, store: Store) -> Iterator[Reranking | None]:
        """The second stage, by the model that filled the store; None where none is asked for."""
        if self.checkpoint.rerank is None:
            yield None
            return
        options = self.run_file
        reranker = open_reranker(
            self.checkpoint.model,
            device=options.device,
            precision=options.precision,
            batch_size=options.batch_size,
        )
        if reranker.fingerprint != store.header.encoder_fingerprint:
            raise InputError(f"{store.path}: of other weights than {reranker.spec} has now; run it again")
        assert options.corpus.images is not None  # a model with a matching head reads images
        limit = None if options.memory_limit is None else MemoryLimit(parse_bytes(options.memory_limit))
        with open_reranking(
            store,
            reranker,
            options.corpus.images,
            k_test=self.checkpoint.rerank,
            batch_size=options.batch_size,
            limit=limit,
            progress=self.progress,
        ) as opened:
            yield opened
            self.progress.note(f"{self.name}: {opened.line()}")

    def run_direction(
        self,
        store: AnySets,
        direction: Direction,
        crowd: Distractors | None,
        ranked: RankedMetrics | None,
        rerank: Callable[[], Reranking | None],
    ) -> list[Results]:
        """The runs of a direction, those that are finished read from their files.

        `rerank` opens the second stage, which takes its model.
        """
        files = self.files(direction)
        finished = {
            name: self.finished(
                file,
                self.wanted(store, direction, name, crowd),
                None if ranked is None else ranked.relevance_of(direction, name[0]),
            )
            for name, file in files.items()
        }
        there = sum(one is not None for one in finished.values())
        if there:
            self.progress.note(f"{self.name} {direction}: {there} of {len(files)} runs are finished")
        if there == len(files):
            return [one for one in finished.values() if one is not None]
        limit = self.run_file.memory_limit
        search = DirectionSearch(
            store,
            direction,
            self.run_file.ties,
            self.run_file.backend,
            progress=self.progress,
            distractors=crowd,
            limit=None if limit is None else MemoryLimit(parse_bytes(limit)),
            rerank=rerank(),
        )
        base = finished.get((None, 0))
        if base is not None:
            outcomes = outcomes_of(files[None, 0])
            table = read_outcomes(outcomes, base.runs[0])
            with naming(outcomes):
                search.adopt(table)
        return [finished[name] or self.execute(search, name, file, ranked) for name, file in files.items()]

    def wanted(
        self, store: AnySets, direction: Direction, name: RunName, crowd: Distractors | None
    ) -> Mapping[str, object]:
        """The identity of a run as it would be now."""
        variant, size = name
        distractors = crowd.key(size) if crowd is not None and size else None
        key = run_key(store, direction, variant, self.run_file.ties, distractors)
        if self.checkpoint.rerank is not None:
            k_test = parse_k_test(self.checkpoint.rerank, PUBLISHED_SHORTLISTS)
            key |= reranking_key(store.header.encoder_fingerprint, k_test)
        return identity(variant, size, key)

    def finished(self, file: Path, wanted: Mapping[str, object], relevance: str | None) -> Results | None:
        """The results of a finished run with the intervals of this run file, written where they differ.

        None when the run is to be done. Raises `InputError` for a file of something else, unless `force`.
        """
        results = find_finished(file, wanted, relevance, self.progress.note, force=self.force)
        if results is None:
            return None
        drawn = with_intervals(results, outcomes_of(file), self.resampling)
        if drawn is results:
            return drawn
        drawn = redrawn_provenance(drawn, self.resampling)
        write_results(drawn, file)
        return drawn

    def execute(
        self, search: DirectionSearch, name: RunName, file: Path, ranked: RankedMetrics | None
    ) -> Results:
        """Do one run and write its files, the results last."""
        variant, size = name
        run = execute(search, variant, outcomes_of(file), self.resampling, ranked, size)
        results = Results(
            provenance=provenance(
                [search.store],
                [
                    *set_records([search.store], [variant]),
                    *([search.distractors.record()] if search.distractors is not None and size else []),
                ],
                checkpoint=self.name if run.index is None else run.index.label(self.name),
                command=self.command,
                config=self.run_file.model_dump(mode="json"),
                seeds={"run": self.run_file.seed, **seeds_of([] if variant is None else [variant])},
                searched_by=search.backends,
            ),
            runs=(run,),
            timings=run.timings,
        )
        write_results(results, file)
        return results


def remarks(report: EmbedReport) -> Iterator[str]:
    """What happened to a store beyond its completion."""
    for label, rows in report.damaged.items():
        yield f"{label}: {rows:,} damaged rows were encoded again"
    if report.gone:
        yield f"{len(report.gone):,} images of the store are missing or cut off now, such as {report.gone[0]}"
    if report.unreadable:
        file, reason = next(iter(report.unreadable.items()))
        yield f"{len(report.unreadable):,} images are left out, such as {file} ({reason})"


@contextmanager
def advising(store: Path) -> Iterator[None]:
    """Say what to do in a sweep where a store is of something else."""
    try:
        yield
    except OtherStoreError as error:
        raise InputError(
            f"{store} {error.difference}; name another `stores` folder, or --force replaces the store"
        ) from error
