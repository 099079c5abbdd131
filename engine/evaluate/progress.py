"""The progress of a sweep's embedding, as tasks in turn."""

from __future__ import annotations

from contextlib import ExitStack

from engine.progress import Advance, Progress, Silent

__all__ = ["Advance", "Progress", "Silent", "TasksInTurn"]


class TasksInTurn:
    """Called as `engine.store.embed.Progress` is; shows one task after the other. A context manager."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name
        self._task = ExitStack()
        self._what: str | None = None
        self._done = 0

    def __enter__(self) -> TasksInTurn:
        return self

    def __exit__(self, *error: object) -> None:
        self._task.close()

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` items are encoded; another `what` begins another task."""
        if what != self._what:
            self._task.close()
            self._advance = self._task.enter_context(self._progress.task(self._name, total, what))
            self._what, self._done = what, 0
        self._advance(done - self._done)
        self._done = done
