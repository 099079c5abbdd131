"""Text encoders without weights, for tests of embedding influence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.variants.influence import Influence


class BagOfWords:
    """Every word has a direction of its own, a text their normalised sum, later words weighing more.

    Rows move by up to `shift` with their place in a batch, as the last bits do in real encoders.
    """

    def __init__(self, spec: str = "bag:of-words", dim: int = 24, shift: float = 0.0) -> None:
        self.spec = spec
        self.fingerprint = hashlib.sha256(spec.encode()).hexdigest()
        self.given: list[str] = []
        self._dim, self._shift = dim, shift
        self._directions: dict[str, np.ndarray] = {}

    def direction(self, word: str) -> np.ndarray:
        if word not in self._directions:
            self._directions[word] = self._new_direction(word)
        return self._directions[word]

    def _new_direction(self, word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(f"{self.spec} {word}".encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self._dim)

    def row(self, text: str) -> np.ndarray:
        words = enumerate(text.split())
        return self.direction("") + sum((1 + 0.1 * place) * self.direction(word) for place, word in words)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.given += texts
        rows = np.array([self.row(text) for text in texts])
        rows += self._shift * np.linspace(-1, 1, len(rows))[:, None]
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def influence_of(
    *specs: str, named: Callable[[str], str] = str, **options: float
) -> tuple[Influence, dict[str, BagOfWords]]:
    """An `Influence` of `BagOfWords`, and the encoders that it has opened by spec."""
    opened: dict[str, BagOfWords] = {}

    def open_encoder(spec: str) -> BagOfWords:
        opened[spec] = BagOfWords(spec, **options)  # type: ignore[arg-type]
        return opened[spec]

    return Influence(specs or ("bag:of-words",), open_encoder, named=named), opened


def captions_as_corpus(texts: Sequence[str], name: Callable[[int], str] = "c{}".format) -> Corpus:
    """One image a caption."""
    return Corpus(
        "test",
        tuple(ImageItem(f"i{row}", f"{row}.png") for row in range(len(texts))),
        tuple(Caption(name(row), text, row) for row, text in enumerate(texts)),
    )


@pytest.fixture
def make_influence() -> Callable[..., tuple[Influence, dict[str, BagOfWords]]]:
    """`influence_of`."""
    return influence_of


@pytest.fixture
def make_corpus() -> Callable[..., Corpus]:
    """`captions_as_corpus`."""
    return captions_as_corpus
