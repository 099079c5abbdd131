"""The figures as data: panels, series and points, each value with its interval. The page's script draws them.

Every value is ``(value, low, high)`` in the metric's unit; the bounds are None where a run has no interval.
Where a variant was made with several seeds the value is their mean and the bounds are one standard deviation
off. What cannot be drawn from the results is a figure without panels, whose `missing` says what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.evaluate import metrics
from engine.evaluate.names import natural_key
from engine.evaluate.results import DIRECTIONS, Direction
from engine.report.entries import Entry
from engine.report.table import ASKS, NO_VARIANT

Value = tuple[float, float | None, float | None]
X = str | float

DIGITS = 3
RECALL = metrics.RECALL[1]
CURVE_METRICS: Mapping[str, str] = {
    RECALL: "R@1, %",
    metrics.DROP_RATE: "drop rate, %",
    metrics.INCORRECT_RECALL: "IR@1, %",
}
IMAGE_LEVELS = ("mix", "patch")  # families whose first parameter is L, the share of original pixels
REPLACED_WORDS = ("substitute",)  # families whose first parameter is a number of words
Key = TypeVar("Key", bound=Hashable)
NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")


@dataclass(frozen=True)
class Point:
    """One place of a series; `values` by metric."""

    x: X
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Series:
    """A line. `checkpoint` or `variant` give it its colour; `choice` is what a reader chooses it by."""

    name: str
    points: tuple[Point, ...]
    checkpoint: str | None = None
    variant: str | None = None
    choice: str | None = None


@dataclass(frozen=True)
class Change:
    """A checkpoint under a variant: R@1 without and with it, drop rate and IR@1 where they are defined."""

    checkpoint: str
    variant: str
    distractors: int
    before: Value | None
    after: Value | None
    drop: Value | None
    fooled: Value | None


@dataclass(frozen=True)
class Panel:
    """One plot: lines, or changes (and then no lines)."""

    title: str
    series: tuple[Series, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Figure:
    """`kind` is how it is drawn: lines, changes or scatter. `metrics` maps what can be shown to its label.

    `ticks` are the names on a categorical axis in their order, `log` whether the axis is logarithmic.
    """

    key: str
    kind: str
    x_label: str
    panels: tuple[Panel, ...]
    metrics: Mapping[str, str]
    ticks: tuple[str, ...] = ()
    log: bool = False
    missing: str = ""


def ordered_checkpoints(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The names of the checkpoints in natural order."""
    return tuple(sorted({entry.checkpoint for entry in entries}, key=lambda name: (natural_key(name), name)))


