"""The plan of a sweep in lines."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.evaluate.results import Direction
from engine.report.console import duration
from engine.report.table import NO_VARIANT
from engine.sweeps.plan import CheckpointPlan, RunPlan, StorePlan

FACTOR = 1000
UNITS = ("bytes", "kB", "MB", "GB", "TB")
FLOAT_BYTES = 4


def plan_lines(plans: Sequence[CheckpointPlan], stores: Path) -> Iterator[str]:
    """What a sweep would do, checkpoint by checkpoint, and its sum; `stores` is the folder of the stores."""
    for plan in plans:
        yield f"{plan.name}  {plan.model}"
        yield f"  store  {store_line(plan.store)}"
        for direction in dict.fromkeys(run.direction for run in plan.runs):
            yield from run_lines(direction, [run for run in plan.runs if run.direction == direction])
    yield from total_lines(plans)
    there = next(one for one in (stores, *stores.parents) if one.exists())
    yield f"disk: {size_text(shutil.disk_usage(there).free)} free for the stores"


def store_line(store: StorePlan) -> str:
    """What is there of a store and what is to be embedded."""
    if store.shared:
        return f"{store.path}: that of {store.shared}"
    there = "new" if store.bytes is None else f"{size_text(store.bytes)} there"
    if store.problem:
        return f"{store.path} ({there}): refused: {store.problem}"
    if store.is_complete:
        done = "complete; the model is opened to see that it is still the same" if store.checked else "reused"
        return f"{store.path} ({there}): {done}"
    what = f"to embed: {store.images:,} images, {store.texts:,} distinct texts"
    row = FLOAT_BYTES * store.rows
    size = f"{size_text(row)} a dimension" if store.dim is None else f"about {size_text(row * store.dim)}"
    return f"{store.path} ({there}): {what}; {store.rows:,} rows to be written, {size}"


def run_lines(direction: Direction, runs: Sequence[RunPlan]) -> Iterator[str]:
    """The runs of one direction by what becomes of them."""
    finished = sum(run.state == "finished" for run in runs)
    yield f"  {direction}    {finished} of {len(runs)} runs finished"
    for state, words in (
        ("intervals", "intervals drawn anew, without a search"),
        ("search", "to search"),
        ("later", "with results that are looked at when the store is there"),
        ("refused", "cannot be done"),
    ):
        names = [name_of(run) for run in runs if run.state == state]
        if names:
            yield f"         {words}: {', '.join(names)}"
    yield from (f"         {why}" for why in dict.fromkeys(run.why for run in runs if run.why))


def name_of(run: RunPlan) -> str:
    """A run for people."""
    name = NO_VARIANT if run.variant is None else run.variant
    return f"{name} among {run.distractors:,} distractors" if run.distractors else name


def total_lines(plans: Sequence[CheckpointPlan]) -> Iterator[str]:
    """How much is to be done, and how long it may take, as far as that was measured."""
    stores = [plan.store for plan in plans if not plan.store.is_complete]
    to_embed = [one for one in stores if not one.problem]
    refused = len(stores) - len(to_embed)
    runs = [run for plan in plans for run in plan.runs if run.state == "search"]
    others = f", {counted(refused, 'store')} refused" if refused else ""
    yield f"in all: {counted(len(to_embed), 'store')} to embed, {counted(len(runs), 'run')} to search{others}"
    if to_embed:
        seconds = [store.seconds for store in to_embed]
        names = sorted({store.measured for store in to_embed if store.measured})
        source = f", measured with {', '.join(names)}" if names else ""
        yield f"time to embed: {time_text(seconds)}{source}"
    if runs:
        yield f"time to search: {time_text([run.seconds for run in runs])}"


def time_text(seconds: Sequence[float | None]) -> str:
    """The sum of what is known, and how much is not."""
    known = [one for one in seconds if one is not None]
    if not known:
        return "unknown, nothing like it was measured here yet"
    rest = len(seconds) - len(known)
    return f"about {duration(sum(known))}" + (f", {rest} of {len(seconds)} unknown" if rest else "")


def counted(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size_text(size: float) -> str:
    """Bytes for people, in powers of 1000."""
    for unit in UNITS[:-1]:
        if size < FACTOR:
            return f"{size:.0f} {unit}" if unit == UNITS[0] else f"{size:.1f} {unit}"
        size /= FACTOR
    return f"{size:.1f} {UNITS[-1]}"
