"""Queries of a store against the galleries of a fixed index.

For a direction the two are seen as one: sets of the gallery's modality come from the index, sets of the
queries' from the store, whatever else the store holds. Everything after that is a search like any other. What
ties the two together is the corpus, which must be the same, and the space of the vectors: its dimension must
be the same, its id too unless the user knows better, which every result then says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.evaluate.results import DIRECTIONS, GALLERY_MODALITY, QUERY_MODALITY, Direction, IndexUse
from engine.store.fixed_index import FixedIndex
from engine.store.reader import EmbeddingSet, SetInfo, Store, check_embeddings
from engine.store.schema import MODALITIES, ORIGINAL, StoreHeader
from engine.store.structure import StoredSet
from engine.store.writer import corpus_words
from engine.variants.variant import Modality, Variant

SHORT = 12


@dataclass(frozen=True)
class IndexedSets:
    """The sets of one direction: the queries of a store and the galleries of an index.

    `path` and `header` are those of the store. Made by `Against.sets`.
    """

    queries: Store
    gallery: Store
    direction: Direction
    use: IndexUse

    @property
    def path(self) -> Path:
        """The store's file."""
        return self.queries.path

    @property
    def header(self) -> StoreHeader:
        """What the queries are of."""
        return self.queries.header

    @cached_property
    def sets(self) -> tuple[SetInfo, ...]:
        """The sets of both, images first."""
        return tuple(
            info
            for modality in MODALITIES
            for info in self._holder(modality).sets
            if info.modality == modality
        )

    def stored(self, modality: str, name: str) -> StoredSet:
        """Where a set lies, as `Store.stored`."""
        return self._holder(modality).stored(modality, name)

    def load(self, modality: str, name: str, *, complete: bool = True) -> EmbeddingSet:
        """One set, as `Store.load`."""
        return self._holder(modality).load(modality, name, complete=complete)

    def is_of_index(self, info: SetInfo) -> bool:
        """Whether a set is one of the index."""
        return info.modality == GALLERY_MODALITY[self.direction]

    def _holder(self, modality: str) -> Store:
        return self.gallery if modality == GALLERY_MODALITY[self.direction] else self.queries


AnySets = Store | IndexedSets
"""Where an evaluation gets its sets."""


@dataclass(frozen=True)
class Against:
    """An index whose galleries stand in for those of the stores that are evaluated.

    With `allow_space_mismatch` the ids of the spaces may differ.
    """

    index: FixedIndex
    allow_space_mismatch: bool = False

    def sets(self, queries: Store, direction: Direction) -> IndexedSets:
        """The sets of a direction.

        Raises `InputError` when the store is of another corpus, dimension or space than the index, holds no
        embeddings or no queries, and when the index has no gallery of this direction.
        """
        self.check(queries)
        check_holds(queries, queries.path, QUERY_MODALITY[direction], direction, "embed it")
        self.check_gallery(direction)
        return IndexedSets(queries, self.index.gallery, direction, self.use(queries))

    def check(self, queries: Store) -> None:
        """Raise `InputError` unless these queries may be searched in the index."""
        check_embeddings(queries)
        self.check_header(queries.header, queries.path)

    def check_header(self, asks: StoreHeader, place: object) -> None:
        """Raise `InputError` unless queries of this header may be searched in the index; `place` names
        them."""
        there = self.index.gallery.header
        where = f"{place} against the index {self.index.path}"
        if there.corpus_fingerprint != asks.corpus_fingerprint:
            raise self.other_corpus(where, corpus_words(asks))
        if there.dim != asks.dim:
            raise InputError(
                f"{where}: the index has {there.dim} dimensions, the queries {asks.dim}; "
                "expected queries of the space that the index is of"
            )
        if not self.allow_space_mismatch and not in_one_space(there, asks):
            raise self.other_space(where, asks.space_id)

    def check_gallery(self, direction: Direction) -> None:
        """Raise `InputError` when the index has no gallery of a direction."""
        modality = GALLERY_MODALITY[direction]
        check_holds(self.index.gallery, self.index.path, modality, direction, "build an index that has it")

    def check_plan(
        self, corpus: Corpus, directions: Sequence[Direction], variants: Sequence[Variant], space: str
    ) -> None:
        """Raise `InputError` for what can be known before any embedding to be wrong with searches in the
        index: another corpus, a direction or a gallery variant that it does not have, another declared space
        (`space`: that of the queries, "" where none is declared)."""
        if corpus.fingerprint != self.index.record.corpus_fingerprint:
            words = f"{corpus.name} ({corpus.fingerprint[:SHORT]}, text {corpus.normalisation})"
            raise self.other_corpus(f"the index {self.index.path}", words)
        declared = self.index.gallery.header.space
        if space and declared and space != declared and not self.allow_space_mismatch:
            raise self.other_space(f"the index {self.index.path}", space)
        for direction in directions:
            self.check_gallery(direction)
        labels = {info.label for info in self.index.gallery.sets}
        sides = {GALLERY_MODALITY[direction] for direction in directions}
        for one in variants:
            if one.side == "gallery" and one.modality in sides and f"{one.modality}/{one.name}" not in labels:
                raise InputError(
                    f"{self.index.path} has no variant {one.name!r}; it has: {', '.join(sorted(labels))}; "
                    "leave it out, or build an index that has it"
                )

    def other_corpus(self, where: str, words: str) -> InputError:
        """The error for queries of another corpus."""
        return InputError(
            f"{where}: the index is of the corpus {corpus_words(self.index.gallery.header)}, the queries of "
            f"{words}; build an index of the same corpus and text"
        )

    def other_space(self, where: str, space: str) -> InputError:
        """The error for queries of another space."""
        return InputError(
            f"{where}: the index is of the space {space_words(self.index.gallery.header.space_id)}, the "
            f"queries of {space_words(space)}; declare one space (--space of embed and of index build, "
            "`space:` in a run file), or --allow-space-mismatch (in a run file `allow_space_mismatch: true`) "
            "searches all the same, and every result says so"
        )

    def use(self, queries: Store) -> IndexUse:
        """What the results of these queries say of the index."""
        record = self.index.record
        return IndexUse(
            name=self.index.name,
            fingerprint=record.fingerprint,
            space=record.space,
            query_space=queries.header.space_id,
            space_mismatch=not in_one_space(self.index.gallery.header, queries.header),
            encoder_spec=record.encoder_spec,
            encoder_fingerprint=record.encoder_fingerprint,
        )


def check_holds(store: Store, place: Path, modality: Modality, direction: Direction, remedy: str) -> None:
    """Raise `InputError` when a store lacks the originals that a direction needs of it."""
    if not any((info.modality, info.name) == (modality, ORIGINAL) for info in store.sets):
        others = ", ".join(one for one in DIRECTIONS if one != direction)
        raise InputError(
            f"{place} has no {modality}/{ORIGINAL}, which {direction} needs; {remedy}, "
            f"or ask for {others} only"
        )


def in_one_space(index: StoreHeader, queries: StoreHeader) -> bool:
    """Whether vectors are of one space: by its id, or as those of one encoder unless both declare another."""
    if index.space_id == queries.space_id:
        return True
    both_declare = bool(index.space and queries.space)
    return index.encoder_fingerprint == queries.encoder_fingerprint and not both_declare


def space_words(space: str) -> str:
    """A space for an error line; the fingerprint of an encoder is cut."""
    return repr(space if len(space) < 64 else f"{space[:SHORT]}...")
