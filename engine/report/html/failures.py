"""The worst queries of every run: who asked, what was right, what came first instead, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import InputError
from engine.evaluate.attribution import lost_queries
from engine.evaluate.changes import replacements
from engine.evaluate.collection import FoundRun
from engine.evaluate.indexed import AnySets
from engine.evaluate.results import GALLERY_MODALITY, QUERY_MODALITY, Direction, Run
from engine.evaluate.sample import Values
from engine.report.html.sources import NAME_STORE, NO_STORE, Sources
from engine.store.reader import EmbeddingSet
from engine.store.schema import ORIGINAL
from engine.variants.concepts import default_concepts
from engine.variants.variant import Modality

Words = tuple[tuple[str, str], ...]  # (replaced word, target)
ImageKey = tuple[str, str]  # (set, id): original or a variant's name, and the item's id
OWN, OTHER, DISTRACTOR, GENUINE = "own", "other", "distractor", "genuine"


@dataclass(frozen=True)
class Item:
    """A caption (`text`) or an image (`image`); both None where only its `id` is known."""

    id: str
    text: str | None = None
    image: ImageKey | None = None


@dataclass(frozen=True)
class Failure:
    """One query that a variant wins: `winner` scores `margin` above `truth`, the best right item.

    The margin is None where a reranker scored no right item.
    `asked` is what the query was, `original` its unperturbed form where that differs. `rank` and `base_rank`
    are of the truth with and without the variant. `kind` says what the winner is: a fake made from the
    query's own image or from another, an original, or a distractor. `words` are the (replaced, target) pairs
    that are recorded of the change.
    """

    checkpoint: str
    variant: str
    direction: Direction
    distractors: int
    place: int
    margin: float | None
    rank: float
    base_rank: float
    kind: str
    asked: Item
    original: Item | None
    truth: Item
    winner: Item
    words: Words

    @property
    def images(self) -> tuple[ImageKey, ...]:
        """What its card shows."""
        items = (self.asked, self.truth, self.winner, self.original)
        return tuple(one.image for one in items if one is not None and one.image is not None)


@dataclass(frozen=True)
class Failures:
    """The worst queries of all runs whose outcomes were read.

    `lost` counts all lost queries of the `runs` that were read; `missing` says what could not be shown.
    """

    shown: tuple[Failure, ...]
    runs: int
    lost: int
    missing: tuple[str, ...]


class Texts:
    """The items of a store by id, read when first asked for."""

    def __init__(self, store: AnySets) -> None:
        self.store = store
        self._sets: dict[tuple[Modality, str], tuple[EmbeddingSet, dict[str, int]]] = {}

    def find(self, modality: Modality, name: str) -> tuple[EmbeddingSet, dict[str, int]]:
        """A set and the rows of its ids; only the originals and the variant in use are kept."""
        key = modality, name
        if key not in self._sets:
            loaded = self.store.load(modality, name, complete=False)
            self._sets = {kept: one for kept, one in self._sets.items() if kept[1] == ORIGINAL}
            self._sets[key] = loaded, {one: row for row, one in enumerate(loaded.ids)}
        return self._sets[key]

    def item(self, modality: Modality, name: str, id: str) -> Item:
        """An item of a set. Raises `InputError` when the set does not hold it."""
        loaded, rows = self.find(modality, name)
        if id not in rows:
            raise InputError(f"{self.store.path}: {modality}/{name} holds no {id!r}, which the outcomes name")
        if modality == "images":
            return Item(id, image=(name, id))
        return Item(id, text=loaded.content[rows[id]])

    def made_from(self, modality: Modality, name: str, original: int) -> str:
        """The id of the item that was made from a row of the originals. Raises `InputError` for none."""
        loaded, _ = self.find(modality, name)
        rows = np.flatnonzero(loaded.source == original)
        if not len(rows):
            raise InputError(
                f"{self.store.path}: {modality}/{name} holds nothing of row {original}, which was asked"
            )
        return loaded.ids[int(rows[0])]

    def words(self, modality: Modality, name: str, id: str) -> Words:
        """The replacements recorded of an item of a variant of captions."""
        loaded, rows = self.find(modality, name)
        if modality == "images" or loaded.change is None:
            return ()
        found = replacements(loaded.change[rows[id]], default_concepts())
        return tuple((one.word, one.target) for one in found if one.word and one.target)


@dataclass(frozen=True)
class RunFailures:
    """The queries that one run loses, worst first."""

    found: FoundRun
    table: pa.Table

    @cached_property
    def lost(self) -> list[int]:
        """Rows of the table: by margin, the widest first, then in their order.

        A query counts as lost as it does for attributions, when something wrong is listed first.
        """
        lost = lost_queries(self.table, self.found.run) >= 0.5
        images, tops = (self.table[name].to_pylist() for name in ("query_image_id", "top_image_id"))
        origins = self.table["top_origin"].to_pylist()
        wrong = [
            origin == "adversarial" or top != image
            for origin, top, image in zip(origins, tops, images, strict=True)
        ]
        rows = np.flatnonzero(lost & np.array(wrong, dtype=np.bool_))
        order: list[int] = rows[np.argsort(-self.margins[rows], kind="stable")].tolist()
        return order

    @cached_property
    def margins(self) -> Values:
        """float64 [queries]: how far the first row listed scores above the best positive."""
        top, positive = (
            self.table[name].to_numpy().astype(np.float64) for name in ("top_score", "positive_score")
        )
        margins: Values = top - positive
        return margins

    def describe(self, worst: int, texts: Texts) -> list[Failure]:
        """The `worst` of them. Raises `InputError` when the store does not hold what the outcomes name."""
        rows = self.lost[:worst]
        taken = self.table.take(pa.array(rows, type=pa.int64())).to_pylist()
        return [
            describe(self.found, place, finite(self.margins[row]), one, texts)
            for place, (row, one) in enumerate(zip(rows, taken, strict=True))
        ]


def finite(margin: float) -> float | None:
    """A margin, or None where a reranker scored no right item at all."""
    return float(margin) if np.isfinite(margin) else None


def describe(
    found: FoundRun, place: int, margin: float | None, row: Mapping[str, Any], texts: Texts
) -> Failure:
    """A failure from its row of the outcomes."""
    run = found.run
    assert run.variant is not None
    query = asked_of(run, row, texts)
    answer = winner_of(run, row, texts)
    return Failure(
        checkpoint=found.checkpoint,
        variant=run.variant,
        direction=run.direction,
        distractors=run.distractors,
        place=place,
        margin=margin,
        rank=float(row["rank"]),
        base_rank=float(row["base_rank"]),
        kind=answer.kind,
        asked=query.item,
        original=query.original,
        truth=texts.item(GALLERY_MODALITY[run.direction], ORIGINAL, row["positive_id"]),
        winner=answer.item,
        words=query.words or answer.words,
    )


@dataclass(frozen=True)
class Asked:
    """The query, its unperturbed form where that differs, and the replacements in it."""

    item: Item
    original: Item | None = None
    words: Words = ()


def asked_of(run: Run, row: Mapping[str, Any], texts: Texts) -> Asked:
    """Who asked, in a row of the outcomes. Raises `InputError` when the store does not hold it."""
    modality = QUERY_MODALITY[run.direction]
    original = texts.item(modality, ORIGINAL, row["query_id"])
    if run.side == "gallery":
        return Asked(original)
    assert run.variant is not None
    item = texts.made_from(modality, run.variant, row["query_row"])
    return Asked(texts.item(modality, run.variant, item), original, texts.words(modality, run.variant, item))


@dataclass(frozen=True)
class Winner:
    """What came first, what kind of item it is, and the replacements that made it."""

    item: Item
    kind: str
    words: Words = ()


def winner_of(run: Run, row: Mapping[str, Any], texts: Texts) -> Winner:
    """What came first, in a row of the outcomes. Raises `InputError` when the store does not hold it."""
    modality, top = GALLERY_MODALITY[run.direction], row["top_id"]
    if row["top_origin"] == "distractor":
        return Winner(Item(top), DISTRACTOR)
    if row["top_origin"] == "original":
        return Winner(texts.item(modality, ORIGINAL, top), GENUINE)
    assert run.variant is not None
    item = texts.item(modality, run.variant, top)
    return Winner(item, OWN if row["top_is_own_fake"] else OTHER, texts.words(modality, run.variant, top))


def find_failures(found: Sequence[FoundRun], sources: Sources, worst: int) -> Failures:
    """The `worst` queries of every run with a variant; what cannot be read is named as missing."""
    shown: list[Failure] = []
    runs = lost = 0
    texts: Texts | None = None
    missing: list[str] = []
    for one in found:
        if one.run.variant is None:
            continue
        try:
            failures = RunFailures(one, one.table())
        except InputError as error:
            missing.append(f"{one.label}: {error}")
            continue
        runs, lost = runs + 1, lost + len(failures.lost)
        store = sources.store_of(one)
        if store is None:
            if sources.stores:  # that there is none is said once
                missing.append(f"{one.label}: {NO_STORE}; {NAME_STORE}")
            continue
        if (
            texts is None or texts.store is not store
        ):  # one store at a time, so that their texts do not add up
            texts = Texts(store)
        try:
            shown += failures.describe(worst, texts)
        except InputError as error:
            missing.append(f"{one.label}: {error}")
    return Failures(tuple(shown), runs, lost, tuple(missing))
