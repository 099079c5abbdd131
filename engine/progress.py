"""How long work tells how far it is, without knowing who watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Told of units of one piece of work that have just become done."""

    def __call__(self, done: int, passed_over: int = 0) -> None:
        """`done` units more were worked on; `passed_over` more took no work and say nothing of the rate.

        The latter are images that cannot be read, texts that another one of the same words stands for, rows
        that were there before.
        """


class Progress(Protocol):
    """Someone who watches; the command line shows a bar, or lines."""

    def task(self, label: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """A piece of work of `total` units; inside, call what it gives with the number of units just done."""

    def note(self, line: str) -> None:
        """Something worth a line."""


class Silent:
    """Nobody watches."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """Do nothing with the numbers."""
        yield unwatched

    def note(self, line: str) -> None:
        """Say nothing."""


def unwatched(done: int, passed_over: int = 0) -> None:
    """The `Advance` that nobody is told of."""
