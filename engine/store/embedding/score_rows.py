"""A pair scorer in the place of an encoder: the scores of a caption with all images are its row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.encoders.registry import describe_encoder
from engine.encoders.scorer import PairScorer, State
from engine.errors import InputError
from engine.store.image_source import ImageSource, naming_image, reads_of
from engine.store.kept_states import KeptStates

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
