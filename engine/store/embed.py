"""From a corpus and an encoder to a store: what is pending is encoded, nothing twice.

Work is cut into units: in each set, `BATCHES_A_UNIT` batches of texts new to it, or the items made from
`batch_size` neighbouring images. Which texts are new depends on the sets planned before and on the complete
rows of other sets in the store; how a unit is cut never depends on what is complete in its own set. So a run
that was killed and resumed computes the same batches, and so the same bytes, as one that was not.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage
from engine.encoders.encoder import Encoder
from engine.encoders.registry import cut_texts, describe_encoder
from engine.errors import InputError
from engine.packages import package_versions
from engine.path_text import path_text
from engine.progress import Advance, Progress, Silent, unwatched
from engine.stopwatch import Stopwatch
from engine.store.image_source import (
    ImageSource,
    as_source,
    check_features,
    check_source,
    digest_images,
    naming_image,
)
from engine.store.plans import original_plans, variant_plan
from engine.store.probe import probe
from engine.store.raw import runs
from engine.store.reader import open_store
from engine.store.schema import COMPLETE, MODALITIES, ORIGINAL, SetPlan, StoredDtype, StoreHeader
from engine.store.writer import StoreWriter, open_writer
from engine.variants.variant import ImageRecipe, Modality, Variant, VariantItems
from indexes.protocol import RowSource

NAMES_SHOWN = 10
COPY_ROWS = 4096
CUT_TEXTS = "texts_cut"  # in how a caption set is made
BATCHES_A_UNIT = 16  # of texts: enough that texts of one length fill the encoder's batches


@dataclass
class SetCount:
    """What became of the `rows` of one set.

    Before the run, `there` were complete and `left_out` skipped as unreadable. In it, `encoded` went through
    the model, `copied` have the embedding of an equal text, and `skipped` cannot be read.
    """

    rows: int
    there: int
    left_out: int
    encoded: int = 0
    copied: int = 0
    skipped: int = 0

    @property
    def pending(self) -> int:
        """Rows that still have no embedding."""
        return self.rows - self.there - self.left_out - self.encoded - self.copied - self.skipped


@dataclass(frozen=True)
class EmbedReport:
    """What a run did.

    `sets` maps ``<modality>/<name>`` to its counts, `unreadable` files to reasons. `seconds` are wall seconds
    by stage: "plan" (variants, file digests, layout), "decode" (waiting for the decoders), "encode", "write",
    "untracked" and "total". `decoder_seconds` is what all decoder threads together worked, mostly while the
    model did. `forwarded` counts what went through the model by kind ("images", "texts"), `images_per_second`
    is over the image part of the run. `damaged` maps sets to rows that had lost their checksum and were
    encoded again, `gone` are the files of the store that are missing or cut off now. `cut_texts` maps caption
    sets to texts longer than the model reads, where the encoder says so.
    """

    path: Path
    sets: Mapping[str, SetCount]
    unreadable: Mapping[str, str]
    gone: Sequence[str]
    forwarded: Mapping[str, int]
    seconds: Mapping[str, float]
    decoder_seconds: float
    images_per_second: float
    damaged: Mapping[str, int]
    cut_texts: Mapping[str, int]

    @property
    def pending(self) -> int:
        """Rows of all sets that still have no embedding."""
        return sum(count.pending for count in self.sets.values())


class UnreadableImagesError(InputError):
    """Images that could not be read; everything else is complete. `report` says what was done."""

    def __init__(self, report: EmbedReport) -> None:
        reasons = report.unreadable
        shown = "; ".join(f"{file} ({reason})" for file, reason in list(reasons.items())[:NAMES_SHOWN])
        rest = f"; and {len(reasons) - NAMES_SHOWN:,} more" if len(reasons) > NAMES_SHOWN else ""
        super().__init__(
            f"{len(reasons):,} image(s) cannot be read: {shown}{rest}; everything else is in {report.path}; "
            "put whole files there and run the same command again, or leave them out with --skip-unreadable"
        )
        self.report = report


def embed(
    encoder: Encoder,
    corpus: Corpus,
    images: str | Path | ImageSource,
    variants: Sequence[Variant],
    path: str | Path,
    *,
    batch_size: int,
    workers: int,
    dtype: StoredDtype = "float32",
    skip_unreadable: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    label: str = "encoding",
    file_digests: Sequence[str] | None = None,
    command: Sequence[str] = (),
    modalities: Sequence[Modality] = MODALITIES,
    space: str = "",
) -> EmbedReport:
    """Encode a corpus and its variants into the store at `path`, or finish one.

    `images` is the folder of the image files, or a source of what the encoder reads (region features).
    `batch_size` items go through the encoder at once (give the encoder the same); `workers` threads decode
    images. Equal texts are encoded once, whichever captions and variants they are in, those already in the
    store included. An image file counts as its bytes, features as their values: another file under the same
    name is an error, not a silent reuse. Where a file was missing or cut off when the store was laid out
    there is no digest of it, so that it can be put right and the run resumed. `file_digests` are those of
    `digest_images` where the caller has them already. What a set was made with (`command`, encoder, versions)
    is kept beside it. `progress` has a task for the texts and one for the images, both called `label`.
    `modalities` are what is embedded: the queries of a fixed index need one of them only, and captions alone
    no images. `space` declares the space of the vectors, where several checkpoints share one.

    Raises `UnreadableImagesError` at the end, when all else is complete, unless `skip_unreadable`, which
    records them in the store; `InputError` as `open_writer` does, with `force` as there. A kill at any moment
    loses at most the batch at hand.
    """
    source = as_source(images, corpus)
    check_modalities(modalities, variants)
    clock = Stopwatch()
    with clock.stage("plan"):
        digests, gone = None, tuple[str, ...]()
        if "images" in modalities:
            check_source(source, encoder, variants)
            check_features(source, encoder, corpus, workers)
            if file_digests is None:
                file_digests = digest_images(source, workers)
            digests = image_digests(file_digests, None if force else Path(path))
            gone = gone_files(corpus, file_digests, digests)
        if not Path(path).exists():
            probe(encoder, corpus, source, file_digests or ())
        made = made_by(encoder, batch_size, command)
        work = plan_work(corpus, variants, digests, made, modalities)
        work = replace(work, captions=with_cut_texts(work.captions, encoder))
        header = StoreHeader(
            encoder_spec=encoder.spec,
            encoder_fingerprint=encoder.fingerprint,
            dim=encoder.dim,
            corpus_name=corpus.name,
            corpus_fingerprint=corpus.fingerprint,
            normalisation=corpus.normalisation,
            dtype=dtype,
            corpus_source="" if corpus.source is None else path_text(corpus.source),
            space=space,
        )
        writer = open_writer(path, header, [*work.captions, *work.images], force=force)
    with writer:
        run = Run(encoder, corpus, source, writer, work, batch_size, clock, progress or Silent(), label, gone)
        with run.watched(work.captions, "texts"):
            run.encode_captions()
        if work.images:
            with run.watched(work.images, "images"):
                run.encode_images(workers, skip_unreadable)
        report = run.report()
    if report.unreadable and not skip_unreadable:
        raise UnreadableImagesError(report)
    return report


# ---------------------------------------------------------------- what is to be done


@dataclass(frozen=True)
class Work:
    """The plans of all sets of each modality, originals first, none where it is not embedded; and the items
    of the image variants by the set's name."""

    captions: tuple[SetPlan, ...]
    images: tuple[SetPlan, ...]
    recipes: Mapping[str, VariantItems]


