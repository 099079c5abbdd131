"""Results as terminal tables, for 80 columns and more: one store's variants, or many checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from engine.evaluate import metrics
from engine.evaluate.indexed import space_words
from engine.evaluate.results import DIRECTIONS, Direction, Results, Run, StageRecord
from engine.stopwatch import TOTAL

ROOMY = 100  # from this many columns on there is space between the numbers
WIDE = 150  # from this many on there is space for intervals
UNBOUNDED = 10_000  # columns enough for any table, to measure how many it needs
NARROWEST = 8  # of a column of names, which are folded
INDENT = "  "
NOTHING = "-"
NO_ITEM = "variant_has_no_item"  # in the `left_out` of a run
NO_VARIANT = "(none)"
ASKS: Mapping[Direction, str] = {
    "i2t": "images ask for captions",
    "t2i": "captions ask for images",
}
HOW_TO_READ = (
    "R@k: % of queries with a right item among the first k, without -> with the variant. "
    "drop: % of R@1 lost. IR@1: % of queries whose first item is adversarial, made from their own image / "
    "from another."
)
HOW_TO_READ_INTERVALS = "[...]: 95% intervals, from resamples of whole images."
HOW_TO_READ_MORE = (
    "med: median rank. ties: queries whose rank or IR@1 depends on the tie policy ({ties}). "
    "chg: % of the variant's items that differ from their originals. gallery: rows searched."
)


@dataclass(frozen=True)
class Column:
    """One column: its header, and what it shows of a run."""

    header: str
    show: Callable[[Run], str]


def results_table(results: Results, *, intervals: bool = False) -> Group:
    """One table a direction, one row a variant, and how to read them.

    Intervals are shown on consoles of `WIDE` columns and more, with `intervals` on all.
    """
    shown = tables([results], COLUMNS, named=False, intervals=intervals)
    more = more_tables(results)
    notes = (*stages(results.runs), *indexes(results.runs), *left_out(results.runs))
    return Group(*shown, *more, *notes, reading(results.runs, full=True))


def checkpoints_table(results: Sequence[Results], *, intervals: bool = False) -> Group:
    """One table a direction with the runs of several checkpoints, and how to read them; see above."""
    runs = [run for one in results for run in one.runs]
    shown = tables(results, MAIN_COLUMNS, named=True, intervals=intervals)
    return Group(*shown, *stages(runs), *indexes(runs), *left_out(runs), reading(runs, full=False))


def timings_line(results: Results) -> str:
    """Seconds by stage on one line."""
    stages = {name: seconds for name, seconds in results.timings.items() if name != TOTAL}
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in stages.items())
    return f"{results.timings[TOTAL]:.1f} s: {parts}"


def tables(
    results: Sequence[Results], columns: Sequence[Column], *, named: bool, intervals: bool
) -> Iterable[RenderableType]:
    """The table of every direction that has runs, a blank line after each."""
    for direction in DIRECTIONS:
        sections = [(one.provenance.checkpoint, runs_of(one, direction)) for one in results]
        sections = [(name, runs) for name, runs in sections if runs]
        if sections:
            yield DirectionTable(direction, tuple(sections), tuple(columns), named, intervals)
            yield Text()


def more_tables(results: Results) -> Iterable[RenderableType]:
    """What only some runs have: how many queries of a query variant moved, and metrics on lists."""
    for direction in DIRECTIONS:
        runs = tuple(run for run in runs_of(results, direction) if further_metrics(run))
        columns = tuple(
            column for key, column in MORE_COLUMNS.items() if any(key in run.metrics for run in runs)
        )
        if columns:
            section = (results.provenance.checkpoint, runs)
            yield DirectionTable(direction, (section,), columns, named=False, intervals=False)
            yield Text()
    there = {key for run in results.runs for key in run.metrics}
    yield from (Text(note, style="dim") for keys, note in HOW_TO_READ_ADDED.items() if there & set(keys))


def further_metrics(run: Run) -> set[str]:
    """Those that only some runs have; the control among distractors is what it is without them."""
    repeated = {metrics.FOOLED_BLIND} if run.distractors else set()
    return (set(run.metrics) & set(metrics.ADDED)) - repeated


def runs_of(results: Results, direction: Direction) -> tuple[Run, ...]:
    """The runs of a direction, the one without variant first."""
    return tuple(run for run in results.runs if run.direction == direction)


def stages(runs: Sequence[Run]) -> list[Text]:
    """A line on each thing that scored beside or instead of embeddings."""
    return [Text(stage_line(one)) for one in dict.fromkeys(run.stage for run in runs) if one is not None]


def stage_line(stage: StageRecord) -> str:
    """What scored, in words."""
    if stage.kind == "pairs":
        return f"Scores of pairs by {stage.scorer}."
    joined = "beside the cosine" if stage.join == "add" else "alone"
    return (
        f"Reranked: the best {stage.k_test:,} of every query by the matching score of {stage.scorer} "
        f"{joined}, all others below them."
    )


def left_out(runs: Sequence[Run]) -> list[Text]:
    """One line on originals that a variant made no item from; none where there are no such."""
    counts = {str(run.variant): run.left_out.get(NO_ITEM, 0) for run in runs}
    parts = [f"{variant} {count:,}" for variant, count in counts.items() if count]
    return [Text(f"Originals without an item of the variant: {', '.join(parts)}.")] if parts else []


def indexes(runs: Sequence[Run]) -> list[Text]:
    """A line on every fixed index that was searched, and on queries that are of another space."""
    lines = []
    for use in dict.fromkeys(run.index for run in runs if run.index is not None):
        there = f"Galleries of the index {use.name} ({use.fingerprint[:12]}), made by {use.encoder_spec}."
        other = (
            f" They are of the space {space_words(use.space)} and the queries of another one, "
            f"{space_words(use.query_space)} (--allow-space-mismatch)."
        )
        lines.append(Text(there + (other if use.space_mismatch else "")))
    return lines


def reading(runs: Sequence[Run], *, full: bool) -> Text:
    """How to read the tables, in two sentences or four."""
    ties = ", ".join(sorted({run.ties for run in runs}))
    return Text(f"{HOW_TO_READ} {HOW_TO_READ_MORE.format(ties=ties)}" if full else HOW_TO_READ, style="dim")


@dataclass(frozen=True)
class DirectionTable:
    """The runs of one direction by checkpoint; spaced by the width at hand."""

    direction: Direction
    sections: tuple[tuple[str, tuple[Run, ...]], ...]
    columns: tuple[Column, ...]
    named: bool
    intervals: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble((self.direction, "bold"), f"  {self.title}")
        intervals = self.has_intervals and (self.intervals or options.max_width >= WIDE)
        gap = 1 if options.max_width >= ROOMY else 0
        smallest = self.table(gap, intervals=intervals, longest_name=NARROWEST)
        if Measurement.get(console, options.update(width=UNBOUNDED), smallest).maximum <= options.max_width:
            yield self.table(gap, intervals=intervals)
        else:  # rich would cut the numbers
            yield from self.stacked(intervals=intervals)
        if intervals:
            yield Text(HOW_TO_READ_INTERVALS, style="dim")

    @property
    def has_intervals(self) -> bool:
        """Whether any run has."""
        return any(run.intervals for _, runs in self.sections for run in runs)

    @property
    def has_distractors(self) -> bool:
        """Whether any run has."""
        return any(run.distractors for _, runs in self.sections for run in runs)

    @property
    def title(self) -> str:
        """Who asks for what, and how many."""
        runs = [run for _, runs in self.sections for run in runs]
        counts = sorted({(run.queries, run.gallery["original"]) for run in runs})
        sizes = "; ".join(f"{queries:,} queries, {rows:,} originals" for queries, rows in counts)
        return f"{ASKS[self.direction]}: {sizes}"

    def shown_columns(self, *, intervals: bool) -> tuple[Column, ...]:
        """The columns with numbers, those of distractors and intervals where they are shown."""
        return (
            *((DISTRACTORS,) if self.has_distractors else ()),
            *self.columns,
            *(INTERVAL_COLUMNS if intervals else ()),
        )

    def stacked(self, *, intervals: bool) -> Iterable[Text]:
        """The same for consoles too narrow for a table: a paragraph a run, its numbers named."""
        columns = self.shown_columns(intervals=intervals)
        for name, runs in self.sections:
            if self.named:
                yield Text(name, style="bold")
            for run in runs:
                yield Text(run.variant or NO_VARIANT)
                yield Text(INDENT + "; ".join(f"{column.header} {column.show(run)}" for column in columns))

    def table(self, gap: int, *, intervals: bool, longest_name: int | None = None) -> Table:
        """The table with `gap` more columns between the numbers; names may be cut, to measure it."""
        columns = self.shown_columns(intervals=intervals)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
        if self.named:
            table.add_column("checkpoint", overflow="fold", min_width=NARROWEST)
        table.add_column("variant", overflow="fold", min_width=NARROWEST)
        for column in columns:
            table.add_column(column.header, justify="right", no_wrap=True)
        for name, runs in self.sections:
            for number, run in enumerate(runs):
                names = [Text(name[:longest_name] if number == 0 else "")] if self.named else []
                variant = Text((run.variant or NO_VARIANT)[:longest_name])
                cells = [Text(column.show(run)) for column in columns]
                table.add_row(*names, variant, *cells, end_section=number == len(runs) - 1)
        return table


def percent(key: str, digits: int = 1) -> Callable[[Run], str]:
    """A metric with so many digits after the point; undefined or not there is a dash."""

    def show(run: Run) -> str:
        value = run.metrics.get(key)
        return NOTHING if value is None else f"{value:.{digits}f}"

    return show


def recall_at_1(run: Run) -> str:
    """R@1, after that of the same queries without the variant."""
    new = percent(metrics.RECALL[1])(run)
    return new if run.base is None else f"{run.base[metrics.RECALL[1]]:.1f}->{new}"


def own_and_other(run: Run) -> str:
    """IR@1 of the own image's fakes and of other images'."""
    if metrics.INCORRECT_RECALL_OWN not in run.metrics:
        return NOTHING
    return "/".join(
        percent(key)(run) for key in (metrics.INCORRECT_RECALL_OWN, metrics.INCORRECT_RECALL_OTHER)
    )


def interval(key: str) -> Callable[[Run], str]:
    """The interval of a metric with one digit after the point."""

    def show(run: Run) -> str:
        bounds = run.intervals.get(key)
        return NOTHING if bounds is None else "[{:.1f}, {:.1f}]".format(*bounds)

    return show


def median_rank(run: Run) -> str:
    """The median rank with one digit after the point, without a fraction of nought."""
    return f"{run.metrics[metrics.MEDIAN_RANK]:,.1f}".removesuffix(".0")


def short_number(number: int) -> str:
    """A number of rows as the option takes it: 10k, 1.5M; as it is where that would lose digits."""
    for factor, letter in ((10**6, "M"), (10**3, "k")):
        if number >= factor and number % (factor // 10) == 0:
            return f"{number / factor:g}{letter}"
    return str(number)


DISTRACTORS = Column("distr.", lambda run: short_number(run.distractors))
MAIN_COLUMNS = (
    Column("R@1", recall_at_1),
    Column("R@5", percent(metrics.RECALL[5])),
    Column("R@10", percent(metrics.RECALL[10])),
    Column("drop", percent(metrics.DROP_RATE)),
    Column("IR@1", percent(metrics.INCORRECT_RECALL)),
    Column("own/other", own_and_other),
)
COLUMNS = (
    *MAIN_COLUMNS[:3],
    Column("med", median_rank),
    *MAIN_COLUMNS[3:],
    Column("ties", lambda run: f"{run.tied[metrics.TIED_QUERIES]:,}"),
    Column("chg", percent(metrics.CHANGED_RATE)),
    Column("gallery", lambda run: f"{sum(run.gallery.values()):,}"),
)
MORE_COLUMNS: Mapping[str, Column] = {
    key: Column(header, percent(key, digits))
    for key, header, digits in (
        (metrics.QUERIES_DOWN, "down", 1),
        (metrics.QUERIES_SAME, "same", 1),
        (metrics.QUERIES_UP, "up", 1),
        (metrics.FOOLED_BLIND, "w/o query", 1),
        *((key, f"set R@{k}", 1) for k, key in metrics.SET_RECALL.items()),
        (metrics.DCG, "DCG@10", 3),
        (metrics.EXTENDED_RECALL_1, "ext R@1", 1),
        (metrics.R_PRECISION, "R-P", 1),
        (metrics.MAP_AT_R, "mAP@R", 1),
    )
}
HOW_TO_READ_ADDED: Mapping[tuple[str, ...], str] = {
    metrics.QUERY_MOVES: "down/same/up: % of queries whose hits at 1, 5 and 10 fell, stayed, rose.",
    (
        metrics.FOOLED_BLIND,
    ): "w/o query: % of queries whose own fake beats their own originals by its score with "
    "the mean query; about 50 where as many fakes look like originals.",
    tuple(metrics.SET_RECALL.values()): "set R@k: % of min(positives, k) within k.",
    (metrics.DCG,): "DCG@10: relevance 1 for a positive, else the cosine; ties as listed; at most 4.544.",
    metrics.EXTENDED: "ext R@1, R-P, mAP@R: against the positives of --positives, in %.",
}
INTERVAL_COLUMNS = (
    Column("R@1 95%", interval(metrics.RECALL[1])),
    Column("drop 95%", interval(metrics.DROP_RATE)),
    Column("IR@1 95%", interval(metrics.INCORRECT_RECALL)),
)
