"""The distractors of an evaluation: which set, how many rows, and the one search that serves all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.gallery import Queries
from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.joined import Crowd
from engine.evaluate.results import GALLERY_MODALITY, Direction, SetRecord
from engine.progress import Advance
from engine.store.distractors import DistractorSet, find_set, open_set
from indexes.memory import MemoryLimit
from indexes.prefixes import search_prefixes
from indexes.protocol import Shard
from indexes.streaming import DEFAULT_PLAN, open_streamed

QUERY_BYTES = 40  # running counts and leaders of a query, at every size


@dataclass(frozen=True)
class DistractorChoice:
    """What was asked for: sizes, ascending (0: none), and a set's name (None: the only one there is)."""

    sizes: Sequence[int] = (0,)
    name: str | None = None

    @property
    def positive(self) -> tuple[int, ...]:
        """The sizes above 0."""
        return tuple(size for size in self.sizes if size > 0)


NO_DISTRACTORS = DistractorChoice()


@dataclass(frozen=True)
class Distractors:
    """An open set of distractors, and the sizes at which metrics are wanted (ascending, above 0)."""

    found: DistractorSet
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """The set's name."""
        return self.found.header.name

    def record(self) -> SetRecord:
        """What results say of the set."""
        header = self.found.header
        return SetRecord(
            modality=header.modality,
            name=f"distractors {header.name}",
            rows=header.rows,
            skipped=0,
            content_key=self.found.content_key,
        )

    def key(self, rows: int) -> str:
        """What a run with so many of them depends on."""
        return f"{self.found.content_key}, first {rows}"

    def search(
        self,
        queries: Queries,
        thresholds: NDArray[np.float32],
        backend: str,
        limit: MemoryLimit | None,
        advance: Advance,
    ) -> dict[int, Crowd]:
        """The crowd at every size, from one pass over the largest; `advance` is told rows.

        `thresholds` float32 [queries] are the best positives' scores, `backend` is whose first pass is used.
        Raises `InputError` or `SearchInputError` when the file is damaged or the memory limit too small.
        """
        header = self.found.header
        shard = Shard(f"distractors {header.label}", "distractor", self.found.rows)
        held = len(queries) * (4 * header.dim + QUERY_BYTES * (1 + len(self.sizes)))
        plan = DEFAULT_PLAN if limit is None else limit.plan(shard.name, header.dim, held)
        vectors = queries.read(0, len(queries))
        found = search_prefixes(open_streamed(shard, plan, backend), vectors, thresholds, self.sizes, advance)
        return {prefix.rows: Crowd.of(prefix) for prefix in found}


@contextmanager
def open_distractors(
    searched: Mapping[Direction, AnySets], choice: DistractorChoice
) -> Iterator[dict[Direction, Distractors]]:
    """The sets that the directions need, open; none where no distractors are asked for.

    `searched` are the sets of each direction: distractors lie beside the store that holds its gallery, be it
    that of an index. Raises `InputError` for a set that is not there, not complete, of another checkpoint,
    or smaller than the largest size.
    """
    opened: dict[Direction, Distractors] = {}
    try:
        for direction, sets in searched.items() if choice.positive else ():
            store = sets.gallery if isinstance(sets, IndexedSets) else sets
            found = open_set(find_set(store.path, GALLERY_MODALITY[direction], choice.name))
            opened[direction] = Distractors(found, choice.positive)
            found.check_name()
            found.check_complete()
            found.check_checkpoint(store.header, store.path)
            check_size(found, choice.positive[-1])
        yield opened
    finally:
        for one in opened.values():
            one.found.close()


def check_size(found: DistractorSet, size: int) -> None:
    """Raise `InputError` for a size that the set does not have."""
    if size > found.header.rows:
        raise InputError(
            f"--distractors {size:,}: {found.header.label} has {found.header.rows:,} rows; "
            "ask for fewer, or make a larger set"
        )
