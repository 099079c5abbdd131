"""From a store to results: every direction, without variant and with each one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.evaluate.bootstrap import DEFAULT_RESAMPLING, Resampling, with_statistics
from engine.evaluate.controls import without_query
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.distractors import NO_DISTRACTORS, DistractorChoice, open_distractors
from engine.evaluate.extra_positives import ExtraPositives
from engine.evaluate.indexed import Against, AnySets
from engine.evaluate.names import run_name
from engine.evaluate.outcome_files import write_outcomes
from engine.evaluate.outcomes import with_columns
from engine.evaluate.provenance import provenance, seeds_of, set_records
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import DIRECTIONS, QUERY_MODALITY, Direction, Results, Run
from engine.evaluate.sample import Values
from engine.evaluate.sets import check_variants, variant_sets
from engine.evaluate.stages.reranking import Reranking
from engine.evaluate.ties import DEFAULT_POLICY, tie_policy
from engine.progress import Progress, Silent
from engine.stopwatch import Stopwatch, add_timings
from engine.store.reader import Store, check_embeddings
from engine.store.schema import ORIGINAL
from indexes.memory import MemoryLimit

LISTS, CONTROLS, STATISTICS, WRITE = "lists", "controls", "statistics", "write"


def execute(
    search: DirectionSearch,
    variant: str | None,
    outcomes: Path | None,
    resampling: Resampling,
    ranked: RankedMetrics | None = None,
    distractors: int = 0,
    positives: ExtraPositives | None = None,
) -> Run:
    """One run with intervals and timings; its per-query outcomes go to the file, when one is named.

    `ranked` and `positives` add metrics on lists: each is another search, which knows nothing of distractors.
    """
    watch = Stopwatch()
    run, table = search.run(variant, watch, distractors)
    more: dict[str, Values] = {}
    if search.fakes is not None and run.stage is None:  # only embeddings have a mean
        with watch.stage(CONTROLS):
            more |= without_query(search.queries, search.gallery, search.fakes)
    if ranked is not None:
        with watch.stage(LISTS):
            more |= ranked.columns(search, variant)
        relevance = ranked.relevance_of(search.direction, variant)
        run = run.model_copy(update={"relevance": relevance})
    if positives is not None:
        with watch.stage(LISTS):
            found = positives.columns(search, variant)
        more |= found
        run = run.model_copy(update={"positives_file": positives.source if found else None})
    with watch.stage(STATISTICS):
        table = with_columns(table, more)
        run = with_statistics(run, table, resampling)
    if outcomes is not None:
        with watch.stage(WRITE):
            digest = write_outcomes(table, outcomes, run)
        run = run.model_copy(update={"outcomes": outcomes.name, "outcomes_sha256": digest})
    return run.model_copy(update={"timings": watch.timings()})


def evaluate_store(
    store: Store,
    variants: Sequence[str] | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
    ties: str = DEFAULT_POLICY,
    backend: str = "auto",
    progress: Progress | None = None,
    *,
    outcomes: Path | None = None,
    checkpoint: str | None = None,
    command: Sequence[str] = (),
    resampling: Resampling = DEFAULT_RESAMPLING,
    ranked: RankedMetrics | None = None,
    distractors: DistractorChoice = NO_DISTRACTORS,
    limit: MemoryLimit | None = None,
    rerank: Reranking | None = None,
    positives: ExtraPositives | None = None,
    against: Against | None = None,
    options: Mapping[str, Any] | None = None,
) -> Results:
    """Evaluate a store: without variant, then with each one, in every direction.

    `variants` are names of the store's sets (None: all that it holds; one that plays no part in a direction
    is passed over there). `outcomes` is an existing folder for the per-query Parquet files (None: none are
    written). `checkpoint` is the name shown (None: the encoder's spec), `resampling` how intervals are drawn,
    `ranked` and `positives` what is measured on lists (None: nothing). Every run is repeated at every size of
    `distractors`, which are searched once. `limit` bounds the memory of the process. With `rerank` the best
    of every query are scored once more. With `against` the store's queries are searched in an index: gallery
    sets, gallery variants and distractors are the index's. `options` are further ones that results record.
    Raises `InputError` for unknown variants, incomplete or missing sets, and
    `indexes.errors.SearchInputError` for an unknown backend or a limit too small.
    """
    tie_policy(ties)
    if against is not None and rerank is not None:
        raise InputError("--rerank reads the images and texts of a store's own galleries; leave out --index")
    searched: dict[Direction, AnySets] = {
        one: store if against is None else against.sets(store, one) for one in directions
    }
    check_variants(store, variants or (), directions, searched)
    lists = [name for name, one in (("--ranked", ranked), ("--positives", positives)) if one is not None]
    if lists and distractors.positive:
        raise InputError(f"{lists[0]} lists no distractors; leave one of {lists[0]} and --distractors out")
    if rerank is not None or distractors.positive:
        check_embeddings(store)
    if rerank is not None and distractors.positive:
        raise InputError(
            "--distractors have no images or texts that --rerank could score; leave one of them out"
        )
    if positives is not None:
        asking = directions if against is not None else DIRECTIONS
        positives = positives.directed({one: store.load(QUERY_MODALITY[one], ORIGINAL).ids for one in asking})
    runs: list[Run] = []
    backends: set[tuple[str, str]] = set()
    with open_distractors(searched, distractors) as crowds:
        records = [one.record() for one in crowds.values()]
        for direction in directions:
            search = DirectionSearch(
                searched[direction],
                direction,
                ties,
                backend,
                progress or Silent(),
                distractors=crowds.get(direction),
                limit=limit,
                rerank=rerank,
            )
            known = variant_sets(search.store, direction)
            chosen = [
                name for name in dict.fromkeys(known if variants is None else variants) if name in known
            ]
            for variant, size in product((None, *chosen), distractors.sizes):
                name = f"{run_name(variant, direction, size)}.parquet"
                file = None if outcomes is None else outcomes / name
                runs.append(execute(search, variant, file, resampling, ranked, size, positives))
            backends |= search.backends
    config = {
        **(options or {}),
        "variants": None if variants is None else list(variants),
        "directions": list(directions),
        "distractors": list(distractors.sizes),
        "resamples": resampling.resamples,
        "seed": resampling.seed,
    }
    name = checkpoint or shown_name(store, rerank)
    return Results(
        provenance=provenance(
            [store, *searched.values()],
            [*set_records(searched.values(), [run.variant for run in runs]), *records],
            checkpoint=name if against is None else against.use(store).label(name),
            command=command,
            config={**config, "ties": ties, "backend": backend}
            | ({} if ranked is None else {"relevance": ranked.relevance})
            | ({} if positives is None else {"positives_file": positives.source})
            | ({} if limit is None else {"memory_limit": limit.total}),
            seeds={
                "run": resampling.seed,
                **seeds_of(run.variant for run in runs if run.variant is not None),
            },
            searched_by=backends,
        ),
        runs=tuple(runs),
        timings=add_timings(run.timings for run in runs),
    )


def shown_name(store: Store, rerank: Reranking | None) -> str:
    """The checkpoint in tables: the encoder's spec, how many are reranked, and by what else."""
    spec = store.header.encoder_spec
    if rerank is None:
        return spec
    by = rerank.scores.reranker.spec
    shown = f"{spec}, reranked {rerank.k_test}"
    return shown if by == spec else f"{shown} by {by}"
