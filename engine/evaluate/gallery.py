"""Sets of a store as queries and as gallery shards: which rows take part, and which belong together.

Relevance has one form in both directions: every item carries the row of the image it shows, describes or was
made from. The positives of a query are the original items of the gallery that carry its image; its own fakes
are the adversarial items that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.indexed import AnySets
from engine.store.reader import image_rows
from engine.store.schema import COMPLETE, ORIGINAL
from engine.variants.variant import Modality
from indexes.protocol import Origin, RowSource, Shard

GATHER_ROWS = 8192  # rows of a source read at once while scattered rows are collected


@dataclass(frozen=True)
class SelectedRows:
    """Some rows of another source: row i is row ``kept[i]`` of `source` (int64 [n], ascending)."""

    source: RowSource
    kept: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""
        return len(self.kept), self.source.shape[1]

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows [start, stop), float32 [stop - start, dim]."""
        return gather(self.source, self.kept[start:stop])


def gather(source: RowSource, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The given rows in the given order, repeats allowed: float32 [n, dim].

    The source is read in ascending blocks of `GATHER_ROWS`, each at most once.
    """
    result = np.empty((len(rows), source.shape[1]), dtype=np.float32)
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    edges = np.flatnonzero(np.diff(ascending // GATHER_ROWS)) + 1
    for part in np.split(np.arange(len(rows)), edges):
        if len(part):
            first, last = int(ascending[part[0]]), int(ascending[part[-1]])
            result[order[part]] = source.read(first, last + 1)[ascending[part] - first]
    return result


@dataclass(frozen=True)
class Items:
    """The rows of one set that take part, skipped ones left out; arrays and `ids` have one entry an item.

    `row` int64: the row in the store's set. `source` int64: the row of the original. `image` int64: the row
    of the image that it shows, describes or was made from. `changed` bool: differs from its original (None
    for originals). `skipped` counts the rows left out.
    """

    modality: Modality
    name: str
    ids: Sequence[str]
    row: NDArray[np.int64]
    source: NDArray[np.int64]
    image: NDArray[np.int64]
    changed: NDArray[np.bool_] | None
    skipped: int
    rows: RowSource

    def __len__(self) -> int:
        return len(self.row)

    def shard(self, origin: Origin) -> Shard:
        """The items as a gallery shard. Raises `InputError` when there is none."""
        if not len(self):
            raise InputError(f"the set {self.modality}/{self.name} has no row to search: all were skipped")
        return Shard(f"{self.modality}/{self.name}", origin, self.rows)


def load_items(store: AnySets, modality: Modality, name: str = ORIGINAL) -> Items:
    """A set's items. Raises `InputError` when the set is missing or not yet complete."""
    stored = store.load(modality, name)
    row = np.flatnonzero(stored.state == COMPLETE)
    everything = len(row) == len(stored.state)
    return Items(
        modality=modality,
        name=name,
        ids=stored.ids if everything else [stored.ids[i] for i in row.tolist()],
        row=row,
        source=stored.source[row],
        image=image_rows(store, stored)[row],
        changed=None if stored.changed is None else stored.changed[row].astype(np.bool_),
        skipped=len(stored.state) - len(row),
        rows=stored.rows if everything else SelectedRows(stored.rows, row),
    )


@dataclass(frozen=True)
class Relation:
    """For every query the gallery rows that carry its image: ``order[start[q]:stop[q]]``; int64 arrays."""

    order: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @classmethod
    def by_image(cls, query_images: NDArray[np.int64], gallery_images: NDArray[np.int64]) -> Relation:
        """Relate queries and gallery rows that carry the same image row."""
        order = np.argsort(gallery_images, kind="stable")
        ascending = gallery_images[order]
        return cls(
            order,
            np.searchsorted(ascending, query_images, "left"),
            np.searchsorted(ascending, query_images, "right"),
        )

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 [queries]: how many gallery rows each has."""
        return self.stop - self.start

    def pairs(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of queries [first, last): (query counted from `first`, gallery row), int64 [pairs]."""
        counts = self.counts[first:last]
        queries = np.repeat(np.arange(last - first), counts)
        offsets = np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
        return queries, self.order[np.repeat(self.start[first:last], counts) + offsets]


@dataclass(frozen=True)
class Queries:
    """The items of a set that have a positive; `row` int64 [queries] are item numbers in `items`.

    `without_positive` counts the items left out because no original of the gallery carries their image.
    """

    items: Items
    number: NDArray[np.int64]
    without_positive: int

    @classmethod
    def with_positives(cls, items: Items, gallery: Items) -> Queries:
        """The items whose image an item of the gallery carries. Raises `InputError` when there is none."""
        has_positive = np.isin(items.image, gallery.image)
        if not has_positive.any():
            raise InputError(
                f"no item of {items.modality}/{items.name} has a positive in "
                f"{gallery.modality}/{gallery.name}; are captions and images of the same corpus?"
            )
        return cls(items, np.flatnonzero(has_positive), int(np.sum(~has_positive)))

    def __len__(self) -> int:
        return len(self.number)

    @property
    def image(self) -> NDArray[np.int64]:
        """int64 [queries]: the image row of each."""
        return self.items.image[self.number]

    @property
    def source(self) -> NDArray[np.int64]:
        """int64 [queries]: the row of the original of each (its own row for an original)."""
        return self.items.source[self.number]

    def blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """[start, stop) of the queries, at most `size` at once."""
        return ((start, min(start + size, len(self))) for start in range(0, len(self), size))

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Embeddings of queries [start, stop): float32 [stop - start, dim]."""
        return gather(self.items.rows, self.number[start:stop])
