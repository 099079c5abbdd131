"""Galleries: an ordered list of shards searched as one, and the swap of one shard beside answers that
stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.protocol import Counts, Origin, SearchBackend, Shard, TopK

ORDER: tuple[Origin, ...] = ("original", "adversarial", "distractor")


@dataclass(frozen=True)
class Gallery:
    """One shard of originals, then at most one of adversarial rows, then any number of distractors.

    The number of a row in the gallery is its shard's offset + its row in the shard. Raises
    `SearchInputError` when the shards are in another order, differ in dimension, or share a name.
    """

    shards: tuple[Shard, ...]

    def __post_init__(self) -> None:
        origins = [shard.origin for shard in self.shards]
        if origins.count("original") != 1 or origins.count("adversarial") > 1:
            raise SearchInputError(
                f"gallery of {', '.join(origins) or 'no shards'}: "
                "expected one shard of originals and at most one of adversarial rows"
            )
        if origins != sorted(origins, key=ORDER.index):
            found = ", ".join(origins)
            raise SearchInputError(f"gallery in the order {found}: expected {', '.join(ORDER)}")
        for shard in self.shards:
            if shard.dim != self.dim:
                raise SearchInputError(
                    f"shard {shard.name!r} has dimension {shard.dim}, expected {self.dim} as in "
                    f"{self.shards[0].name!r}; all shards of a gallery come from one encoder"
                )
        names = [shard.name for shard in self.shards]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise SearchInputError(f"gallery has two shards named {repeated!r}; give each its own name")

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.shards[0].dim

    @property
    def rows(self) -> int:
        """How many rows all shards have together."""
        return sum(shard.rows for shard in self.shards)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """For each shard, the number of its first row in the gallery."""
        ends = np.cumsum([shard.rows for shard in self.shards])
        return (0, *ends[:-1].tolist())

    def shard_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, shaped like `rows`: the place in `shards` of the shard that holds each gallery row."""
        if rows.size and not (rows.min() >= 0 and rows.max() < self.rows):
            raise SearchInputError(
                f"gallery rows {rows.min()} to {rows.max()}, expected 0 to {self.rows - 1}"
            )
        return np.asarray(np.searchsorted(self.offsets, rows, side="right") - 1, np.int64)

    def origin_of(self, rows: NDArray[np.int64]) -> NDArray[np.str_]:
        """Strings, shaped like `rows`: "original", "adversarial" or "distractor" for each gallery row."""
        return np.array([shard.origin for shard in self.shards])[self.shard_of(rows)]


def merge_topk(parts: Sequence[tuple[int, TopK]], k: int) -> TopK:
    """The k best of several shards, exactly: parts are (offset of the shard in the gallery, its answer).

    Every answer must be for the same queries and hold the shard's k best (all its rows when it has fewer).
    The result has gallery rows and min(k, columns of all parts) columns. Raises `SearchInputError` for no
    parts, k < 1, other query counts, or offsets that do not ascend.
    """
    if not parts or k < 1:
        raise SearchInputError(
            f"merge of {len(parts)} answers with k = {k}: expected one answer or more, k >= 1"
        )
    offsets = [offset for offset, _ in parts]
    if offsets != sorted(set(offsets)):
        raise SearchInputError(
            f"merge with offsets {offsets}: expected them to ascend, as in Gallery.offsets"
        )
    if len({len(answer.scores) for _, answer in parts}) > 1:
        sizes = [len(answer.scores) for _, answer in parts]
        raise SearchInputError(f"merge of answers for {sizes} queries: expected the same queries in all")
    scores = np.concatenate([answer.scores for _, answer in parts], axis=1)
    rows = np.concatenate([answer.rows + offset for offset, answer in parts], axis=1)
    # within and across parts, equal scores stand in order of their rows: a stable sort keeps them so
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return TopK(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


@dataclass(frozen=True)
class Answers:
    """What a search found for some queries: the best rows, and the counts at the queries' thresholds."""

    topk: TopK
    counts: Counts


def search_shard(
    backend: SearchBackend, queries: NDArray[Any], k: int, thresholds: NDArray[np.float32]
) -> Answers:
    """Both answers of one shard."""
    return Answers(backend.topk(queries, k), backend.counts(queries, thresholds))


@dataclass(frozen=True)
class SwapSearch:
    """Answers of the shards that stay, for fixed queries, thresholds and k; a variant's shard is put beside
    them.

    `base` is the shard of originals, `distractors` those after the variant. A swap searches the variant's
    shard alone.
    """

    base: Shard
    distractors: tuple[Shard, ...]
    queries: NDArray[Any]
    thresholds: NDArray[np.float32]
    k: int
    answers: tuple[Answers, ...]

    @classmethod
    def start(
        cls,
        base: SearchBackend,
        queries: NDArray[Any],
        thresholds: NDArray[np.float32],
        k: int,
        distractors: Sequence[SearchBackend] = (),
    ) -> SwapSearch:
        """Search what stays, once. Thresholds are exact scores (`indexes.exact.exact_scores`), float32
        [queries]."""
        staying = (base, *distractors)
        Gallery(tuple(backend.shard for backend in staying))
        answers = tuple(search_shard(backend, queries, k, thresholds) for backend in staying)
        return cls(
            base.shard, tuple(backend.shard for backend in distractors), queries, thresholds, k, answers
        )

    def alone(self) -> tuple[Gallery, Answers]:
        """The gallery with no variant, and its answers."""
        return self._joined((self.base, *self.distractors), self.answers)

    def beside(self, variant: SearchBackend) -> tuple[Gallery, Answers]:
        """The gallery with that variant between base and distractors, and its answers."""
        found = search_shard(variant, self.queries, self.k, self.thresholds)
        shards = (self.base, variant.shard, *self.distractors)
        return self._joined(shards, (self.answers[0], found, *self.answers[1:]))

    def _joined(self, shards: tuple[Shard, ...], answers: tuple[Answers, ...]) -> tuple[Gallery, Answers]:
        gallery = Gallery(shards)
        parts = [(offset, answer.topk) for offset, answer in zip(gallery.offsets, answers, strict=True)]
        counts = reduce(add, (answer.counts for answer in answers))
        return gallery, Answers(merge_topk(parts, self.k), counts)
