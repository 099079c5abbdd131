"""The tables of `engine.report.table` as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from engine.report.table import DirectionTable

NUMBER, NAME = "text-align: right", "text-align: left"


def as_html(parts: Iterable[RenderableType]) -> str:
    """Tables and lines one below the other, in plain HTML: text is escaped, nothing runs or loads."""
    return "".join(html_of(part) for part in parts)


def html_of(part: RenderableType) -> str:
    """One part."""
    if isinstance(part, DirectionTable):
        heading = f"<p><b>{escape(part.direction)}</b> {escape(part.title)}</p>"
        return heading + table_html(part.table(1, intervals=part.has_intervals))
    text = part.plain if isinstance(part, Text) else str(part)
    return f"<p>{escape(text)}</p>" if text else ""


def table_html(table: Table) -> str:
    """A table of text cells."""
    styles = [NUMBER if column.justify == "right" else NAME for column in table.columns]
    header = "".join(
        f'<th style="{style}">{escape(plain(column.header))}</th>'
        for style, column in zip(styles, table.columns, strict=True)
    )
    rows = zip(*(column.cells for column in table.columns), strict=True)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}">{escape(plain(cell))}</td>' for style, cell in zip(styles, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"


def plain(cell: RenderableType) -> str:
    """The text of a cell."""
    return cell.plain if isinstance(cell, Text) else str(cell)
