"""Distractors that are made up: as many as wanted, with the mean and the covariance of a set of the store.

The model is a Gaussian with the sample mean and the sample covariance of the set it imitates, its draws then
L2-normalised. So means and spectra are met (`engine.store.distractors.likeness` measures how well), and with
them the crowding of the space that makes a gallery hard; what is not imitated are clusters, so the nearest
distractor of a query is further away than the nearest of as many real captions would be.

Row i is row i mod 1,024 of block i // 1,024, and a block is drawn from (seed, block) alone: sets of one seed
are prefixes of each other, and neither batches nor kills change a bit. (Another processor or matrix library
may round the last bit otherwise.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.store.arrays import normalise
from engine.store.distractors.layout import BLOCK_ROWS
from engine.store.reader import EmbeddingSet, Store
from engine.store.schema import COMPLETE, MODALITIES
from indexes.protocol import RowSource

MOMENT_ROWS = 8192
STREAM = 0x6974_7264  # keeps these draws apart from others with the same seed


@dataclass(frozen=True)
class Moments:
    """Mean float64 [d] and covariance float64 [d, d] of `rows` rows."""

    rows: int
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def spectrum(self) -> NDArray[np.float64]:
        """float64 [d]: the eigenvalues of the covariance, largest first."""
        values: NDArray[np.float64] = np.maximum(np.linalg.eigvalsh(self.covariance)[::-1], 0.0)
        return values

    def root(self) -> NDArray[np.float64]:
        """float64 [r, d], its transpose times itself being the covariance; r is the covariance's rank."""
        values, vectors = np.linalg.eigh(self.covariance)
        positive = values > values[-1] * len(values) * np.finfo(np.float64).eps
        root: NDArray[np.float64] = (vectors[:, positive] * np.sqrt(values[positive])).T
        return np.ascontiguousarray(root)


def moments(source: RowSource, usable: NDArray[np.bool_]) -> Moments:
    """The moments of the usable rows (bool [n]) among the first n of a source, in one pass."""
    total = np.zeros(source.shape[1])
    squares = np.zeros((source.shape[1], source.shape[1]))
    for start in range(0, len(usable), MOMENT_ROWS):
        stop = min(start + MOMENT_ROWS, len(usable))
        rows = source.read(start, stop)[usable[start:stop]].astype(np.float64)
        total += rows.sum(axis=0)
        squares += rows.T @ rows
    count = int(np.count_nonzero(usable))
    mean = total / count
    return Moments(count, mean, squares / count - np.outer(mean, mean))


@dataclass(frozen=True)
class Synthesizer:
    """Rows drawn from the model; a `engine.store.distractors.writer.RowMaker`."""

    seed: int
    mean: NDArray[np.float64]
    root: NDArray[np.float64]

    @classmethod
    def like(cls, found: Moments, seed: int) -> Synthesizer:
        """The model of some moments."""
        return cls(seed, found.mean, found.root())

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows [start, stop): float64 [stop - start, d]."""
        first = start // BLOCK_ROWS
        blocks = [self.block(number) for number in range(first, -(-stop // BLOCK_ROWS))]
        return np.concatenate(blocks)[start - first * BLOCK_ROWS : stop - first * BLOCK_ROWS]

    def block(self, number: int) -> NDArray[np.float64]:
        """The whole block of that number: float64 [1024, d]."""
        generator = np.random.default_rng([STREAM, self.seed, number])
        draws = generator.standard_normal((BLOCK_ROWS, len(self.root)))
        return normalise(draws @ self.root + self.mean, lambda row: f"block {number} row {row}")


def imitated_set(store: Store, label: str) -> EmbeddingSet:
    """The set ``<modality>/<name>`` to imitate.

    Raises `InputError` when it is not there, not complete, or has fewer than two rows to learn from.
    """
    modality, slash, name = label.partition("/")
    if not slash or modality not in MODALITIES:
        raise InputError(
            f"--like {label}: expected {' or '.join(f'{one}/SET' for one in MODALITIES)}, "
            f"such as captions/original"
        )
    found = store.load(modality, name)
    if np.count_nonzero(found.state == COMPLETE) < 2:
        raise InputError(f"--like {label}: the set has fewer than two rows; there is no spectrum to imitate")
    return found


def recipe(found: EmbeddingSet, content_key: str, seed: int) -> Mapping[str, Any]:
    """What identifies synthesized rows, beside their number."""
    return {
        "from": "synthesized",
        "like": f"{found.modality}/{found.name}",
        "set": content_key,
        "seed": seed,
        "model": "gaussian",
    }
