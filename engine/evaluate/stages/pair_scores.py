"""Scores of chosen (image, text) pairs: looked up where they are known, else computed image by image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from engine.encoders.scorer import Reranker, State
from engine.errors import InputError
from engine.evaluate.gallery import Items
from engine.evaluate.stages.stage import Watched
from engine.store.kept_states import KeptStates
from engine.store.pair_file import PairFile, content_key
from engine.store.reader import Store
from engine.store.stored_images import StoredImages

Numbers = NDArray[np.int64]
BATCHES_A_BLOCK = 16  # of texts: enough that texts of one length fill the reranker's batches


@dataclass(frozen=True)
class ImageNeed:
    """An image, by its part and its number in it, and the texts (numbers) it is still to be scored with."""

    key: int
    part: int
    number: int
    texts: Numbers


@dataclass
class PairScores:
    """Scores pairs with a reranker and keeps every score in a file.

    Images are read `batch_size` neighbours at a time, whichever of them are needed, texts `BATCHES_A_BLOCK`
    as many, and the texts of an image are scored and written together: so a run that was stopped computes the
    same batches when it goes on. States of texts are kept by their set and place, not by content, because
    equal texts of other neighbours differ in the last bits.
    `scored` counts the pairs that were computed. Needs 8 bytes a distinct pair that was asked for.
    """

    reranker: Reranker
    images: StoredImages
    file: PairFile
    states: KeptStates
    batch_size: int
    workers: int
    scored: int = 0
    _keys: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    _asked: dict[int, NDArray[np.uint64]] = field(default_factory=dict, repr=False)

    @property
    def reused(self) -> int:
        """How many distinct pairs were asked for and known before, from an earlier run."""
        return sum(map(len, self._asked.values())) - self.scored

    def score(
        self,
        images: Sequence[Items],
        texts: Sequence[Items],
        pairs: tuple[Numbers, Numbers],
        watched: Watched,
        name: str,
    ) -> NDArray[np.float32]:
        """float32 [pairs]: the scores of images with texts, both numbered through their parts.

        Raises `InputError` for an image that cannot be read or is another one than was embedded, and for a
        score that is no finite number.
        """
        image_keys = np.concatenate([self._image_keys(part) for part in images])
        contents = [text for part in texts for text in texts_of(self.images.store, part)]
        text_keys = np.array([content_key(text) for text in contents], dtype=np.uint64)
        offsets = np.cumsum([0, *(len(part) for part in images)])
        needs = list(self._missing(image_keys, text_keys, pairs, offsets))
        total = sum(len(need.texts) for need in needs)
        if total:
            with watched(f"{name}, scoring", total, "pairs") as advance:
                for need in self._with_states(images, needs):
                    chosen = [contents[number] for number in need.texts.tolist()]
                    words = self._text_states(texts, contents, need.texts)
                    scores = self.reranker.score_pairs(self.states.get(need.key), words)
                    self._check(scores, images[need.part], need, chosen)
                    self.file.add(need.key, text_keys[need.texts], scores)
                    self.scored += len(chosen)
                    advance(len(chosen))
        return self._find(image_keys[pairs[0]], text_keys[pairs[1]])

    def _image_keys(self, part: Items) -> NDArray[np.uint64]:
        if part.name not in self._keys:
            self._keys[part.name] = self.images.keys(part.name, part.row.tolist())
        return self._keys[part.name]

    def _missing(
        self,
        image_keys: NDArray[np.uint64],
        text_keys: NDArray[np.uint64],
        pairs: tuple[Numbers, Numbers],
        offsets: NDArray[np.int64],
    ) -> Iterator[ImageNeed]:
        """Distinct images, by their first number, with their distinct texts that have no score; in order."""
        for image, where in groups(image_keys[pairs[0]]):
            number = int(pairs[0][where].min())
            keys, first = np.unique(text_keys[pairs[1][where]], return_index=True)
            self._asked[image] = np.union1d(self._asked.get(image, keys), keys)
            _, there = self.file.find(image, keys)
            texts = np.sort(pairs[1][where][first[~there]])
            if len(texts):
                (part,), (within,) = places_of(np.array([number]), offsets)
                yield ImageNeed(image, part, within, texts)

    def _with_states(self, images: Sequence[Items], needs: Sequence[ImageNeed]) -> Iterator[ImageNeed]:
        """The needs in order of their images, each when the state of its image is there."""
        ordered = sorted(needs, key=lambda need: (need.part, need.number))
        with ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as threads:
            for (part, block), some in groupby(
                ordered, key=lambda need: (need.part, need.number // self.batch_size)
            ):
                batch = list(some)
                if any(need.key not in self.states for need in batch):
                    self._keep_states(images[part], block * self.batch_size, threads)
                yield from batch

    def _text_states(self, parts: Sequence[Items], contents: Sequence[str], wanted: Numbers) -> list[State]:
        """The states of texts; those that are missing are computed with their neighbours."""
        offsets = np.cumsum([0, *map(len, parts)])
        size, keys = self.batch_size * BATCHES_A_BLOCK, []
        for part, number in zip(*places_of(wanted, offsets), strict=True):
            keys.append((parts[part].name, number))
            if keys[-1] not in self.states:
                start = number // size * size
                block = range(start, min(start + size, len(parts[part])))
                states = self.reranker.text_states([contents[int(offsets[part]) + one] for one in block])
                self.states.put({(parts[part].name, one): s for one, s in zip(block, states, strict=True)})
        return [self.states.get(key) for key in keys]

    def _keep_states(self, part: Items, start: int, threads: ThreadPoolExecutor) -> None:
        numbers = range(start, min(start + self.batch_size, len(part)))

        def prepare(number: int) -> object:
            return self.reranker.prepare_image(self.images.draw(part.name, int(part.row[number])))

        states = self.reranker.image_states(list(threads.map(prepare, numbers)))
        keys = self._image_keys(part)[start : start + len(numbers)].tolist()
        self.states.put(dict(zip(keys, states, strict=True)))

    def _check(self, scores: NDArray[np.float32], part: Items, need: ImageNeed, texts: Sequence[str]) -> None:
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):
            raise InputError(
                f"{self.reranker.spec}: the score of image {part.ids[need.number]!r} with the text "
                f"{texts[int(bad[0])]!r} is {scores[bad[0]]}; expected a finite number"
            )

    def _find(self, images: NDArray[np.uint64], texts: NDArray[np.uint64]) -> NDArray[np.float32]:
        scores = np.empty(len(images), dtype=np.float32)
        for image, where in groups(images):
            scores[where], there = self.file.find(image, texts[where])
            assert there.all()
        return scores


def groups(keys: NDArray[np.uint64]) -> Iterator[tuple[int, Numbers]]:
    """Every distinct key with the places that have it, int64, ascending."""
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for where in np.split(order, edges) if len(keys) else ():
        yield int(keys[where[0]]), where


def places_of(numbers: Numbers, offsets: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """The part of each number, and its number in that part; parts begin at their `offsets`."""
    parts = np.searchsorted(offsets, numbers, "right") - 1
    return parts.tolist(), (numbers - offsets[parts]).tolist()


def texts_of(store: Store, items: Items) -> list[str]:
    """The texts of caption items."""
    content = store.load("captions", items.name).content
    return [content[row] for row in items.row.tolist()]
