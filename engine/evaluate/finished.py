"""What is there of a run of a sweep: whether its files are whole, of the same thing, and with the intervals
asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.evaluate.bootstrap import CONFIDENCE, Resampling, with_statistics
from engine.evaluate.outcome_files import identity_difference, identity_of, read_outcomes
from engine.evaluate.results import Results
from engine.path_text import storable


def is_whole_json(file: Path) -> bool:
    """Whether a file is JSON to its end, and not half-written."""
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


def with_intervals(results: Results, outcomes: Path, resampling: Resampling) -> Results:
    """The results of one run with the intervals that `resampling` gives, from its outcomes, without a search.

    The same object when it has them already.
    """
    (run,) = results.runs
    there = None if run.bootstrap is None else (run.bootstrap.resamples, run.bootstrap.seed)
    asked = (resampling.resamples, resampling.seed) if resampling.resamples else None
    if there == asked and (run.bootstrap is None or run.bootstrap.confidence == CONFIDENCE):
        return results
    drawn = with_statistics(run, read_outcomes(outcomes, run), resampling)
    if drawn == run:  # a single image has no intervals
        return results
    return results.model_copy(update={"runs": (drawn,)})


def redrawn_provenance(
    results: Results, command: tuple[str, ...], config: dict[str, Any], seed: int
) -> Results:
    """The results with the provenance of intervals that were drawn anew, now."""
    there = results.provenance
    update = {
        "command": command,
        "config": storable(config),
        "seeds": {**there.seeds, "run": seed},
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return results.model_copy(update={"provenance": there.model_copy(update=update)})
