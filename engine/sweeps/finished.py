"""What is there of a run of a sweep: whether its files are whole, of the same thing, and with the intervals
asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.evaluate.bootstrap import CONFIDENCE, Resampling, with_statistics
from engine.evaluate.outcome_files import (
    OUTCOMES_HEAD,
    identity_difference,
    identity_of,
    outcomes_problem,
    read_outcomes,
)
from engine.evaluate.results import DIGEST, RESULTS_HEAD, Results, Run, load_json, parse_results
from engine.inputs import check_regular_file
from engine.outputs.own import check_own_place

Note = Callable[[str], None]


def find_finished(
    file: Path, wanted: Mapping[str, Any], relevance: str | None, note: Note, *, force: bool
) -> Results | None:
    """The results of a finished run in a JSON file; None when it is to be done (`note` is told why).

    `wanted` is the run's `identity`, `relevance` that of its ranked metrics (None: none are asked for;
    a run that has some is finished all the same). Raises `InputError` for results of something else, unless
    `force`.
    """
    if not file.exists():
        return None
    if not is_whole_json(file):
        note(f"{file}: cut off; the run is done again")
        return None
    try:
        document = load_json(file)
        results = parse_results(document, file)
        check_run(results, wanted)
    except InputError as error:
        if force:
            return None
        message = str(error).removeprefix(f"{file}: ")
        raise InputError(f"{file}: {message}; name another `out` folder, or --force replaces it") from error
    problem = outcomes_problem(outcomes_of(file), results.runs[0])
    if problem is None and relevance is not None and results.runs[0].relevance != relevance:
        problem = f"{file}: with the ranked metrics of {results.runs[0].relevance}, asked for {relevance}"
    if problem is None and DIGEST not in document:  # written before results had one
        problem = f"{file}: holds no {DIGEST} that would show whether it was edited"
    if problem is None:
        return results
    note(f"{problem}; the run is done again")
    return None


def check_places(file: Path, *, force: bool) -> None:
    """Raise `InputError` where the files of a run would replace a link, a pipe or, unless `force`, what no
    sweep has written."""
    outcomes = outcomes_of(file)
    for place in (file, outcomes):
        check_own_place(place)
    if not force:
        check_own_place(outcomes, OUTCOMES_HEAD)
        if file.exists() and not is_whole_json(file):  # whole JSON of something else is told apart later
            check_own_place(file, RESULTS_HEAD)


def outcomes_of(file: Path) -> Path:
    """The per-query outcomes beside the results of a run."""
    return file.with_suffix(".parquet")


def is_whole_json(file: Path) -> bool:
    """Whether a file is JSON to its end, and not half-written. Raises `InputError` when it is no file."""
    check_regular_file(file, "a results file")
    try:
        json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return False
    return True


def check_run(results: Results, wanted: Mapping[str, Any]) -> None:
    """Raise `InputError` when a finished run is another than the one to be (an `identity`)."""
    if len(results.runs) != 1:
        raise InputError(f"holds {len(results.runs)} runs, expected the one of a sweep")
    difference = identity_difference(identity_of(results.runs[0]), wanted)
    if difference is not None:
        raise InputError(f"of another run ({difference})")


def has_intervals(run: Run, resampling: Resampling) -> bool:
    """Whether a run's intervals are those that are asked for."""
    there = None if run.bootstrap is None else (run.bootstrap.resamples, run.bootstrap.seed)
    asked = (resampling.resamples, resampling.seed) if resampling.resamples else None
    return there == asked and (run.bootstrap is None or run.bootstrap.confidence == CONFIDENCE)


def with_intervals(results: Results, outcomes: Path, resampling: Resampling) -> Results:
    """The results of one run with the intervals that `resampling` gives, from its outcomes, without a search.

    The same object when it has them already.
    """
    (run,) = results.runs
    if has_intervals(run, resampling):
        return results
    drawn = with_statistics(run, read_outcomes(outcomes, run), resampling)
    if drawn == run:  # a single image has no intervals
        return results
    return results.model_copy(update={"runs": (drawn,)})


def redrawn_provenance(results: Results, resampling: Resampling) -> Results:
    """The results with the provenance of intervals that were drawn anew, now; how it was searched stays."""
    there = results.provenance
    update = {
        "config": {**there.config, "resamples": resampling.resamples, "seed": resampling.seed},
        "seeds": {**there.seeds, "run": resampling.seed},
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return results.model_copy(update={"provenance": there.model_copy(update=update)})
