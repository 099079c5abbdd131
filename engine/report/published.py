"""The figures of the two papers, and own results side by side with them in the papers' layout.

The tables are package data (``published/*.csv``, as printed). What is known to be wrong in them is in
``known_errors.csv`` (found by the invariants of the metrics and in the authors' own logs): such figures are
marked and never corrected. ``models.csv`` says which encoder specs are which model, ``settings.csv`` which
variants are which setting, and which of them have a paper mode; a setting of several variants (joined by +)
is the mean over all of them. ``sizes.csv`` has the papers' numbers of queries and of rows that are not
adversarial: an own run of another size, or not in paper mode, is marked, and noted.
Sources: RoCOCO, Tables 1 to 4 and 8; Assessing Brittleness, Tables 2 and 3 (Table 1 describes captions, not
models).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from statistics import fmean

from engine.errors import InputError, unknown_name
from engine.evaluate import metrics
from engine.evaluate.results import Direction
from engine.report.entries import Entry
from engine.report.grid import Record, Section
from engine.report.table import NOTHING

MISPRINT = "†"
UNLIKE = "‡"
ANY_DATASET = ""

Row = Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """One printed number: where it stands, what of, and what is known to be wrong with it (None: nothing)."""

    table: str
    dataset: str
    direction: Direction
    model: str
    setting: str
    metric: str
    value: float
    doubt: str | None = None


@dataclass(frozen=True)
class Source:
    """A paper: its tables with their readers, in order, and the setting that is no perturbation."""

    name: str
    tables: tuple[tuple[str, Callable[[Sequence[Row]], Iterator[Figure]]], ...]
    original: str


def rococo_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """R@1, drop rate and IR@1 of a row (a base: R@1); the paper spells VSE-infinity in two ways."""
    columns = {
        "recall_at_1": metrics.RECALL[1],
        "drop_rate": metrics.DROP_RATE,
        "incorrect_recall_at_1": metrics.INCORRECT_RECALL,
    }
    for row in rows:
        model = row["model"].replace("VSE (", "VSE∞ (")
        for column, metric in columns.items():
            if row[column]:
                yield Figure(
                    row["table"],
                    ANY_DATASET,
                    direction_of(row["direction"]),
                    model,
                    row["setting"],
                    metric,
                    float(row[column]),
                )


BRITTLENESS_COLUMNS: Mapping[str, tuple[Direction, str]] = {
    "i2t_col1": ("i2t", metrics.SET_RECALL[5]),
    "i2t_col2": ("i2t", metrics.SET_RECALL[10]),
    "i2t_col3": ("i2t", metrics.RECALL[1]),
    "i2t_dcg": ("i2t", metrics.DCG),
    "i2t_rsum": ("i2t", metrics.SET_RSUM),
    "t2i_recall_at_1": ("t2i", metrics.RECALL[1]),
    "t2i_recall_at_5": ("t2i", metrics.RECALL[5]),
    "t2i_recall_at_10": ("t2i", metrics.RECALL[10]),
    "t2i_dcg": ("t2i", metrics.DCG),
    "t2i_rsum": ("t2i", metrics.RSUM),
}
NO_PERTURBATION = "No perturbation"


def brittleness_clean(rows: Sequence[Row]) -> Iterator[Figure]:
    """Table 2: i2t and t2i without perturbation."""
    for row in rows:
        for column, (direction, metric) in BRITTLENESS_COLUMNS.items():
            value = float(row[column])
            yield Figure(
                "Brittleness Table 2", row["dataset"], direction, row["model"], NO_PERTURBATION, metric, value
            )


def brittleness_perturbed(rows: Sequence[Row]) -> Iterator[Figure]:
    """Table 3: rsum of t2i under the perturbations, a column a data set."""
    for row in rows:
        for dataset in list(row)[2:]:
            yield Figure(
                "Brittleness Table 3",
                dataset,
                "t2i",
                row["model"],
                row["perturbation"],
                metrics.RSUM,
                float(row[dataset]),
            )


def direction_of(text: str) -> Direction:
    """The direction a file names."""
    return {"i2t": "i2t", "t2i": "t2i"}[text]  # type: ignore[return-value]


SOURCES: Mapping[str, Source] = {
    "rococo": Source(
        "rococo", tuple((f"rococo_table{n}", rococo_figures) for n in (1, 2, 3, 4, 8)), original="original"
    ),
    "brittleness": Source(
        "brittleness",
        (("brittleness_table2", brittleness_clean), ("brittleness_table3", brittleness_perturbed)),
        original=NO_PERTURBATION,
    ),
}


def data_rows(name: str) -> list[Row]:
    """The rows of a file in the package."""
    file = resources.files("engine.report").joinpath("published").joinpath(f"{name}.csv")
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


@cache
def published_figures(source: str) -> tuple[Figure, ...]:
    """All figures of a paper in the order of its tables, the doubtful ones marked.

    Raises `InputError` for an unknown paper.
    """
    if source not in SOURCES:
        raise unknown_name("published source", source, SOURCES)
    errors = data_rows("known_errors")
    return tuple(
        replace(figure, doubt=doubt_of(figure, errors))
        for file, read in SOURCES[source].tables
        for figure in read(data_rows(file))
    )


def doubt_of(figure: Figure, errors: Sequence[Row]) -> str | None:
    """What is known to be wrong with a figure; a pattern of the file may hold shell wildcards."""
    parts = ("table", "dataset", "direction", "model", "setting", "metric")
    for row in errors:
        if all(fnmatchcase(getattr(figure, part), row[part]) for part in parts):
            return row["note"]
    return None


@dataclass(frozen=True)
class Size:
    """How many rows and queries a paper's runs of a data set and direction have: any of the numbers."""

    gallery: frozenset[int]
    queries: frozenset[int]

    def differences(self, entry: Entry) -> Iterator[str]:
        """In what an own run is of another size, in words."""
        for what, own, paper in (
            ("gallery", searched(entry), self.gallery),
            ("queries", entry.queries, self.queries),
        ):
            if own not in paper:
                yield f"{what} {own:,}, the paper's {' or '.join(f'{one:,}' for one in sorted(paper))}"


