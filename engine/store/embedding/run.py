"""One run of an encoder over a store that is open for writing: what is pending is encoded, nothing twice.

Work is cut into units: in each set, `BATCHES_A_UNIT` batches of texts new to it, or the items made from
`batch_size` neighbouring images. Which texts are new depends on the sets planned before and on the complete
rows of other sets in the store; how a unit is cut never depends on what is complete in its own set. So a run
that was killed and resumed computes the same batches, and so the same bytes, as one that was not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage
from engine.encoders.encoder import Encoder
from engine.errors import InputError
from engine.progress import Advance, Progress, unwatched
from engine.stopwatch import Stopwatch
from engine.store.embedding.decoding import (
    Decoder,
    Drawn,
    ImageItemJob,
    ImageUnit,
    closing_threads,
    items_by_source,
    ordered_ahead,
)
from engine.store.embedding.report import EmbedReport, SetCount
from engine.store.embedding.work import CUT_TEXTS, Work
from engine.store.image_source import ImageSource
from engine.store.raw import runs
from engine.store.reader import open_store
from engine.store.schema import COMPLETE, SetPlan
from engine.store.writer import StoreWriter
from indexes.protocol import RowSource

COPY_ROWS = 4096
BATCHES_A_UNIT = 16  # of texts: enough that texts of one length fill the encoder's batches


@dataclass
class Run:
    """One run over an open writer."""

    encoder: Encoder
    corpus: Corpus
    source: ImageSource
    writer: StoreWriter
    work: Work
    batch_size: int
    clock: Stopwatch
    progress: Progress
    label: str
    gone: Sequence[str] = ()
    batches_a_unit: int = BATCHES_A_UNIT
    unreadable: dict[str, str] = field(default_factory=dict)
    forwarded: dict[str, int] = field(default_factory=lambda: {"images": 0, "texts": 0})
    decoder_seconds: float = 0.0
    image_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.counts: dict[str, SetCount] = {}
        with open_store(self.writer.path) as store:
            left_out = {info.label: info.skipped for info in store.sets}
        for plan in (*self.work.captions, *self.work.images):
            pending = len(self.writer.pending(plan.modality, plan.name))
            skipped = left_out[plan.label]
            self.counts[plan.label] = SetCount(plan.rows, plan.rows - pending - skipped, skipped)
        self._advance: Advance = unwatched

    def report(self) -> EmbedReport:
        """What was done."""
        images = self.forwarded["images"]
        return EmbedReport(
            path=self.writer.path,
            sets=self.counts,
            unreadable=self.unreadable,
            gone=self.gone,
            forwarded=self.forwarded,
            seconds=self.clock.timings(),
            decoder_seconds=self.decoder_seconds,
            images_per_second=images / self.image_seconds if images else 0.0,
            damaged=self.writer.damaged,
            cut_texts={
                plan.label: plan.made[CUT_TEXTS] for plan in self.work.captions if CUT_TEXTS in plan.made
            },
        )

    @contextmanager
    def _watched(self, plans: Sequence[SetPlan], unit: str) -> Iterator[None]:
        """Tell of the pending rows of some sets while they are written."""
        total = sum(self.counts[plan.label].pending for plan in plans)
        if not total:
            yield
            return
        with self.progress.task(self.label, total, unit) as self._advance:
            yield

    # ---- captions

    def encode_captions(self) -> None:
        """Fill the caption sets in their order: a text of an earlier set is copied, a new one encoded."""
        known = self._texts_of_other_sets()
        with self._watched(self.work.captions, "texts"):
            for plan in self.work.captions:
                known.update(self._encode_captions_of(plan, known))

    def _encode_captions_of(
        self, plan: SetPlan, known: Mapping[str, tuple[str, int]]
    ) -> Mapping[str, tuple[str, int]]:
        """Fill one caption set; text -> (set, row) of those that were not known before."""
        new_rows: dict[str, list[int]] = defaultdict(list)
        copies: list[int] = []
        for row, text in enumerate(plan.content):
            (copies if text in known else new_rows[text]).append(row)
        pending = set(self.writer.pending("captions", plan.name).tolist())
        self._copy_texts(plan, [row for row in copies if row in pending], known)
        texts = list(new_rows)
        size = self.batches_a_unit * self.batch_size
        for start in range(0, len(texts), size):
            unit = texts[start : start + size]
            if any(row in pending for text in unit for row in new_rows[text]):
                self._encode_texts(plan, unit, new_rows, pending)
        return {text: (plan.name, rows[0]) for text, rows in new_rows.items()}

    def _texts_of_other_sets(self) -> dict[str, tuple[str, int]]:
        """Text -> (set, row) of the complete captions of sets in the store that this run does not plan."""
        planned = {plan.name for plan in self.work.captions}
        known: dict[str, tuple[str, int]] = {}
        with open_store(self.writer.path) as store:
            for info in store.sets:
                if info.modality == "captions" and info.name not in planned:
                    there = store.load("captions", info.name, complete=False)
                    for row in np.flatnonzero(there.state == COMPLETE).tolist():
                        known.setdefault(there.content[row], (info.name, row))
        return known

    def _copy_texts(self, plan: SetPlan, rows: Sequence[int], known: Mapping[str, tuple[str, int]]) -> None:
        if not rows:
            return
        with open_store(self.writer.path) as store:
            names = {known[plan.content[row]][0] for row in rows}
            sources = {name: store.load("captions", name, complete=False).rows for name in names}
            for start in range(0, len(rows), COPY_ROWS):
                block = rows[start : start + COPY_ROWS]
                with self.clock.stage("write"):
                    found = read_scattered(sources, [known[plan.content[row]] for row in block])
                    self.writer.write("captions", plan.name, np.array(block, dtype=np.int64), found)
                self.counts[plan.label].copied += len(block)
                self._advance(0, passed_over=len(block))

    def _encode_texts(
        self, plan: SetPlan, unit: Sequence[str], rows_of: Mapping[str, Sequence[int]], pending: set[int]
    ) -> None:
        with self.clock.stage("encode"), named_batch(plan, [rows_of[text][0] for text in unit]):
            embeddings = self.encoder.encode_texts(unit)
        self.forwarded["texts"] += len(unit)
        places = [(row, i) for i, text in enumerate(unit) for row in rows_of[text] if row in pending]
        rows, origin = (np.array(column, dtype=np.int64) for column in zip(*places, strict=True))
        with self.clock.stage("write"):
            self.writer.write("captions", plan.name, rows, embeddings[origin])
        count = self.counts[plan.label]
        encoded = len(np.unique(origin))
        count.encoded += encoded
        count.copied += len(rows) - encoded
        self._advance(encoded, passed_over=len(rows) - encoded)

    # ---- images

    def encode_images(self, workers: int, skip_unreadable: bool) -> None:
        """Fill the image sets, `batch_size` images of the corpus at a time, each decoded once for
        all sets."""
        started = time.perf_counter()
        units = list(self._image_units())
        rows = [row for unit in units for row in unit.rows]
        jobs = {row: unit.items[row] for unit in units for row in unit.rows}
        ahead = max(2 * workers, 2 * self.batch_size // len(self.work.images))
        decoder = Decoder(self.corpus, self.source, self.encoder, jobs)
        with self._watched(self.work.images, "images"), closing_threads(workers) as threads:
            prepared = ordered_ahead(threads, decoder, rows, ahead)
            for unit in units:
                drawn: dict[str, list[Drawn]] = defaultdict(list)
                for _ in unit.rows:
                    with self.clock.stage("decode"):
                        items, seconds = next(prepared)
                    self.decoder_seconds += seconds
                    for item in items:
                        drawn[item.set_name].append(item)
                for plan in self.work.images:
                    self._encode_drawn(plan, drawn[plan.name], skip_unreadable)
        self.image_seconds = time.perf_counter() - started

    def _image_units(self) -> Iterator[ImageUnit]:
        """The units with something pending; a set that has nothing pending in a unit takes no part in it."""
        made_from = {
            plan.name: items_by_source(plan, self.work.recipes.get(plan.name)) for plan in self.work.images
        }
        pending = {
            plan.name: set(self.writer.pending("images", plan.name).tolist()) for plan in self.work.images
        }
        for start in range(0, len(self.corpus.images), self.batch_size):
            block = range(start, min(start + self.batch_size, len(self.corpus.images)))
            items: dict[int, list[ImageItemJob]] = defaultdict(list)
            for name, by_source in made_from.items():
                jobs = [(row, job) for row in block for job in by_source.get(row, ())]
                if any(job.row in pending[name] for _, job in jobs):
                    for row, job in jobs:
                        items[row].append(job)
            if items:
                yield ImageUnit(tuple(sorted(items)), items)

    def _encode_drawn(self, plan: SetPlan, drawn: Sequence[Drawn], skip_unreadable: bool) -> None:
        rows = np.array([item.row for item in drawn], dtype=np.int64)
        pending = set(rows[self.writer.is_pending("images", plan.name, rows)].tolist())
        failed = [item for item in drawn if isinstance(item.result, UnreadableImage) and item.row in pending]
        self._note_unreadable(plan, failed, skip_unreadable)
        whole = [item for item in drawn if not isinstance(item.result, UnreadableImage)]
        for start in range(0, len(whole), self.batch_size):
            batch = whole[start : start + self.batch_size]
            wanted = [i for i, item in enumerate(batch) if item.row in pending]
            if not wanted:
                continue
            with self.clock.stage("encode"), named_batch(plan, [item.row for item in batch]):
                embeddings = self.encoder.encode_images([item.result for item in batch])
            self.forwarded["images"] += len(batch)
            with self.clock.stage("write"):
                rows = np.array([batch[i].row for i in wanted], dtype=np.int64)
                self.writer.write("images", plan.name, rows, embeddings[wanted])
            self.counts[plan.label].encoded += len(wanted)
            self._advance(len(wanted))

    def _note_unreadable(self, plan: SetPlan, failed: Sequence[Drawn], skip: bool) -> None:
        errors = [item.result for item in failed if isinstance(item.result, UnreadableImage)]
        self.unreadable.update({error.file: error.reason for error in errors})
        if skip and failed:
            rows = np.array([item.row for item in failed], dtype=np.int64)
            self.writer.skip("images", plan.name, rows, [str(error) for error in errors])
            self.counts[plan.label].skipped += len(failed)
        self._advance(0, passed_over=len(failed))


def read_scattered(
    sources: Mapping[str, RowSource], places: Sequence[tuple[str, int]]
) -> NDArray[np.float32]:
    """float32 [n, dim]: rows of several sets by (set, row), in the order given; at least one."""
    result = np.empty((len(places), next(iter(sources.values())).shape[1]), dtype=np.float32)
    by_set: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for position, (name, row) in enumerate(places):
        by_set[name].append((row, position))
    for name, wanted in by_set.items():
        rows, positions = (np.array(column, dtype=np.int64) for column in zip(*sorted(wanted), strict=True))
        distinct, inverse = np.unique(rows, return_inverse=True)
        parts = [sources[name].read(int(distinct[a]), int(distinct[b - 1]) + 1) for a, b in runs(distinct)]
        result[positions] = np.concatenate(parts)[inverse]
    return result


@contextmanager
def named_batch(plan: SetPlan, rows: Sequence[int]) -> Iterator[None]:
    """Put the set and the first and last id of a batch before what the encoder says is wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{plan.label}, {plan.ids[rows[0]]} to {plan.ids[rows[-1]]}: {error}") from error
