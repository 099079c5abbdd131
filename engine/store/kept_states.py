"""What a scorer keeps of images and texts between pairs: in memory up to a limit, then on the disk."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.encoders.scorer import State
from engine.store.raw import Region
from engine.store.scratch import Scratch

STATES_IN_MEMORY = 4 << 30  # bytes, where no limit is given


class KeptStates:
    """States by key; a context manager.

    The first `limit` bytes of them stay in memory. The rest goes to a file in `folder` that has no name, so
    that nothing is left behind however the process ends. `put` raises `InputError` when there is no room.
    """

    def __init__(self, limit: int, folder: Path) -> None:
        self._left, self._folder = limit, folder
        self._held: dict[Hashable, State] = {}
        self._placed: dict[Hashable, Region] = {}
        self._scratch: Scratch | None = None

    def __enter__(self) -> KeptStates:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held or key in self._placed

    def put(self, states: Mapping[Any, State]) -> None:
        """Keep states; those of known keys are left as they are."""
        for key, state in states.items():
            if key in self:
                continue
            if state.nbytes <= self._left:
                self._left -= state.nbytes
                self._held[key] = state
            else:
                self._placed[key] = self._write(state)

    def get(self, key: Hashable) -> State:
        """The state of a key. Raises KeyError."""
        if key in self._held:
            return self._held[key]
        assert self._scratch is not None
        return self._scratch.read(self._placed[key])

    def _write(self, state: State) -> Region:
        if self._scratch is None:
            self._scratch = Scratch(self._folder, "states of images and texts", "raise --memory-limit")
        return self._scratch.add(state)
