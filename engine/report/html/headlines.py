"""What hurts a checkpoint most, and what the numbers on that do not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.evaluate import metrics
from engine.evaluate.results import DIRECTIONS
from engine.report.entries import Entry
from engine.report.html.controls import is_control
from engine.report.html.figures import Change, Value, change_of, least_crowded, value_of
from engine.report.table import ASKS

LEAST_RIGHT = 30  # queries right without the attack, below which the page has no headline of what it takes


@dataclass(frozen=True)
class Blow:
    """One direction of a headline: R@1 without a variant, and the variant with the highest drop rate.

    `caveats` are sentences on what the numbers do not show.
    """

    direction: str
    asks: str
    clean: Value | None
    variant: str | None
    after: Value | None
    drop: Value | None
    fooled: Value | None
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Headline:
    """A checkpoint and its worst."""

    checkpoint: str
    spec: str
    blows: tuple[Blow, ...]


def verdict(checkpoint: str, entries: Sequence[Entry]) -> tuple[Change | None, tuple[str, ...]]:
    """The attack that takes most of a checkpoint's R@1, and sentences on what it does not show.

    None where nothing is taken, and where too few queries were right without an attack to say.
    """
    quiet = least_crowded(entries)
    own = worst_first([one for one in quiet if one.checkpoint == checkpoint])
    attacks = [one for one in own if drop_of(one) > 0 and right_before(one) >= LEAST_RIGHT]
    return (change_of(attacks[0], quiet) if attacks else None), tuple(caveats(attacks))


def headline(checkpoint: str, entries: Sequence[Entry]) -> Headline:
    """What hurts a checkpoint most."""
    own = [one for one in least_crowded(entries) if one.checkpoint == checkpoint]
    blows = [blow(direction, own) for direction in DIRECTIONS if any(e.direction == direction for e in own)]
    spec = next(one.spec for one in entries if one.checkpoint == checkpoint)
    return Headline(checkpoint, spec, tuple(blows))


def blow(direction: Any, own: Sequence[Entry]) -> Blow:
    """The worst of a direction: by drop rate, the first of equals."""
    there = [one for one in own if one.direction == direction]
    attacked = worst_first(there)
    clean = next((value_of(one, metrics.RECALL[1]) for one in there if one.variant is None), None)
    if not attacked:
        return Blow(direction, ASKS[direction], clean, None, None, None, None)
    worst = attacked[0]
    change = change_of(worst, own)
    clean = clean if clean is not None else change.before
    return Blow(
        direction,
        ASKS[direction],
        clean,
        worst.variant,
        change.after,
        change.drop,
        change.fooled,
        tuple(caveats(attacked)),
    )


def worst_first(entries: Sequence[Entry]) -> list[Entry]:
    """Those with an attack, the highest drop rate first; equal ones keep their order."""
    attacks = (one for one in entries if one.variant is not None and not is_control(one.variant))
    return sorted(attacks, key=drop_of, reverse=True)


def caveats(attacked: Sequence[Entry]) -> Iterator[str]:
    """What the worst drop rate (the first) does not show: few queries to lose, others as bad."""
    if not attacked:
        return
    worst, *others = attacked
    right = right_before(worst)
    if right < LEAST_RIGHT:
        yield f"Right without it: {right:,.0f} of {worst.queries:,} queries, too few to say."
    rivals = [one for one in others if overlap(one, worst)]
    if rivals:
        first = rivals[0]
        name = first.variant if first.direction == worst.direction else f"{first.direction} {first.variant}"
        more = f" and {len(rivals) - 1:,} more" if len(rivals) > 1 else ""
        yield f"The intervals of its drop rate and of {name}{more} overlap."


def overlap(one: Entry, other: Entry) -> bool:
    """Whether the intervals of the drop rates do; no where one has none, as a mean over seeds."""
    first, second = (each.intervals.get(metrics.DROP_RATE) for each in (one, other))
    return first is not None and second is not None and first[0] <= second[1] and second[0] <= first[1]


def right_before(entry: Entry) -> float:
    """How many of its queries were right without the variant."""
    return entry.base.get(metrics.RECALL[1], 0.0) / 100 * entry.queries


def drop_of(entry: Entry) -> float:
    """The drop rate; 0 where there is nothing to lose."""
    return entry.values.get(metrics.DROP_RATE) or 0.0