def searched(entry: Entry) -> int:
    """The rows that an own run searches besides adversarial items."""
    return entry.originals + entry.distractors


@cache
def size_of(source: str, dataset: str, direction: Direction) -> Size:
    """What the paper searched."""
    (row,) = (
        one
        for one in data_rows("sizes")
        if (one["source"], one["dataset"], one["direction"]) == (source, dataset, direction)
    )
    return Size(*(frozenset(map(int, row[name].split())) for name in ("gallery", "queries")))


@dataclass(frozen=True)
class Line:
    """A printed figure and the own value of the same model and setting; `variant` is the own one's name.

    `unlike` says in what the own runs are not made as the paper's.
    """

    figure: Figure
    checkpoint: str
    variant: str
    own: float | None
    unlike: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """Own minus printed."""
        return None if self.own is None else self.own - self.figure.value


@dataclass(frozen=True)
class SideBySide:
    """An `engine.report.grid.Report`: the tables of a paper, own values beside the printed ones."""

    lines: tuple[Line, ...]

    @classmethod
    def of(
        cls, entries: Sequence[Entry], source: str, named: Mapping[str, str], dataset: str | None = None
    ) -> SideBySide:
        """Own entries beside a paper's figures.

        `named` maps checkpoints to models of the paper; others are known by name or encoder spec. `dataset`
        is one of the paper's, needed where it has several. Raises `InputError` when nothing can be compared.
        """
        figures = published_figures(source)
        chosen = choose_dataset(figures, source, dataset)
        models = model_names(entries, source, named)
        lines = [
            line
            for figure in figures
            if figure.dataset == chosen
            for checkpoint, model in models.items()
            if model == figure.model
            for line in lines_of(figure, source, [one for one in entries if one.checkpoint == checkpoint])
        ]
        if not lines:
            raise InputError(
                f"no run has a setting of {source}: its settings are "
                f"{', '.join(dict.fromkeys(figure.setting for figure in figures))}"
            )
        return cls(without_bare_tables(lines, SOURCES[source].original))

    def sections(self) -> Sequence[Section]:
        """One a table and direction."""
        keys = dict.fromkeys((line.figure.table, line.figure.direction) for line in self.lines)
        return [self.section(*key) for key in keys]

    def section(self, table: str, direction: Direction) -> Section:
        """Rows as the paper has them, its columns in threes: own, printed, difference."""
        lines = [one for one in self.lines if (one.figure.table, one.figure.direction) == (table, direction)]
        metric_names = list(dict.fromkeys(line.figure.metric for line in lines))
        rows: dict[tuple[str, str, str, str], dict[str, Line]] = {}
        for line in lines:
            key = (line.figure.model, line.checkpoint, line.figure.setting, line.variant)
            rows.setdefault(key, {})[line.figure.metric] = line
        dataset = f", {lines[0].figure.dataset}" if lines[0].figure.dataset else ""
        return Section(
            title=f"{table}{dataset}, {direction}: own value, printed value, difference",
            labels=4,
            headers=(
                *("model", "checkpoint", "setting", "variant"),
                *(header for name in metric_names for header in (SHORT.get(name, name), "paper", "diff")),
            ),
            rows=tuple(
                (*key, *(cell for name in metric_names for cell in cells(found.get(name))))
                for key, found in rows.items()
            ),
            notes=notes(lines),
        )

    def records(self) -> Sequence[Record]:
        """One record a figure."""
        return [
            {
                "table": line.figure.table,
                "dataset": line.figure.dataset or None,
                "direction": line.figure.direction,
                "model": line.figure.model,
                "checkpoint": line.checkpoint,
                "setting": line.figure.setting,
                "variant": line.variant or None,
                "metric": line.figure.metric,
                "own": line.own,
                "published": line.figure.value,
                "difference": line.difference,
                "known_error": line.figure.doubt,
                "unlike_the_paper": "; ".join(line.unlike) or None,
            }
            for line in self.lines
        ]


