"""Runs for people: one entry a checkpoint, variant and direction, averaged over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from engine.evaluate.collection import FoundRun, seed_of, seedless
from engine.evaluate.results import DIRECTIONS, Direction


@dataclass(frozen=True)
class Entry:
    """One checkpoint under one variant in one direction, over all its seeds.

    `variant` is the name without a seed. `values` are means over the runs (None where undefined in any),
    `deviations` the sample standard deviations (of n - 1) where there are several, `intervals` the 95%
    intervals where there is one, `base` the metrics of the same queries without the variant.
    """

    checkpoint: str
    spec: str
    direction: Direction
    variant: str | None
    seeds: tuple[int, ...]
    runs: int
    queries: int
    originals: int
    distractors: int
    normalisation: str
    values: Mapping[str, float | None]
    deviations: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    base: Mapping[str, float]

    @classmethod
    def of(cls, found: Sequence[FoundRun]) -> Entry:
        """Average runs that differ in their seed only."""
        first = found[0]
        names = list(dict.fromkeys(name for one in found for name in one.run.metrics))
        values = {name: [one.run.metrics.get(name) for one in found] for name in names}
        known = {name: [v for v in some if v is not None] for name, some in values.items()}
        whole = {name: len(known[name]) == len(found) for name in names}
        bases = [one.run.base for one in found if one.run.base is not None]
        return cls(
            checkpoint=first.checkpoint,
            spec=first.provenance.encoder_spec,
            direction=first.run.direction,
            variant=seedless(first.run.variant),
            seeds=tuple(seed for seed in (seed_of(one.run.variant) for one in found) if seed is not None),
            runs=len(found),
            queries=first.run.queries,
            originals=first.run.gallery.get("original", 0),
            distractors=first.run.gallery.get("distractor", 0),
            normalisation=first.provenance.normalisation,
            values={name: fmean(known[name]) if whole[name] else None for name in names},
            deviations={name: stdev(known[name]) for name in names if whole[name] and len(found) > 1},
            intervals=first.run.intervals if len(found) == 1 else {},
            base={name: fmean(one[name] for one in bases) for name in (bases[0] if bases else ())},
        )


def entries_of(found: Sequence[FoundRun]) -> tuple[Entry, ...]:
    """One entry a checkpoint, variant, direction and number of distractors; no variant comes first."""
    groups: dict[tuple[int, int, bool, str, str], list[FoundRun]] = {}
    for one in found:
        variant = seedless(one.run.variant)
        key = (
            DIRECTIONS.index(one.run.direction),
            one.run.gallery.get("distractor", 0),
            variant is not None,
            variant or "",
            one.checkpoint,
        )
        groups.setdefault(key, []).append(one)
    return tuple(Entry.of(groups[key]) for key in sorted(groups))
