"""Consoles for people: progress with rate and remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table

from engine.progress import Advance

WIDTH_ELSEWHERE = 120
NARROW = 60  # below so many columns there is no bar, only numbers
UNBOUNDED = 10_000  # columns enough for any table, to measure how many it needs
SECONDS_A_LINE = 10.0
TENTHS = 10
SHORTEST = 1.0  # seconds of work from which its rate says something


class Meter:
    """How far one piece of work is; `clock` gives seconds."""

    def __init__(self, total: int, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.unit = total, unit
        self.worked = self.passed_over = 0
        self._clock = clock
        self._started = clock()
        self._warm: tuple[float, int] | None = None

    def advance(self, done: int, passed_over: int = 0) -> None:
        """Take note of units; see `engine.progress.Advance`."""
        self.worked += done
        self.passed_over += passed_over
        if self._warm is None and done:  # the first batch warms up and would spoil the rate
            self._warm = (self._clock(), done)

    @property
    def done(self) -> int:
        """Units that are over, worked on or not."""
        return self.worked + self.passed_over

    @property
    def rate(self) -> float:
        """Units worked on a second, since the first ones; 0 within the first `SHORTEST` seconds."""
        if self._warm is None:
            return 0.0
        since, first = self._warm
        seconds = self._clock() - since
        return (self.worked - first) / seconds if seconds >= SHORTEST else 0.0

    def now(self) -> str:
        """``1,200 of 5,000 images, 45 a second, 1 min 24 s left``."""
        counted, rate = f"{self.done:,} of {self.total:,} {self.unit}", self.rate
        if not rate:
            return counted
        left = duration((self.total - self.done) / rate)
        return f"{counted}, {rate:,.{0 if rate >= 10 else 1}f} a second, {left} left"

    def whole(self) -> str:
        """``4,998 images in 110.2 s, 2 more took no work``."""
        rest = f", {self.passed_over:,} more took no work" if self.passed_over else ""
        return f"{self.worked:,} {self.unit} in {self._clock() - self._started:.1f} s{rest}"


class ConsoleProgress:
    """An `engine.progress.Progress` that shows itself on a console (standard error by default)."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._clock = clock

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """Show one piece of work: a bar that goes when it is done, plain lines where there is no terminal."""
        meter = Meter(total, unit, self._clock)
        if self._console.is_terminal:
            with self._bar(label, meter) as advance:
                yield advance
        else:
            yield self._lines(label, meter)
            self.note(f"{label}: {meter.whole()}")

    def note(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def _bar(self, label: str, meter: Meter) -> Iterator[Advance]:
        words = TextColumn("{task.description}: {task.fields[now]}", markup=False)
        columns: list[ProgressColumn] = [words] if self._console.width < NARROW else [BarColumn(20), words]
        with Bars(*columns, console=self._console, transient=True) as bars:
            task = bars.add_task(label, total=meter.total, now=meter.now())

            def advance(done: int, passed_over: int = 0) -> None:
                meter.advance(done, passed_over)
                bars.update(task, completed=meter.done, now=meter.now())

            yield advance

    def _lines(self, label: str, meter: Meter) -> Advance:
        """A line after a tenth of the work, no sooner than `SECONDS_A_LINE` after the last."""
        said = (self._clock(), 0)

        def advance(done: int, passed_over: int = 0) -> None:
            nonlocal said
            meter.advance(done, passed_over)
            tenth = meter.done * TENTHS // max(meter.total, 1)
            now = self._clock()
            if said[1] < tenth < TENTHS and now - said[0] >= SECONDS_A_LINE:
                said = (now, tenth)
                self.note(f"{label}: {meter.now()}")

        return advance


def duration(seconds: float) -> str:
    """Seconds in words for people: ``45 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def table_console() -> Console:
    """Standard output for tables: the terminal's width, or `WIDTH_ELSEWHERE` columns where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_ELSEWHERE)


def print_whole(table: Table) -> None:
    """Print the table as wide as it is: a narrow terminal breaks lines, no cell is cut."""
    console = Console(highlight=False)
    wanted = console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum
    console.width = max(console.width, wanted)
    console.print(table)
