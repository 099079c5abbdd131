"""Progress: numbers that are true, a bar on a terminal, few plain lines elsewhere; tables are never cut."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from engine.progress import Silent
from engine.report import console as console_module
from engine.report.console import ConsoleProgress, Meter, duration, print_whole


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def written(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_rate_is_of_what_was_worked_on_since_the_first_batch() -> None:
    clock = Clock()
    meter = Meter(100, "images", clock)
    clock.now = 60.0  # the first batch warms up
    meter.advance(10)
    assert meter.now() == "10 of 100 images"
    clock.now = 70.0
    meter.advance(20)
    meter.advance(0, passed_over=30)
    assert meter.rate == 2.0
    assert meter.now() == "60 of 100 images, 2.0 a second, 20 s left"
    assert meter.whole() == "30 images in 70.0 s, 30 more took no work"


def test_what_takes_less_than_a_second_has_no_rate() -> None:
    clock = Clock()
    meter = Meter(100, "images", clock)
    meter.advance(10)
    clock.now = 0.9
    meter.advance(40)
    assert meter.now() == "50 of 100 images"
    clock.now = 1.0
    assert meter.now() == "50 of 100 images, 40 a second, 1 s left"


def test_nothing_worked_on_has_no_rate() -> None:
    clock = Clock()
    meter = Meter(60, "images", clock)
    clock.now = 1e-6
    meter.advance(0, passed_over=60)
    assert meter.now() == "60 of 60 images"


def test_lines_elsewhere_are_few_and_the_last_says_all() -> None:
    clock, console = Clock(), Console(file=StringIO(), width=200)
    with ConsoleProgress(console, clock).task("i2t [bold]mix", 5000, "queries") as advance:
        for _ in range(50):
            clock.now += 4.0
            advance(100)
    lines = written(console).splitlines()
    assert lines[0] == "i2t [bold]mix: 500 of 5,000 queries, 25 a second, 3 min 00 s left"
    assert len(lines) == 10
    assert lines[-1] == "i2t [bold]mix: 5,000 queries in 200.0 s"


def test_quick_work_is_one_line_elsewhere() -> None:
    console = Console(file=StringIO(), width=200)
    with ConsoleProgress(console).task("i2t", 50, "queries") as advance:
        for _ in range(50):
            advance(1)
    assert written(console).startswith("i2t: 50 queries in 0.")
    assert written(console).count("\n") == 1


def test_work_that_fails_is_not_said_to_be_done() -> None:
    console = Console(file=StringIO(), width=200)
    with pytest.raises(KeyError), ConsoleProgress(console).task("i2t", 50, "queries"):
        raise KeyError
    assert written(console) == ""


@pytest.mark.parametrize("width", [20, 40, 100])
def test_on_a_terminal_there_is_a_bar_with_numbers(width: int) -> None:
    console = Console(file=StringIO(), width=width, force_terminal=True)
    with ConsoleProgress(console).task("i2t [b]", 50, "queries") as advance:
        advance(20)
        advance(10, passed_over=20)
    text = written(console)
    assert "i2t [b]: 50 of 50" in text
    assert ("━" in text) == (width == 100)


def test_silent_progress_takes_the_same_calls() -> None:
    with Silent().task("i2t", 2, "queries") as advance:
        advance(1, passed_over=1)
    Silent().note("nothing")


@pytest.mark.parametrize(
    ("seconds", "words"), [(44.6, "45 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (59.6, "1 min 00 s")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_table_is_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=StringIO(), width=10)
    monkeypatch.setattr(console_module, "Console", lambda **options: console)
    table = Table("a column", "another column", box=None)
    table.add_row("a" * 20, "12345678901234567890")
    print_whole(table)
    assert f"{'a' * 20}" in written(console)
    assert "12345678901234567890" in written(console)