def made_by(encoder: Encoder, batch_size: int, command: Sequence[str]) -> Mapping[str, Any]:
    """How the sets of a run are made: everything beyond corpus and variant that decides an embedding."""
    return {
        "command": list(command),
        "encoder": {"spec": encoder.spec, **describe_encoder(encoder)},
        "batch_size": batch_size,
        "versions": package_versions(),
    }


def with_cut_texts(plans: Sequence[SetPlan], encoder: Encoder) -> tuple[SetPlan, ...]:
    """The caption sets, with the number of texts that the model cuts in how they are made (`CUT_TEXTS`).

    Unchanged for an encoder that does not say which it cuts.
    """
    texts = list(dict.fromkeys(text for plan in plans for text in plan.content))
    cut = cut_texts(encoder, texts)
    if cut is None:
        return tuple(plans)
    is_cut = dict(zip(texts, cut.tolist(), strict=True))
    return tuple(
        replace(plan, made={**plan.made, CUT_TEXTS: sum(is_cut[text] for text in plan.content)})
        for plan in plans
    )


def check_modalities(modalities: Sequence[Modality], variants: Sequence[Variant]) -> None:
    """Raise `InputError` for a variant whose items are not among what is embedded."""
    for one in variants:
        if one.modality not in modalities:
            raise InputError(
                f"variant {one.name}: its items are {one.modality}, and only {', '.join(modalities)} are "
                "embedded; leave it out, or embed both"
            )


