"""From a corpus and a pair scorer to a store of scores: every caption with every image, block by block.

A caption's row holds its scores with all images of the corpus, so equal texts are scored once, a caption
variant is more rows, and a run that was killed goes on at the row where it was, as with embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.corpus.corpus import Corpus
from engine.encoders.regions import other_input
from engine.encoders.scorer import PairScorer
from engine.errors import InputError
from engine.progress import Advance, Progress, Silent
from engine.stopwatch import Stopwatch
from engine.store.embedding.report import EmbedReport
from engine.store.embedding.run import Run
from engine.store.embedding.score_rows import ScoreRows
from engine.store.embedding.work import header_of, made_by, plan_work
from engine.store.image_source import (
    ImageSource,
    UnchangedImages,
    check_features,
    digest_images,
    reads_of,
)
from engine.store.kept_states import STATES_IN_MEMORY, KeptStates
from engine.store.schema import ORIGINAL, StoredDtype
from engine.store.writer import open_writer
from engine.variants.variant import Variant


def score(
    scorer: PairScorer,
    corpus: Corpus,
    source: ImageSource,
    variants: Sequence[Variant],
    path: str | Path,
    *,
    batch_size: int,
    workers: int,
    dtype: StoredDtype = "float32",
    skip_unreadable: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    label: str = "scoring",
    file_digests: Sequence[str] | None = None,
    command: Sequence[str] = (),
) -> EmbedReport:
    """Score every caption, those of the caption variants too, with every image, into the store at `path`.

    `batch_size` captions are scored and written at once: a kill loses at most those. `progress` is told
    pairs. Raises `InputError` for variants of images, an image that cannot be read, and as `open_writer`
    does.
    """
    check_scorable(scorer, source, variants)
    if skip_unreadable:
        raise InputError(
            f"{scorer.spec}: scores every caption with every image, and none can be left out; "
            "leave out --skip-unreadable"
        )
    path, clock = Path(path), Stopwatch()
    with KeptStates(STATES_IN_MEMORY, path.parent) as states:
        with clock.stage("plan"):
            digests = file_digests or digest_images(source, workers)
            if "" in digests:
                file = corpus.images[list(digests).index("")].file
                raise InputError(
                    f"image {file} cannot be read, and every caption is scored with every image; "
                    "put a whole file there"
                )
            source = UnchangedImages(source, digests)
            rows = ScoreRows(scorer, corpus, source, digests, states, batch_size)
            check_features(source, rows, corpus, workers)
            work = plan_work(corpus, variants, digests, made_by(rows, batch_size, command))
            work = replace(work, images=tuple(replace(plan, width=0) for plan in work.images))
            header = replace(header_of(rows, corpus, dtype), rows="scores")
            writer = open_writer(path, header, [*work.captions, *work.images], force=force)
        with writer:
            pending = writer.pending("images", ORIGINAL)
            writer.write("images", ORIGINAL, pending, np.empty((len(pending), 0), dtype=np.float32))
            told = PairsProgress(progress or Silent(), rows.dim)
            for note in work.notes:
                told.note(note)
            run = Run(rows, corpus, source, writer, work, batch_size, clock, told, label, batches_a_unit=1)
            run.encode_captions()
            return run.report()


@dataclass(frozen=True)
class PairsProgress:
    """Tells of captions as of the pairs that they make with all images."""

    inner: Progress
    images: int

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """A task of as many pairs."""
        with self.inner.task(label, total * self.images, "pairs") as advance:

            def told(done: int, passed_over: int = 0) -> None:
                advance(done * self.images, passed_over * self.images)

            yield told

    def note(self, line: str) -> None:
        """As it is."""
        self.inner.note(line)


def check_scorable(scorer: PairScorer, source: ImageSource, variants: Sequence[Variant]) -> None:
    """Raise `InputError` where the scorer reads other inputs, or a variant is of images."""
    if source.reads != reads_of(scorer):
        raise other_input(scorer.spec, reads_of(scorer))
    drawn = next((one.name for one in variants if one.modality == "images"), None)
    if drawn is not None:
        raise InputError(
            f"variant {drawn}: draws new images, which {scorer.spec} does not read; leave it out, or give "
            "scores made elsewhere to `itrstress import --similarities`"
        )
