"""A report as text and as data: sections for people, records for programs, and the formats of both."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engine.errors import InputError, unknown_name

Scalar = str | int | float | bool | None
Record = Mapping[str, Scalar]

ASSUMED_WIDTH: Final = 1000  # wider than any table: a file has no edge to break lines at
NAME_WIDTH: Final = 12  # to which names may be folded
DEFAULT_FORMAT = "table"
INDENT: Final = 2  # columns


@dataclass(frozen=True)
class Section:
    """A titled table of text: the first `labels` columns are names, the others numbers; `notes` lie below.

    With several names a rule is drawn before a row whose first cell differs from that of the row above.
    """

    title: str
    labels: int
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def begins_group(self, row: int) -> bool:
        """Whether a rule belongs before the row."""
        return row > 0 and self.labels > 1 and self.rows[row - 1][0] != self.rows[row][0]


class Report(Protocol):
    """Anything that can be written in the formats of `FORMATS`."""

    def sections(self) -> Sequence[Section]:
        """For people."""

    def records(self) -> Sequence[Record]:
        """For programs: one record a row, all with the same keys, numbers as they are."""


def as_renderable(report: Report) -> RenderableType:
    """The sections for a console."""
    return Group(*(part for section in report.sections() for part in section_parts(section)))


def section_parts(section: Section) -> tuple[RenderableType, ...]:
    """Title, table, notes and a blank line; a name is not repeated below itself."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, header in enumerate(section.headers):
        widest = max(len(row[number]) for row in (section.headers, *section.rows))
        if number < section.labels:
            table.add_column(Text(header), overflow="fold", min_width=min(NAME_WIDTH, widest))
        else:
            table.add_column(Text(header), justify="right", no_wrap=True, min_width=widest)
    last = len(section.rows) - 1
    for number, row in enumerate(section.rows):
        repeats = number > 0 and section.labels > 1 and not section.begins_group(number)
        ends = number < last and section.begins_group(number + 1)
        table.add_row(*(Text(cell) for cell in (("" if repeats else row[0]), *row[1:])), end_section=ends)
    notes = [Text(note, style="dim") for note in section.notes]
    return Text(section.title, style="bold"), table, *notes, Text()


def print_report(report: Report, console: Console) -> None:
    """Print the sections.

    On a terminal names are folded to fit, and a section whose numbers do not fit has a paragraph a row;
    elsewhere lines are longer.
    """
    sections = report.sections()
    if console.is_terminal:
        for section in sections:
            fits = least_width(with_short_names(section), console) <= console.width
            for part in section_parts(section) if fits else stacked_parts(section):
                console.print(part)
        return
    console.width = max([console.width, *(least_width(section, console) for section in sections)])
    for section in sections:
        for part in section_parts(section):
            console.print(part)


def least_width(section: Section, console: Console) -> int:
    """Columns that the section's table needs with no name folded within a word."""
    unlimited = console.options.update(width=ASSUMED_WIDTH)
    return max(
        console.measure(part, options=unlimited).minimum
        for part in section_parts(section)
        if isinstance(part, Table)
    )


def with_short_names(section: Section) -> Section:
    """The section with its names cut to the width to which they may be folded, to measure it."""

    def short(row: tuple[str, ...]) -> tuple[str, ...]:
        return (*(name[:NAME_WIDTH] for name in row[: section.labels]), *row[section.labels :])

    return replace(section, headers=short(section.headers), rows=tuple(map(short, section.rows)))


def stacked_parts(section: Section) -> tuple[RenderableType, ...]:
    """The same without a table: the names of a row on a line, its numbers, named, on the next."""
    lines: list[RenderableType] = []
    for row in section.rows:
        named = [f"{header} {cell}".strip() for header, cell in zip(section.headers, row, strict=True)]
        lines.append(Text("; ".join((row[0], *named[1 : section.labels]))))
        lines.append(Padding(Text("; ".join(named[section.labels :])), (0, 0, 0, INDENT)))
    notes = [Text(note, style="dim") for note in section.notes]
    return Text(section.title, style="bold"), *lines, *notes, Text()


