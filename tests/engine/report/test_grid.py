"""Sections on terminals: tables that fit, and paragraphs where their numbers do not."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from engine.report.grid import Record, Section, print_report

LONG = "open_clip:ViT-B-32:laion2b_s34b_b79k"
NUMBERS = ("44.9", "[+1.23, +4.56]", "0.0123 *")


class OneSection:
    """A report of one table with two names a row."""

    def sections(self) -> Sequence[Section]:
        rows = ((f"i2t {LONG}", f"second {LONG}", *NUMBERS), ("t2i", "b", *NUMBERS))
        return [Section("A title", 2, ("setting", "first", "of 1st", "95%", "p (Holm)"), rows, ("A note.",))]

    def records(self) -> Sequence[Record]:
        return []


def printed(width: int, **options: Any) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False, **options)
    print_report(OneSection(), console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140])
def test_no_line_is_longer_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    lines = printed(width, force_terminal=True)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    for number in NUMBERS:
        assert text.count(number) == 2
    assert any("─" in line for line in lines) == (width >= 60)


def test_where_the_table_does_not_fit_a_row_is_a_paragraph() -> None:
    assert printed(55, force_terminal=True)[-4:] == [
        "t2i; first b",
        "  of 1st 44.9; 95% [+1.23, +4.56]; p (Holm) 0.0123 *",
        "A note.",
        "",
    ]


def test_elsewhere_lines_are_as_long_as_the_words_of_the_table() -> None:
    lines = printed(40)
    assert sum(LONG in line for line in lines) == 1
    assert max(map(len, lines)) > 40
