"""How long work tells how far it is, without knowing who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Someone who watches; the command line shows a bar."""

    def task(self, label: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """A piece of work of `total` units; inside, call what it gives with the number of units just done."""

    def note(self, line: str) -> None:
        """Something worth a line."""


class Silent:
    """Nobody watches."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """Do nothing with the numbers."""
        yield lambda done: None

    def note(self, line: str) -> None:
        """Say nothing."""
