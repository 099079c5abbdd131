"""Images drawn and prepared by threads, ahead of the model and in its order."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage
from engine.encoders.encoder import Encoder
from engine.store.image_source import ImageSource, naming_image
from engine.store.schema import SetPlan
from engine.variants.variant import ImageRecipe, VariantItems


@dataclass(frozen=True)
class ImageItemJob:
    """One item to draw: its set and row, and its recipe (None for an original)."""

    set_name: str
    row: int
    recipe: ImageRecipe | None


@dataclass(frozen=True)
class ImageUnit:
    """Rows of the corpus, and the items to be made from each."""

    rows: tuple[int, ...]
    items: Mapping[int, Sequence[ImageItemJob]]


@dataclass(frozen=True)
class Drawn:
    """One item ready for the model, or why it cannot be."""

    set_name: str
    row: int
    result: Any


def items_by_source(plan: SetPlan, variant: VariantItems | None) -> Mapping[int, Sequence[ImageItemJob]]:
    """Row of the corpus -> the items of a set that are made from that image."""
    by_source: dict[int, list[ImageItemJob]] = defaultdict(list)
    for row, source in enumerate(plan.source.tolist()):
        content = None if variant is None else variant.items[row].content
        if isinstance(content, str):
            raise ValueError(f"{plan.label} has a text where an image recipe belongs")
        by_source[source].append(ImageItemJob(plan.name, row, content))
    return by_source


@dataclass(frozen=True)
class Decoder:
    """Draws and prepares everything that is made from one image of the corpus. Called from many threads."""

    corpus: Corpus
    source: ImageSource
    encoder: Encoder
    jobs: Mapping[int, Sequence[ImageItemJob]]

    def __call__(self, row: int) -> tuple[list[Drawn], float]:
        """The items made from the image in a row of the corpus, and the seconds that took."""
        started = time.perf_counter()
        opened: dict[int, Any] = {}
        drawn = [
            Drawn(job.set_name, job.row, self._prepare(row, job.recipe, opened)) for job in self.jobs[row]
        ]
        return drawn, time.perf_counter() - started

    def _prepare(self, row: int, recipe: ImageRecipe | None, opened: dict[int, Any]) -> Any:
        try:
            for source in (row,) if recipe is None else recipe.sources:
                if source not in opened:
                    opened[source] = self.source.open(source)
        except UnreadableImage as error:
            return error
        if recipe is None:
            with naming_image(self.corpus, row):
                return self.encoder.prepare_image(opened[row])
        return self.encoder.prepare_image(recipe.draw([opened[source] for source in recipe.sources]))


@contextmanager
def closing_threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that drop what has not begun when the block ends, however it ends."""
    threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    try:
        yield threads
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def ordered_ahead(
    threads: ThreadPoolExecutor, decode: Decoder, rows: Sequence[int], ahead: int
) -> Iterator[tuple[list[Drawn], float]]:
    """The decoder's results in the order of `rows`, at most `ahead` of them begun and not yet taken."""
    waiting: deque[Future[tuple[list[Drawn], float]]] = deque()
    for row in rows:
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
        waiting.append(threads.submit(decode, row))
    while waiting:
        yield waiting.popleft().result()
