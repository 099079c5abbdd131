"""How well synthesized distractors imitate a set: mean, spectrum, and the top similarity queries find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.store.distractors.synthesize import Moments, moments
from engine.store.reader import EmbeddingSet, Store, image_rows
from engine.store.schema import COMPLETE, ORIGINAL
from engine.variants.variant import Modality
from indexes.protocol import RowSource

COMPARED_ROWS = 32_768
COMPARED_QUERIES = 256
READ_ROWS = 8192
QUANTILES = (0.1, 0.5, 0.9, 0.99)
OTHER: Mapping[Modality, Modality] = {"images": "captions", "captions": "images"}


@dataclass(frozen=True)
class TopSimilarity:
    """What `queries` items of the other modality find among `rows` rows of each set.

    `quantiles` maps a quantile over the queries to the top similarity (imitated, synthesized). Rows of a
    query's own image are left out.
    """

    rows: int
    queries: int
    quantiles: Mapping[float, tuple[float, float]]


@dataclass(frozen=True)
class Likeness:
    """Synthesized rows compared with the set they imitate.

    `mean_cosine` is that of the two means, `mean_lengths` their lengths (imitated, synthesized).
    `spectrum_error` is the length of the difference of the sorted eigenvalues, as a share of the length of
    those imitated. `top` is None where the other modality has no item to ask with.
    """

    mean_cosine: float
    mean_lengths: tuple[float, float]
    spectrum_error: float
    top: TopSimilarity | None

    def lines(self) -> Sequence[str]:
        """For people."""
        real, made = self.mean_lengths
        lines = [
            f"mean: cosine {self.mean_cosine:.4f} to the imitated one, length {made:.4f} for {real:.4f}",
            f"covariance: eigenvalues within {self.spectrum_error:.1%}",
        ]
        if self.top is not None:
            quantiles = ", ".join(
                f"p{100 * share:g} {new:.3f} for {old:.3f}"
                for share, (old, new) in self.top.quantiles.items()
            )
            asked = f"{self.top.queries:,} queries in {self.top.rows:,} rows"
            lines.append(f"top similarity of {asked}: {quantiles}")
        return lines


def likeness(store: Store, imitated: EmbeddingSet, found: Moments, made: RowSource) -> Likeness:
    """Compare the first rows of a synthesized set with the set it imitates, whose moments are `found`."""
    drawn = moments(made, np.ones(min(COMPARED_ROWS, made.shape[0]), np.bool_))
    lengths = float(np.linalg.norm(found.mean)), float(np.linalg.norm(drawn.mean))
    difference = np.linalg.norm(found.spectrum - drawn.spectrum)
    return Likeness(
        mean_cosine=float(found.mean @ drawn.mean) / (lengths[0] * lengths[1]),
        mean_lengths=lengths,
        spectrum_error=float(difference / np.linalg.norm(found.spectrum)),
        top=top_similarity(store, imitated, made),
    )


def top_similarity(store: Store, imitated: EmbeddingSet, made: RowSource) -> TopSimilarity | None:
    """The highest similarity that items of the other modality find in as many rows of each."""
    rows = np.flatnonzero(imitated.state == COMPLETE)[: min(COMPARED_ROWS, made.shape[0])]
    asking = store.load(OTHER[imitated.modality], ORIGINAL)
    usable = np.flatnonzero(asking.state == COMPLETE)
    if not len(usable):
        return None
    chosen = np.unique(usable[np.linspace(0, len(usable) - 1, COMPARED_QUERIES).astype(np.int64)])
    queries = np.concatenate([asking.rows.read(row, row + 1) for row in chosen.tolist()]).astype(np.float32)
    images = image_rows(store, imitated)
    own = image_rows(store, asking)[chosen]
    old = highest(queries, imitated.rows, rows, own, images)
    new = highest(queries, made, np.arange(len(rows)), own, None)
    quantiles = {
        share: (float(np.quantile(old, share)), float(np.quantile(new, share))) for share in QUANTILES
    }
    return TopSimilarity(len(rows), len(chosen), quantiles)


def highest(
    queries: NDArray[np.float32],
    source: RowSource,
    rows: NDArray[np.int64],
    own: NDArray[np.int64],
    images: NDArray[np.int64] | None,
) -> NDArray[np.float32]:
    """float32 [queries]: the highest similarity among some rows, those of the queries' `own` images not
    counted where `images` says each row's."""
    best = np.full(len(queries), -np.inf, np.float32)
    for start in range(0, len(rows), READ_ROWS):
        part = rows[start : start + READ_ROWS]
        block = source.read(int(part[0]), int(part[-1]) + 1)[part - part[0]].astype(np.float32)
        scores = queries @ block.T
        if images is not None:
            scores[own[:, None] == images[part]] = -np.inf
        best = np.maximum(best, scores.max(axis=1))
    return best