SHORT: Mapping[str, str] = {
    **{name: f"R@{k}" for k, name in metrics.RECALL.items()},
    **{name: f"set R@{k}" for k, name in metrics.SET_RECALL.items()},
    metrics.DROP_RATE: "drop",
    metrics.INCORRECT_RECALL: "IR@1",
}


def cells(line: Line | None) -> tuple[str, str, str]:
    """Own value, printed value (marked when it is known to be wrong), difference."""
    if line is None:
        return NOTHING, NOTHING, NOTHING
    printed = f"{line.figure.value:.2f}{MISPRINT if line.figure.doubt else ''}"
    if line.own is None or line.difference is None:
        return NOTHING, printed, NOTHING
    return f"{line.own:.2f}{UNLIKE if line.unlike else ''}", printed, f"{line.difference:+.2f}"


def notes(lines: Sequence[Line]) -> tuple[str, ...]:
    """What is wrong with the marked figures, and in what own values are not made as the paper's; one note a
    reason."""
    wrong: dict[str, list[str]] = {}
    unlike: dict[str, list[str]] = {}
    for line in lines:
        figure = line.figure
        if figure.doubt:
            name = SHORT.get(figure.metric, figure.metric)
            wrong.setdefault(figure.doubt, []).append(f"{figure.model} {figure.setting} {name}")
        for why in line.unlike if line.own is not None else ():
            unlike.setdefault(why, []).append(f"{line.checkpoint} {line.variant or figure.setting}")
    return tuple(
        f"{mark} {', '.join(dict.fromkeys(where))}: {why}"
        for mark, places in ((MISPRINT, wrong), (UNLIKE, unlike))
        for why, where in places.items()
    )


def choose_dataset(figures: Sequence[Figure], source: str, dataset: str | None) -> str:
    """The data set whose figures are compared. Raises `InputError` where one must be named, or is unknown."""
    known = list(dict.fromkeys(figure.dataset for figure in figures))
    if known == [ANY_DATASET]:
        if dataset is not None:
            raise InputError(f"--dataset {dataset}: {source} has a single data set; leave the option out")
        return ANY_DATASET
    if dataset is None:
        raise InputError(f"{source} has several data sets; name yours with --dataset: {', '.join(known)}")
    if dataset not in known:
        raise unknown_name("data set", dataset, known)
    return dataset


