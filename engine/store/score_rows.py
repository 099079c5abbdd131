"""From a corpus and a pair scorer to a store of scores: every caption with every image, block by block.

A caption's row holds its scores with all images of the corpus, so equal texts are scored once, a caption
variant is more rows, and a run that was killed goes on at the row where it was, as with embeddings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.encoders.regions import other_input
from engine.encoders.registry import describe_encoder
from engine.encoders.scorer import PairScorer, State
from engine.errors import InputError
from engine.path_text import path_text
from engine.progress import Advance, Progress, Silent
from engine.stopwatch import Stopwatch
from engine.store.embed import EmbedReport, Run, made_by, plan_work
from engine.store.image_source import ImageSource, check_features, digest_images, naming_image, reads_of
from engine.store.kept_states import STATES_IN_MEMORY, KeptStates
from engine.store.schema import ORIGINAL, StoredDtype, StoreHeader
from engine.store.writer import open_writer
from engine.variants.variant import Variant

IMAGES_A_BLOCK = 256


class ScoreRows:
    """A pair scorer as an `Encoder` of captions: a row is a caption's scores with all images of a corpus.

    `fingerprint` is of the scorer and of what the images are. Image states are computed once, when first
    needed, and kept.
    """

    def __init__(
        self,
        scorer: PairScorer,
        corpus: Corpus,
        source: ImageSource,
        digests: Sequence[str],
        states: KeptStates,
        batch_size: int,
    ) -> None:
        self._scorer, self._corpus, self._source = scorer, corpus, source
        self._states, self._batch_size = states, batch_size
        parts = [scorer.fingerprint, hashlib.sha256(json.dumps(list(digests)).encode()).hexdigest()]
        self.fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self.description: Mapping[str, str] = {
            **describe_encoder(scorer),
            "scored with": f"{len(source):,} images ({parts[1][:12]})",
        }
        self.spec, self.dim, self.reads = scorer.spec, len(source), reads_of(scorer)

    def prepare_image(self, image: Any) -> Any:
        """What the scorer takes."""
        return self._scorer.prepare_image(image)

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """float32 [n, 0]: the scores of the originals are in the rows of the captions."""
        return np.empty((len(images), 0), dtype=np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, images]. Raises `InputError` for a score that is no finite number."""
        words = self._scorer.text_states(texts)
        rows = np.empty((len(texts), self.dim), dtype=np.float32)
        for start, states in self._image_states():
            rows[:, start : start + len(states)] = self._scorer.score_block(states, words).T
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            text, image = bad[0].tolist()
            raise InputError(
                f"the score of image {self._corpus.images[image].id!r} with {texts[text]!r} is "
                f"{rows[text, image]}; expected a finite number"
            )
        return rows

    def _image_states(self) -> Iterator[tuple[int, list[State]]]:
        """The states of all images, a block at a time, each with its first row."""
        for start in range(0, self.dim, IMAGES_A_BLOCK):
            block = range(start, min(start + IMAGES_A_BLOCK, self.dim))
            for first in block[:: self._batch_size]:
                batch = block[first - start : first - start + self._batch_size]
                if any(row not in self._states for row in batch):
                    states = self._scorer.image_states([self._prepared(row) for row in batch])
                    self._states.put(dict(zip(batch, states, strict=True)))
            yield start, [self._states.get(row) for row in block]

    def _prepared(self, row: int) -> Any:
        with naming_image(self._corpus, row):
            return self._scorer.prepare_image(self._source.open(row))


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
            rows = ScoreRows(scorer, corpus, source, digests, states, batch_size)
            check_features(source, rows, corpus, workers)
            work = plan_work(corpus, variants, digests, made_by(rows, batch_size, command))
            work = replace(work, images=tuple(replace(plan, width=0) for plan in work.images))
            header = StoreHeader(
                encoder_spec=rows.spec,
                encoder_fingerprint=rows.fingerprint,
                dim=rows.dim,
                corpus_name=corpus.name,
                corpus_fingerprint=corpus.fingerprint,
                normalisation=corpus.normalisation,
                dtype=dtype,
                corpus_source="" if corpus.source is None else path_text(corpus.source),
                rows="scores",
            )
            writer = open_writer(path, header, [*work.captions, *work.images], force=force)
        with writer:
            pending = writer.pending("images", ORIGINAL)
            writer.write("images", ORIGINAL, pending, np.empty((len(pending), 0), dtype=np.float32))
            told = PairsProgress(progress or Silent(), rows.dim)
            run = Run(rows, corpus, source, writer, work, batch_size, clock, told, label, batches_a_unit=1)
            with run.watched(work.captions, "texts"):
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
