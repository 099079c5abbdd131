"""Consoles for people: progress with rate and remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engine.evaluate.progress import Advance

WIDTH_ELSEWHERE = 120


class ConsoleProgress:
    """An `engine.evaluate.progress.Progress` that shows itself on a console (standard error by default)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """Show one piece of work; a plain line when it is done where there is no terminal."""
        if self._console.is_terminal:
            with self._bar(label, total, unit) as advance:
                yield advance
            return
        started = time.monotonic()
        yield lambda done: None
        seconds = time.monotonic() - started
        self.note(f"{label}: {total:,} {unit} in {seconds:.1f} s")

    def note(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False)

    @contextmanager
    def _bar(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}", markup=False),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(label, total=total, unit=unit, rate="")

            def advance(done: int) -> None:
                progress.advance(task, done)
                speed = progress.tasks[0].speed
                progress.update(task, rate=f"{speed:,.0f}/s" if speed else "")

            yield advance


def table_console() -> Console:
    """Standard output for tables: the terminal's width, or `WIDTH_ELSEWHERE` columns where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_ELSEWHERE)