def model_names(entries: Sequence[Entry], source: str, named: Mapping[str, str]) -> dict[str, str]:
    """Checkpoint -> model of the paper, for those that are one.

    `named` gives a model by its name or a beginning that no other model's name has, in any case. Raises
    `InputError` for an unknown one, and when no checkpoint is a model.
    """
    models = list(dict.fromkeys(figure.model for figure in published_figures(source)))
    specs = {entry.checkpoint: entry.spec for entry in entries}
    for checkpoint in named:
        if checkpoint not in specs:
            raise unknown_name("checkpoint", checkpoint, specs)
    chosen = {checkpoint: model_named(model, models, source) for checkpoint, model in named.items()}
    rules = [row for row in data_rows("models") if row["source"] == source]
    by_name = {model.casefold(): model for model in models}
    found: dict[str, str] = {}
    for checkpoint, spec in specs.items():
        by_spec = (row["model"] for row in rules if re.fullmatch(row["spec"], spec))
        known = chosen.get(checkpoint) or by_name.get(checkpoint.casefold()) or next(by_spec, None)
        if known is not None:
            found[checkpoint] = known
    if not found:
        raise InputError(
            f"none of the checkpoints {', '.join(specs)} is known as a model of {source}; say which it is "
            f"with --as CHECKPOINT=MODEL; its models: {', '.join(models)}"
        )
    return found


def model_named(name: str, models: Sequence[str], source: str) -> str:
    """The model of that name, or the only one whose name begins so, in any case. Raises `InputError`."""
    folded = name.casefold()
    same = [one for one in models if one.casefold() == folded]
    begun = [one for one in models if folded and one.casefold().startswith(folded)]
    if len(same or begun) != 1:
        raise unknown_name(f"model of {source}", name, models)
    return (same or begun)[0]


def lines_of(figure: Figure, source: str, entries: Sequence[Entry]) -> Iterator[Line]:
    """A figure beside each own variant (or group of variants) of its setting; entries of one checkpoint.

    Runs among as many rows as the paper's come first, distractors counted; where there are none, those
    without distractors take their place, and say so.
    """
    size = size_of(source, figure.dataset, figure.direction)
    own = [one for one in entries if one.direction == figure.direction]
    as_large = [one for one in own if searched(one) in size.gallery]
    for chosen in (as_large, [one for one in own if not one.distractors]):
        groups = groups_of(figure, source, chosen)
        for variant, (members, unlike) in groups.items():
            values = [value for one in members if (value := one.values.get(figure.metric)) is not None]
            mean = fmean(values) if len(values) == len(members) else None
            differences = dict.fromkeys(why for one in members for why in size.differences(one))
            yield Line(figure, members[0].checkpoint, variant, mean, (*differences, *unlike))
        if groups:
            return


Group = tuple[list[Entry], tuple[str, ...]]


def groups_of(figure: Figure, source: str, entries: Sequence[Entry]) -> dict[str, Group]:
    """Entries of a figure's setting by the variant's name, and in what they are unlike the paper's."""
    if figure.setting != SOURCES[source].original:
        return own_variants(source, figure.setting, entries)
    originals = [one for one in entries if one.variant is None]
    return {"": (originals, ())} if originals else {}


def without_bare_tables(lines: Sequence[Line], original: str) -> tuple[Line, ...]:
    """The lines without tables of which only the unattacked row is there, if another table has that row."""
    attacked = {line.figure.table for line in lines if line.figure.setting != original}
    seen: set[tuple[str, str]] = {
        (line.checkpoint, line.figure.direction) for line in lines if line.figure.table in attacked
    }
    kept = set(attacked)
    for line in lines:
        place = (line.checkpoint, line.figure.direction)
        if line.figure.table not in kept and place not in seen:
            kept.add(line.figure.table)
            seen.add(place)
    return tuple(line for line in lines if line.figure.table in kept)


NOT_PAPER_MODE = "made in default mode, the paper's is mode=paper"


def own_variants(source: str, setting: str, entries: Sequence[Entry]) -> dict[str, Group]:
    """Own variants of a setting by name; of one that has several members, the groups that have them all."""
    groups: dict[str, Group] = {}
    for row in data_rows("settings"):
        if (row["source"], row["setting"]) != (source, setting):
            continue
        members = row["variant"].split("+")
        found: dict[str, dict[str, Entry]] = {}
        for entry in entries:
            for member in members:
                match = re.fullmatch(f"(?:{member})(:.*)?", entry.variant or "")
                if match:
                    found.setdefault(match.group(1) or "", {})[member] = entry
        for options, by_member in found.items():
            if len(by_member) == len(members):
                is_unlike = row["paper_mode"] and "mode=paper" not in options.split(":")
                unlike = (NOT_PAPER_MODE,) if is_unlike else ()
                name = " + ".join(str(one.variant) for one in by_member.values())
                groups[name] = (list(by_member.values()), unlike)
    return groups
