"""One evaluation as it is asked for: what `itrstress evaluate` and `engine.evaluate` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from engine.encoders.request import DEFAULT_PAIR_BATCH
from engine.errors import InputError
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampling
from engine.evaluate.distractors import DistractorChoice
from engine.evaluate.extra_positives import read_positives
from engine.evaluate.indexed import Against
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import DIRECTIONS, RESULTS_FILE, Direction, Results, write_results
from engine.evaluate.run import evaluate_store
from engine.evaluate.sets import canonical_name
from engine.evaluate.stages.reranking import DEFAULT_K_TEST, Reranking, open_reranking
from engine.evaluate.ties import DEFAULT_POLICY
from engine.outputs.atomic import output_folder
from engine.progress import Progress
from engine.store.fixed_index import open_index
from engine.store.reader import Store, check_embeddings, open_store
from indexes.memory import MemoryLimit, parse_bytes


@dataclass(frozen=True)
class SecondStage:
    """Which model scores shortlists once more (`rerank`, a spec), and how; all None: none does.

    `k_test` is a number of items a query, ``coco`` or ``flickr30k``; `images` the folder of the images that
    were embedded; `pair_scores` the file that keeps scores (None: beside the store).
    """

    rerank: str | None = None
    k_test: str | None = None
    images: Path | None = None
    pair_scores: Path | None = None
    device: str | None = None
    precision: str | None = None
    batch_size: int | None = None

    def check(self) -> None:
        """Raise `InputError` for options of a second stage without one, and for one without images."""
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        if self.rerank is None and given:
            raise InputError(f"--{given[0].replace('_', '-')} belongs to --rerank; add it or leave it out")
        if self.rerank is not None and self.images is None:
            raise InputError("--rerank reads the images again; give their folder with --images")

    @contextmanager
    def open(self, store: Store, limit: MemoryLimit | None, progress: Progress) -> Iterator[Reranking | None]:
        """The second stage, open; None where none is asked for."""
        if self.rerank is None or self.images is None:
            yield None
            return
        from engine.encoders.scorer_registry import open_reranker

        check_embeddings(store)
        how = self.filled()
        reranker = open_reranker(
            self.rerank, device=how.device, precision=how.precision, batch_size=how.batch_size
        )
        with open_reranking(
            store,
            reranker,
            self.images,
            k_test=how.k_test,
            pair_file=self.pair_scores,
            batch_size=how.batch_size,
            limit=limit,
            progress=progress,
        ) as opened:
            yield opened

    def options(self) -> dict[str, Any]:
        """What results record: every field, with the defaults that held; none where nothing is reranked."""
        if self.rerank is None:
            return {}
        named = {"rerank": self.rerank, "images": self.images, "pair_scores": self.pair_scores}
        return {**named, **asdict(self.filled())}

    def filled(self) -> HowToScore:
        """How it scores, with defaults for what was left out."""
        return HowToScore(
            self.k_test or DEFAULT_K_TEST,
            self.device or "auto",
            self.precision or "fp32",
            self.batch_size or DEFAULT_PAIR_BATCH,
        )


@dataclass(frozen=True)
class HowToScore:
    """The options of a second stage that have defaults."""

    k_test: str
    device: str
    precision: str
    batch_size: int


@dataclass(frozen=True)
class Job:
    """The options of `itrstress evaluate`, by their names there; errors name them so.

    `variants` are names of sets, specs, or ``file:PATH`` (None: all that there are). `out` is a folder for
    results.json and the per-query Parquet files (None: nothing is written). `name` is what
    tables and results call the checkpoint (None: the encoder's spec).
    """

    store: Path
    variants: Sequence[str] | None = None
    directions: Sequence[Direction] = DIRECTIONS
    ties: str = DEFAULT_POLICY
    backend: str = "auto"
    distractors: Sequence[int] = (0,)
    distractor_set: str | None = None
    memory_limit: str | None = None
    out: Path | None = None
    name: str | None = None
    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED
    ranked: bool = False
    relevance: Path | None = None
    positives: Path | None = None
    index: Path | None = None
    allow_space_mismatch: bool = False
    second: SecondStage = SecondStage()
    force: bool = False

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""
        named = list(self.directions)
        if not named or not set(named) <= set(DIRECTIONS) or len(set(named)) < len(named):
            raise InputError(f"directions {named!r}: expected one or both of {', '.join(DIRECTIONS)}")
        if self.name is not None and not (self.name.strip() and self.name.isprintable()):
            raise InputError(f"--name {self.name!r}: expected a name that can be printed, such as 'epoch 9'")
        if self.relevance is not None and not self.ranked:
            raise InputError("--relevance belongs to --ranked; add it or leave it out")
        if self.allow_space_mismatch and self.index is None:
            raise InputError("--allow-space-mismatch belongs to --index; add it or leave it out")
        if self.distractor_set is not None and not any(self.distractors):
            raise InputError(
                "--distractor-set belongs to --distractors; say how many, such as --distractors 0,10k"
            )
        if self.second.rerank is not None and self.index is not None:
            raise InputError("--rerank reads a store's own images and texts; leave out one of it and --index")
        self.second.check()

    def inputs(self) -> list[Path]:
        """The files and folders that are read."""
        named = (self.store, self.relevance, self.positives, self.index, self.second.images)
        return [one for one in (*named, self.second.pair_scores) if one is not None]

    def options(self) -> dict[str, Any]:
        """Every option as results record it, whoever asked: the command's words are not all there is."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "second"}
        own["relevance_store"] = own.pop("relevance")  # `relevance` says whose cosines it then was
        return {name: plain(value) for name, value in {**own, **self.second.options()}.items()}

    def run(
        self, progress: Progress, command: Sequence[str], more_inputs: Iterable[Path] = ()
    ) -> tuple[Results, str | None]:
        """Evaluate; the results, and what the second stage scored, in words.

        `more_inputs` must not be replaced by what is written, like those of `inputs`. Raises `InputError`,
        and `indexes.errors.SearchInputError` for what cannot be searched.
        """
        self.check()
        extra = None if self.positives is None else read_positives(self.positives)
        limit = None if self.memory_limit is None else MemoryLimit(parse_bytes(self.memory_limit))
        with ExitStack() as stack:
            store = stack.enter_context(open_store(self.store))
            other = None if self.relevance is None else stack.enter_context(open_store(self.relevance))
            against = None
            if self.index is not None:
                against = Against(stack.enter_context(open_index(self.index)), self.allow_space_mismatch)
            held = [store] if against is None else [store, against.index.gallery]
            folder = None
            if self.out is not None:
                inputs = [*self.inputs(), *more_inputs]
                place = output_folder(self.out, RESULTS_FILE, force=self.force, inputs=inputs)
                folder = stack.enter_context(place)
            rerank = stack.enter_context(self.second.open(store, limit, progress))
            chosen = None if self.variants is None else [canonical_name(one, *held) for one in self.variants]
            results = evaluate_store(
                store,
                chosen,
                self.directions,
                self.ties,
                self.backend,
                progress=progress,
                outcomes=folder,
                checkpoint=self.name,
                command=command,
                resampling=Resampling(self.resamples, self.seed),
                ranked=RankedMetrics(other) if self.ranked else None,
                positives=extra,
                distractors=DistractorChoice(tuple(self.distractors), self.distractor_set),
                limit=limit,
                rerank=rerank,
                against=against,
                options=self.options(),
            )
            if folder is not None:
                write_results(results, folder / RESULTS_FILE)
        return results, None if rerank is None else rerank.line()


def plain(value: Any) -> Any:
    """An option as JSON holds it."""
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
