"""Where the time of a run goes: seconds by stage, and the rest that no stage covers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

UNTRACKED = "untracked"
TOTAL = "total"


class Stopwatch:
    """Adds up wall seconds by stage from its creation on; stages do not nest. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._started = clock()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block as part of the stage `name`."""
        started = self._clock()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + self._clock() - started

    def timings(self) -> dict[str, float]:
        """Seconds by stage in order of first use, then what no stage covers, then the total."""
        total = self._clock() - self._started
        return {**self._seconds, UNTRACKED: total - sum(self._seconds.values()), TOTAL: total}


def add_timings(timings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds by stage over several runs; what no stage covers, and the total, come last."""
    sums: dict[str, float] = {}
    for one in timings:
        for stage, seconds in one.items():
            sums[stage] = sums.get(stage, 0.0) + seconds
    last = {name: sums.pop(name, 0.0) for name in (UNTRACKED, TOTAL)}
    return {**sums, **last}