def ordered_variants(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The names of the variants (no seed, none for no variant) in order of direction, then natural order."""
    found = {
        (DIRECTIONS.index(one.direction), natural_key(one.variant), one.variant)
        for one in entries
        if one.variant is not None
    }
    return tuple(dict.fromkeys(name for _, _, name in sorted(found)))


def least_crowded(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Those without distractors; in a direction that has none of these, those with the fewest."""
    fewest: dict[str, int] = {}
    for one in entries:
        fewest[one.direction] = min(one.distractors, fewest.get(one.direction, one.distractors))
    return tuple(one for one in entries if one.distractors == fewest[one.direction])


def value_of(entry: Entry, metric: str) -> Value | None:
    """A metric with its interval, or with its deviation over seeds; None where it is undefined."""
    value = entry.values.get(metric)
    if value is None:
        return None
    if metric in entry.deviations:
        deviation = entry.deviations[metric]
        return rounded(value, value - deviation, value + deviation)
    return rounded(value, *entry.intervals.get(metric, (None, None)))


def rounded(value: float, low: float | None, high: float | None) -> Value:
    """The digits that a figure can show."""
    bounds = [None if one is None else round(one, DIGITS) for one in (low, high)]
    return round(value, DIGITS), bounds[0], bounds[1]


def before_of(entry: Entry, entries: Sequence[Entry]) -> Value | None:
    """R@1 of the same queries without the variant, with the interval of the run without it where that is the
    same value (a query variant may leave some queries out)."""
    if entry.variant is None:
        return value_of(entry, RECALL)
    before = entry.base.get(RECALL)
    if before is None:
        return None
    same = (entry.checkpoint, entry.direction, None, entry.distractors)
    for one in entries:
        if (one.checkpoint, one.direction, one.variant, one.distractors) == same:
            found = value_of(one, RECALL)
            if found is not None and abs(found[0] - before) < 10**-DIGITS:
                return found
    return rounded(before, None, None)


def change_of(entry: Entry, entries: Sequence[Entry]) -> Change:
    """What a variant does to a checkpoint."""
    assert entry.variant is not None
    return Change(
        checkpoint=entry.checkpoint,
        variant=entry.variant,
        distractors=entry.distractors,
        before=before_of(entry, entries),
        after=value_of(entry, RECALL),
        drop=value_of(entry, metrics.DROP_RATE),
        fooled=value_of(entry, metrics.INCORRECT_RECALL),
    )


def figures_of(entries: Sequence[Entry]) -> tuple[Figure, ...]:
    """All figures, in the order of the page."""
    return tuple(make(entries) for make in FIGURES)


def changes_figure(entries: Sequence[Entry]) -> Figure:
    """R@1 before and after every variant."""
    panels = change_panels(entries, lambda change: change.after is not None)
    missing = "" if panels else "These results hold no variant, so nothing comes after."
    return Figure("changes", "changes", "R@1, %", panels, {}, missing=missing)


def trade_off_figure(entries: Sequence[Entry]) -> Figure:
    """Drop rate against IR@1: what is lost, and how often a fake comes first."""
    panels = change_panels(entries, lambda change: change.drop is not None and change.fooled is not None)
    missing = "" if panels else "No run of these results has both a drop rate and an IR@1."
    return Figure("trade-off", "scatter", "drop rate, %", panels, {}, missing=missing)


def change_panels(entries: Sequence[Entry], is_shown: Callable[[Change], bool]) -> tuple[Panel, ...]:
    """A panel a direction, variants and checkpoints in their orders."""
    variants, checkpoints = ordered_variants(entries), ordered_checkpoints(entries)
    panels = []
    for direction in DIRECTIONS:
        changes = [
            change_of(one, entries)
            for one in least_crowded(entries)
            if one.direction == direction and one.variant is not None
        ]
        changes.sort(key=lambda one: (variants.index(one.variant), checkpoints.index(one.checkpoint)))
        shown = tuple(change for change in changes if is_shown(change))
        if shown:
            panels.append(Panel(panel_title(direction), changes=shown))
    return tuple(panels)


def panel_title(direction: Direction) -> str:
    """``i2t: images ask for captions``."""
    return f"{direction}: {ASKS[direction]}"


def checkpoints_figure(entries: Sequence[Entry]) -> Figure:
    """Every variant over the checkpoints, in natural order of their names."""
    names = ordered_checkpoints(entries)
    plain = least_crowded(entries)
    panels = [
        Panel(
            panel_title(direction),
            tuple(
                Series(variant or NO_VARIANT, points_of(some, lambda one: one.checkpoint), variant=variant)
                for variant, some in by(plain, direction, lambda one: one.variant).items()
            ),
        )
        for direction in DIRECTIONS
        if any(one.direction == direction for one in plain)
    ]
    missing = "" if len(names) > 1 else "These results hold one checkpoint; a curve needs two or more."
    shown = () if missing else tuple(panels)
    return Figure("training", "lines", "checkpoint", shown, CURVE_METRICS, ticks=names, missing=missing)


def levels_figure(entries: Sequence[Entry]) -> Figure:
    """Every checkpoint over L of mix and patch."""
    panels = parameter_panels(entries, IMAGE_LEVELS, lambda family: f"{family}:L")
    missing = "" if panels else "No checkpoint of these results was given mix or patch at two or more L."
    label = "L, the share of original pixels"
    return Figure("levels", "lines", label, panels, CURVE_METRICS, missing=missing)


def words_figure(entries: Sequence[Entry]) -> Figure:
    """Every checkpoint over the number of replaced words."""
    panels = parameter_panels(entries, REPLACED_WORDS, lambda family: f"{family}:N")
    missing = "" if panels else "These results hold no variant with two or more numbers of replaced words."
    return Figure("words", "lines", "words replaced", panels, CURVE_METRICS, missing=missing)


def parameter_panels(
    entries: Sequence[Entry], families: Sequence[str], title: Callable[[str], str]
) -> tuple[Panel, ...]:
    """A panel a family and its further parameters, a line a checkpoint with two or more numbers."""
    found: dict[str, dict[str, list[Entry]]] = {}
    for entry in least_crowded(entries):
        family, number, rest = split_variant(entry.variant)
        if family in families and number is not None:
            name = ":".join((title(family), *rest))
            found.setdefault(name, {}).setdefault(entry.checkpoint, []).append(entry)
    panels = []
    for name, checkpoints in sorted(found.items()):
        series = [
            Series(one, points_of(checkpoints[one], parameter_of), checkpoint=one)
            for one in ordered_checkpoints(entries)
            if one in checkpoints
        ]
        shown = tuple(one for one in series if len(one.points) > 1)
        if shown:
            panels.append(Panel(name, shown))
    return tuple(panels)


def split_variant(variant: str | None) -> tuple[str, float | None, tuple[str, ...]]:
    """The family of a variant without seed, the number that follows it (None: none does), and the rest."""
    family, *parameters = (variant or "").split(":")
    if parameters and NUMBER.fullmatch(parameters[0]):
        return family, float(parameters[0]), tuple(parameters[1:])
    return family, None, tuple(parameters)


def parameter_of(entry: Entry) -> float:
    """The number that follows the family."""
    number = split_variant(entry.variant)[1]
    assert number is not None
    return number


def distractors_figure(entries: Sequence[Entry]) -> Figure:
    """Every checkpoint over the number of distractors; the reader chooses the variant."""
    panels = []
    for direction in DIRECTIONS:
        groups = by(entries, direction, lambda one: (one.variant, one.checkpoint))
        order = ordered_checkpoints(entries)
        series = [
            Series(
                checkpoint,
                points_of(some, lambda one: float(one.distractors)),
                checkpoint=checkpoint,
                choice=variant or NO_VARIANT,
            )
            for (variant, checkpoint), some in sorted(
                groups.items(), key=lambda one: (one[0][0] or "", order.index(one[0][1]))
            )
        ]
        shown = tuple(one for one in series if len(one.points) > 1)
        if shown:
            panels.append(Panel(panel_title(direction), shown))
    missing = "" if panels else "These results hold no gallery at two or more numbers of distractors."
    return Figure(
        "distractors",
        "lines",
        "distractors in the gallery",
        tuple(panels),
        CURVE_METRICS,
        log=True,
        missing=missing,
    )


def by(entries: Sequence[Entry], direction: Direction, key: Callable[[Entry], Key]) -> dict[Key, list[Entry]]:
    """The entries of a direction by a key, in order of first appearance."""
    groups: dict[Key, list[Entry]] = {}
    for entry in entries:
        if entry.direction == direction:
            groups.setdefault(key(entry), []).append(entry)
    return groups


def points_of(entries: Sequence[Entry], x: Callable[[Entry], X]) -> tuple[Point, ...]:
    """A point an entry, ascending; metrics that an entry does not have are left out."""
    points = []
    for entry in entries:
        values = {metric: value_of(entry, metric) for metric in CURVE_METRICS}
        points.append(Point(x(entry), {name: one for name, one in values.items() if one is not None}))
    return tuple(sorted(points, key=place_of))


def place_of(point: Point) -> tuple[float, tuple[tuple[int, int, str], ...]]:
    """Orders points by their number, or by their name where that is what they have."""
    return (0.0, natural_key(point.x)) if isinstance(point.x, str) else (point.x, ())


FIGURES: tuple[Callable[[Sequence[Entry]], Figure], ...] = (
    changes_figure,
    trade_off_figure,
    checkpoints_figure,
    levels_figure,
    words_figure,
    distractors_figure,
)
