"""Differences of checkpoints with intervals and tests, corrected together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from engine.errors import InputError, unknown_name
from engine.evaluate import metrics
from engine.evaluate.bootstrap import Resampling
from engine.evaluate.collection import FoundRun
from engine.evaluate.comparison import Contender, Difference, compare, holm
from engine.evaluate.results import DIRECTIONS, Direction
from engine.progress import Progress
from engine.report.grid import Record, Section
from engine.report.table import NO_VARIANT, NOTHING

DEFAULT_METRICS = (metrics.RECALL[1], metrics.DROP_RATE, metrics.INCORRECT_RECALL)
SIGNIFICANT = 0.05
SHORT = {
    **{metric: f"R@{k}" for k, metric in metrics.RECALL.items()},
    metrics.DROP_RATE: "drop rate",
    metrics.INCORRECT_RECALL: "IR@1",
}
"""How a table calls the metrics that it is mostly of; records have their names."""

Setting = tuple[Direction, str | None, tuple[int, int]]


@dataclass(frozen=True)
class Tested:
    """The difference of two checkpoints in one setting; `adjusted`: Holm's p-value over the whole report."""

    direction: Direction
    variant: str | None
    first: str
    second: str
    found: Difference
    adjusted: float | None = None


@dataclass(frozen=True)
class Differences:
    """An `engine.report.grid.Report` of all differences."""

    tested: tuple[Tested, ...]

    @classmethod
    def of(
        cls,
        found: Sequence[FoundRun],
        names: Sequence[str],
        reference: str | None,
        resampling: Resampling,
        flips: int,
        progress: Progress,
    ) -> Differences:
        """Every pair of checkpoints, or the others against `reference`, under every variant they share.

        `names` are the metrics, by default `DEFAULT_METRICS`; those that a pair does not have are passed
        over. Raises `InputError` for an unknown reference, a named metric that no pair has, when no two
        checkpoints share a setting, and for outcomes that are missing or do not pair.
        """
        known = list(dict.fromkeys(one.checkpoint for one in found))
        if reference is not None and reference not in known:
            raise unknown_name("checkpoint", reference, known)
        settings = [runs for runs in by_setting(found).values() if len(runs) > 1]
        if reference is not None:
            settings = [runs for runs in settings if reference in runs]
        if not settings:
            raise InputError(
                f"no two checkpoints share a variant and direction; there are: {', '.join(known)}"
            )
        tested: list[Tested] = []
        with progress.task("comparing", len(settings), "settings") as advance:
            for runs in settings:
                tested += setting_differences(runs, names or DEFAULT_METRICS, reference, resampling, flips)
                advance(1)
        there = {one.found.metric for one in tested}
        absent = [name for name in names or (() if tested else DEFAULT_METRICS) if name not in there]
        if absent:
            metric_names = {name for one in found for name in one.run.metrics}
            if absent[0] in metric_names:
                raise InputError(f"no two checkpoints share a setting in which both have {absent[0]}")
            raise unknown_name("metric", absent[0], metric_names)
        return cls(corrected(tested))

    def sections(self) -> Sequence[Section]:
        """One table."""
        rows = tuple(self.row(one) for one in self.tested)
        headers = (
            "setting",
            "metric",
            "first",
            "second",
            "of 1st",
            "of 2nd",
            "2nd - 1st",
            "95%",
            "p",
            "p (Holm)",
        )
        title = f"{len(self.tested)} differences of checkpoints, second minus first"
        return [Section(title, 4, headers, rows, (HOW_TO_READ,))]

    def row(self, one: Tested) -> tuple[str, ...]:
        """The cells of a difference."""
        found = one.found
        interval = NOTHING if found.interval is None else "[{:+.2f}, {:+.2f}]".format(*found.interval)
        mark = " *" if one.adjusted is not None and one.adjusted <= SIGNIFICANT else ""
        return (
            f"{one.direction} {NO_VARIANT if one.variant is None else one.variant}",
            SHORT.get(found.metric, found.metric),
            one.first,
            one.second,
            f"{found.first:.1f}",
            f"{found.second:.1f}",
            f"{found.difference:+.2f}",
            interval,
            p_text(found.p_value),
            p_text(one.adjusted) + mark,
        )

    def records(self) -> Sequence[Record]:
        """One record a difference."""
        return [
            {
                "direction": one.direction,
                "variant": one.variant,
                "metric": one.found.metric,
                "first": one.first,
                "second": one.second,
                "first_value": one.found.first,
                "second_value": one.found.second,
                "difference": one.found.difference,
                "low": None if one.found.interval is None else one.found.interval[0],
                "high": None if one.found.interval is None else one.found.interval[1],
                "p_value": one.found.p_value,
                "p_value_holm": one.adjusted,
                "exact": one.found.exact,
            }
            for one in self.tested
        ]


HOW_TO_READ = (
    "95%: interval of the difference, both resampled with the same images. p: randomisation test that flips "
    "whole images. p (Holm): corrected for all rows together; * at most 0.05."
)


def p_text(p_value: float | None) -> str:
    """A p-value with four digits after the point."""
    return NOTHING if p_value is None else f"{p_value:.4f}"


def by_setting(found: Sequence[FoundRun]) -> Mapping[Setting, Mapping[str, FoundRun]]:
    """Setting (direction, variant with its seed, sizes of the gallery) -> checkpoint -> run."""
    settings: dict[Setting, dict[str, FoundRun]] = {}
    for one in sorted(found, key=lambda run: (DIRECTIONS.index(run.run.direction), run.run.variant or "")):
        sizes = one.run.gallery.get("original", 0), one.run.gallery.get("distractor", 0)
        settings.setdefault((one.run.direction, one.run.variant, sizes), {})[one.checkpoint] = one
    return settings


def setting_differences(
    runs: Mapping[str, FoundRun],
    names: Sequence[str],
    reference: str | None,
    resampling: Resampling,
    flips: int,
) -> Iterator[Tested]:
    """The differences of one setting; outcomes are read once a checkpoint."""
    contenders = {name: Contender.of(one.sample(), resampling) for name, one in runs.items()}
    pairs = (
        list(combinations(contenders, 2))
        if reference is None
        else [(reference, other) for other in contenders if other != reference]
    )
    run = next(iter(runs.values())).run
    for first, second in pairs:
        there = [name for name in names if all(name in contenders[one].values for one in (first, second))]
        for found in compare(contenders[first], contenders[second], there, flips, resampling.seed):
            yield Tested(run.direction, run.variant, first, second, found)


def corrected(tested: Sequence[Tested]) -> tuple[Tested, ...]:
    """The same with Holm's p-values over all that have one."""
    p_values = [one.found.p_value for one in tested if one.found.p_value is not None]
    adjusted = iter(holm(p_values))
    return tuple(
        one if one.found.p_value is None else replace(one, adjusted=next(adjusted)) for one in tested
    )