def to_table(report: Report) -> bytes:
    """Plain text, no line broken."""
    console = Console(file=io.StringIO(), width=ASSUMED_WIDTH, color_system=None)
    console.print(as_renderable(report))
    assert isinstance(console.file, io.StringIO)
    lines = (line.rstrip() for line in console.file.getvalue().splitlines())
    return "\n".join([*lines, ""]).encode()


def to_markdown(report: Report) -> bytes:
    """GitHub's tables, a heading a section."""
    lines: list[str] = []
    for section in report.sections():
        rule = ["---"] * section.labels + ["---:"] * (len(section.headers) - section.labels)
        lines += [f"### {markdown_text(section.title)}", ""]
        rows = [[markdown_text(cell) for cell in row] for row in (section.headers, *section.rows)]
        lines += [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
        lines += ["", *(f"{markdown_text(note)}\n" for note in section.notes)]
    return "\n".join(lines).encode()


def markdown_text(text: str) -> str:
    """The text as it is: nothing in it is markup, HTML or a cell's end."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]|~" else c for c in " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "[": "{[}",
    "]": "{]}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "±": "$\\pm$",
    "∞": "$\\infty$",
    "†": "$\\dagger$",
}


def to_latex(report: Report) -> bytes:
    """One table a section, with the rules of the package booktabs."""
    lines = ["% needs \\usepackage{booktabs}"]
    for section in report.sections():
        spec = "l" * section.labels + "r" * (len(section.headers) - section.labels)
        rows = [" & ".join(latex_text(cell) for cell in row) + " \\\\" for row in section.rows]
        lines += [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{latex_text(section.title)}}}",
            f"\\begin{{tabular}}{{{spec}}}",
            "\\toprule",
            " & ".join(latex_text(header) for header in section.headers) + " \\\\",
            "\\midrule",
            *with_rules(section, rows),
            "\\bottomrule",
            "\\end{tabular}",
            *(f"\\par\\footnotesize {latex_text(note)}" for note in section.notes),
            "\\end{table}",
            "",
        ]
    return "\n".join(lines).encode()


def with_rules(section: Section, rows: Sequence[str]) -> list[str]:
    """The rows with a rule wherever the first cell changes."""
    lines: list[str] = []
    for number, row in enumerate(rows):
        if section.begins_group(number):
            lines.append("\\midrule")
        lines.append(row)
    return lines


def latex_text(text: str) -> str:
    """The text as it is, no command in it."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def to_csv(report: Report) -> bytes:
    """The records with a header line; nothing stands for a missing value."""
    records = report.records()
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, fieldnames=list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue().encode()


def to_json(report: Report) -> bytes:
    """The records as a list of objects."""
    text = json.dumps(list(map(dict, report.records())), indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def to_parquet(report: Report) -> bytes:
    """The records, null for a missing value; a column without any value is of float64."""
    records = report.records()
    columns = {
        name: pa.array([record[name] for record in records]) for name in (records[0] if records else ())
    }
    table = pa.table(
        {
            name: column.cast(pa.float64()) if pa.types.is_null(column.type) else column
            for name, column in columns.items()
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


@dataclass(frozen=True)
class Format:
    """A way to write a report: the ending of its files, and whether a terminal can show it."""

    ending: str
    write: Callable[[Report], bytes]
    is_text: bool = True


FORMATS: Mapping[str, Format] = {
    "table": Format(".txt", to_table),
    "markdown": Format(".md", to_markdown),
    "csv": Format(".csv", to_csv),
    "json": Format(".json", to_json),
    "latex": Format(".tex", to_latex),
    "parquet": Format(".parquet", to_parquet, is_text=False),
}


def choose_format(name: str | None, out: Path | None) -> str:
    """The named format, or that of the file's ending, or the table.

    Raises `InputError` for an unknown name or ending, and for a format that no terminal can show.
    """
    if name is None and out is not None:
        endings = {one.ending: key for key, one in FORMATS.items()}
        if out.suffix not in endings:
            raise InputError(
                f"--out {out}: no format has the ending {out.suffix!r}; "
                f"name one with --format: {', '.join(FORMATS)}"
            )
        name = endings[out.suffix]
    name = name or DEFAULT_FORMAT
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    if out is None and not FORMATS[name].is_text:
        raise InputError(f"--format {name}: is not text; name a file with --out FILE{FORMATS[name].ending}")
    return name