def plan_work(
    corpus: Corpus,
    variants: Sequence[Variant],
    digests: Sequence[str] | None,
    made: Mapping[str, Any],
    modalities: Sequence[Modality] = MODALITIES,
) -> Work:
    """Apply the variants and plan every set of these modalities. Raises `InputError` as the variants do."""
    applied = [(variant, variant.apply(corpus)) for variant in variants]
    images, captions = original_plans(corpus, digests)
    planned = {"images": [images], "captions": [captions]}
    for variant, items in applied:
        planned[variant.modality].append(variant_plan(corpus, variant, items, digests))
    recipes = {variant.name: items for variant, items in applied if variant.modality == "images"}
    captions_made, images_made = (
        tuple(replace(plan, made=made) for plan in planned[one] if one in modalities)
        for one in ("captions", "images")
    )
    return Work(captions_made, images_made, recipes)


def image_digests(digests: Sequence[str], resumed: Path | None) -> tuple[str, ...] | None:
    """What the key of a store says of the image files, one an image, from the files' digests.

    Where the `resumed` store has no digest of a file, none is given, so that a whole file can take the place
    of one that was not; where the file is missing or cut off now, the stored one stays, because that is no
    other image. None when the store has none at all (an import).
    """
    there = None if resumed is None else stored_digests(resumed)
    if there is None:
        return tuple(digests)
    if there == ():
        return None
    kept = (old and (new or old) for old, new in zip(there, digests, strict=False))
    return (*kept, *digests[len(there) :])


def gone_files(corpus: Corpus, found: Sequence[str], kept: Sequence[str] | None) -> tuple[str, ...]:
    """The image files that a resumed store has a digest of and that are missing or cut off now."""
    return tuple(
        image.file
        for image, now, stored in zip(corpus.images, found, kept or (), strict=False)
        if stored and not now
    )


def stored_digests(path: Path) -> tuple[str, ...] | None:
    """The digests of the original images in a store, () when it keeps none, None when there is no
    such set."""
    if not path.is_file():
        return None
    try:
        with open_store(path) as store:
            return store.load("images", ORIGINAL, complete=False).content_digest or ()
    except InputError:
        return None  # the writer says what is wrong with it


# ---------------------------------------------------------------- doing it


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
    def watched(self, plans: Sequence[SetPlan], unit: str) -> Iterator[None]:
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
        for plan in self.work.captions:
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
            known.update({text: (plan.name, rows[0]) for text, rows in new_rows.items()})

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
        with closing_threads(workers) as threads:
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


# ---------------------------------------------------------------- decoding ahead of the model


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
