"""From a store to results: every direction, without variant and with each one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.evaluate.bootstrap import DEFAULT_RESAMPLING, Resampling, with_statistics
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.names import run_name
from engine.evaluate.outcomes import write_outcomes
from engine.evaluate.progress import Progress, Silent
from engine.evaluate.provenance import provenance, seeds_of
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import DIRECTIONS, Direction, Results, Run
from engine.evaluate.sample import Values
from engine.evaluate.search import DEFAULT_DEPTH
from engine.evaluate.sets import check_variants, sets_of, variant_sets
from engine.evaluate.stopwatch import Stopwatch, add_timings
from engine.evaluate.ties import DEFAULT_POLICY, tie_policy
from engine.store.reader import Store

LISTS, STATISTICS, WRITE = "lists", "statistics", "write"


def execute(
    search: DirectionSearch,
    variant: str | None,
    outcomes: Path | None,
    resampling: Resampling,
    ranked: RankedMetrics | None = None,
) -> Run:
    """One run with intervals and timings; its per-query outcomes go to the file, when one is named.

    `ranked` adds the metrics that need another search.
    """
    watch = Stopwatch()
    run, table = search.run(variant, watch)
    more: dict[str, Values] = {}
    if ranked is not None:
        with watch.stage(LISTS):
            more = ranked.columns(search, variant)
    with watch.stage(STATISTICS):
        run = with_statistics(run, table, resampling, more)
    if outcomes is not None:
        with watch.stage(WRITE):
            write_outcomes(table, outcomes)
    name = None if outcomes is None else outcomes.name
    return run.model_copy(update={"outcomes": name, "timings": watch.timings()})


def evaluate_store(
    store: Store,
    variants: Sequence[str] | None = None,
    directions: Sequence[Direction] = DIRECTIONS,
    ties: str = DEFAULT_POLICY,
    backend: str = "auto",
    depth: int = DEFAULT_DEPTH,
    progress: Progress | None = None,
    *,
    outcomes: Path | None = None,
    checkpoint: str | None = None,
    command: Sequence[str] = (),
    resampling: Resampling = DEFAULT_RESAMPLING,
    ranked: RankedMetrics | None = None,
) -> Results:
    """Evaluate a store: without variant, then with each one, in every direction.

    `variants` are names of the store's sets (None: all that it holds; one that plays no part in a direction
    is passed over there). `outcomes` is an existing folder for the per-query Parquet files (None: none are
    written). `checkpoint` is the name shown (None: the encoder's spec), `resampling` how intervals are drawn,
    `ranked` what is measured on lists (None: nothing).
    Raises `InputError` for unknown variants, incomplete or missing sets, and
    `indexes.errors.SearchInputError` for an unknown backend.
    """
    tie_policy(ties)
    check_variants(store, variants or (), directions)
    runs: list[Run] = []
    backends: set[tuple[str, str]] = set()
    for direction in directions:
        search = DirectionSearch(store, direction, ties, backend, depth, progress or Silent())
        known = variant_sets(store, direction)
        chosen = [name for name in dict.fromkeys(known if variants is None else variants) if name in known]
        for variant in (None, *chosen):
            file = None if outcomes is None else outcomes / f"{run_name(variant, direction)}.parquet"
            runs.append(execute(search, variant, file, resampling, ranked))
        backends |= search.backends
    config = {"variants": None if variants is None else list(variants), "directions": list(directions)}
    return Results(
        provenance=provenance(
            store,
            sets_of(store, [run.variant for run in runs]),
            checkpoint=checkpoint or store.header.encoder_spec,
            command=command,
            config={**config, "ties": ties, "backend": backend, "depth": depth}
            | ({} if ranked is None else {"relevance": ranked.relevance}),
            seeds=seeds_of(run.variant for run in runs if run.variant is not None),
            searched_by=backends,
        ),
        runs=tuple(runs),
        timings=add_timings(run.timings for run in runs),
    )
