"""The leaderboard: all checkpoints under every variant, runs that differ in their seed only averaged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import unknown_name
from engine.evaluate import metrics
from engine.evaluate.collection import FoundRun, results_of
from engine.evaluate.comparison import lower_is_better
from engine.evaluate.results import Direction
from engine.report.entries import Entry, entries_of
from engine.report.grid import Record, Scalar, Section
from engine.report.normalisation import normalisation_sections, pairs_of
from engine.report.table import NO_VARIANT, NOTHING

BASE = "base_"


def sort_entries(entries: Sequence[Entry], metric: str) -> tuple[Entry, ...]:
    """The checkpoints under each variant, the best first, undefined last; variants keep their order.

    Raises `InputError` for a metric that no entry has.
    """
    known = {name for entry in entries for name in entry.values}
    if metric not in known:
        raise unknown_name("metric", metric, known)
    sign = 1.0 if lower_is_better(metric) else -1.0
    place = {group: number for number, group in enumerate(dict.fromkeys(map(group_of, entries)))}

    def key(entry: Entry) -> tuple[int, float]:
        value = entry.values.get(metric)
        return place[group_of(entry)], math.inf if value is None else sign * value

    return tuple(sorted(entries, key=key))


def group_of(entry: Entry) -> tuple[str, int, str | None]:
    """What entries that stand side by side share."""
    return entry.direction, entry.distractors, entry.variant


@dataclass(frozen=True)
class Column:
    """A column of numbers: its header and the metric."""

    header: str
    metric: str


COLUMNS = (
    Column("R@1", metrics.RECALL[1]),
    Column("R@5", metrics.RECALL[5]),
    Column("R@10", metrics.RECALL[10]),
    Column("rsum", metrics.RSUM),
    Column("med", metrics.MEDIAN_RANK),
    Column("drop", metrics.DROP_RATE),
    Column("IR@1", metrics.INCORRECT_RECALL),
    Column("own", metrics.INCORRECT_RECALL_OWN),
    Column("down", metrics.QUERIES_DOWN),
    Column("up", metrics.QUERIES_UP),
)


@dataclass(frozen=True)
class Leaderboard:
    """An `engine.report.grid.Report`; `both`: checkpoint -> rsum of both directions without variant.

    `control` is the leaderboard of the same corpus with its texts in another normalisation.
    """

    entries: tuple[Entry, ...]
    both: Mapping[str, float]
    with_intervals: bool = False
    control: Leaderboard | None = None

    @classmethod
    def of(
        cls,
        found: Sequence[FoundRun],
        control: Sequence[FoundRun] = (),
        *,
        sort: str | None = None,
        with_intervals: bool = False,
    ) -> Leaderboard:
        """The leaderboard of runs, sorted by a metric when one is named (`InputError` for an unknown one).

        `control` are the runs of the same corpus in another normalisation.
        """
        entries = entries_of(found)
        both = {name: metrics.rsum_both(results) for name, results in recalls(found).items()}
        known = {name: value for name, value in both.items() if value is not None}
        return cls(
            entries if sort is None else sort_entries(entries, sort),
            known,
            with_intervals,
            cls.of(control) if control else None,
        )

    def sections(self) -> Sequence[Section]:
        """One table a direction (and number of distractors), then the rsum of both."""
        tables = dict.fromkeys((entry.direction, entry.distractors) for entry in self.entries)
        sections = [self.section(*table) for table in tables]
        if self.both:
            ranked = sorted(self.both.items(), key=lambda one: -one[1])
            rows = tuple((name, f"{value:.1f}") for name, value in ranked)
            sections.append(Section("rsum of both directions, no variant", 1, ("checkpoint", "rsum"), rows))
        if self.control is not None:
            sections += normalisation_sections(pairs_of(self.entries, self.control.entries))
        return sections

    def section(self, direction: Direction, distractors: int) -> Section:
        """The table of a direction; a column that nobody has is left out."""
        entries = [
            one for one in self.entries if (one.direction, one.distractors) == (direction, distractors)
        ]
        columns = [column for column in COLUMNS if any(column.metric in one.values for one in entries)]
        several = any(one.runs > 1 for one in entries)
        sizes = sorted({(one.queries, one.originals) for one in entries})
        what = "; ".join(f"{queries:,} queries, {rows:,} originals" for queries, rows in sizes)
        more = f", {distractors:,} distractors" if distractors else ""
        headers = ["variant", "checkpoint", *(["seeds"] if several else []), "before"]
        return Section(
            title=f"{direction}: {what}{more}",
            labels=2,
            headers=(*headers, *(column.header for column in columns)),
            rows=tuple(self.row(entry, columns, several) for entry in entries),
            notes=(BEFORE, *((SEVERAL,) if several else ())),
        )

    def row(self, entry: Entry, columns: Sequence[Column], several: bool) -> tuple[str, ...]:
        """The cells of an entry."""
        before = entry.base.get(metrics.RECALL[1])
        cells = [NO_VARIANT if entry.variant is None else entry.variant, entry.checkpoint]
        cells += [str(entry.runs)] if several else []
        cells.append(NOTHING if before is None else f"{before:.1f}")
        return (*cells, *(self.cell(entry, column.metric) for column in columns))

    def cell(self, entry: Entry, metric: str) -> str:
        """A value, with its deviation over seeds or (when they are shown) its interval."""
        value = entry.values.get(metric)
        if value is None:
            return NOTHING
        if metric in entry.deviations:
            return f"{value:.1f} ±{entry.deviations[metric]:.1f}"
        if self.with_intervals and metric in entry.intervals:
            return "{:.1f} [{:.1f}, {:.1f}]".format(value, *entry.intervals[metric])
        return f"{value:.1f}"

    def records(self) -> Sequence[Record]:
        """One record an entry: every metric, with ``_std``, ``_low`` and ``_high`` beside it."""
        boards = (self,) if self.control is None else (self, self.control)
        names = list(dict.fromkeys(name for one in boards for entry in one.entries for name in entry.values))
        return [one.record(entry, names) for one in boards for entry in one.entries]

    def record(self, entry: Entry, names: Sequence[str]) -> Record:
        """The record of an entry."""
        numbers: dict[str, Scalar] = {}
        for name in names:
            low, high = entry.intervals.get(name, (None, None))
            numbers |= {
                name: entry.values.get(name),
                f"{name}_std": entry.deviations.get(name),
                f"{name}_low": low,
                f"{name}_high": high,
            }
        is_base = entry.variant is None and not entry.distractors
        return {
            "checkpoint": entry.checkpoint,
            "encoder_spec": entry.spec,
            "direction": entry.direction,
            "variant": entry.variant,
            "runs": entry.runs,
            "seeds": " ".join(map(str, entry.seeds)) or None,
            "queries": entry.queries,
            "originals": entry.originals,
            "distractors": entry.distractors,
            "normalisation": entry.normalisation,
            **{f"{BASE}{name}": entry.base.get(name) for name in metrics.RANK_METRICS},
            **numbers,
            metrics.RSUM_BOTH: self.both.get(entry.checkpoint) if is_base else None,
        }


BEFORE = "before: R@1 of the same queries without the variant."
SEVERAL = "±: standard deviation over the seeds of a variant (of n - 1); without it, one run."


def recalls(found: Sequence[FoundRun]) -> Mapping[str, Mapping[str, float]]:
    """Checkpoint -> direction -> rsum without variant and distractors."""
    return {
        name: {
            run.direction: run.metrics[metrics.RSUM] or 0.0
            for run in results.runs
            if run.variant is None and not run.gallery.get("distractor")
        }
        for name, results in results_of(found).items()
    }
