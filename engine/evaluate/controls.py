"""What an attack does without the queries: a control for fakes that win by how they look, not what they say.

Take the mean direction of all queries in the place of each query: it knows what images (or captions) of this
corpus are like and nothing of any one of them. The share of queries whose best own fake then scores above
their best own original says how often the fake is preferred for itself: by its style, its surface, its
frequency. Where n fakes and m originals are alike it is near n / (n + m), by their numbers alone: 50% for as
many fakes. Far above it, part of IR@1 is no failure of matching.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.gallery import GATHER_ROWS, Items, Queries
from engine.evaluate.sample import BLIND_ASKED, BLIND_FOOLED, Values
from indexes.exact import exact_score_block


def without_query(queries: Queries, gallery: Items, fakes: Items) -> dict[str, Values]:
    """Per-query values float64 [queries]: whether the query has a fake of its own, and whether the best of
    these wins against its best original without the query: 1, 1/2 for a tie, or 0.

    Nothing where the mean of the queries has no direction.
    """
    mean = mean_direction(queries)
    if mean is None:
        return {}
    images = int(max(gallery.image.max(), fakes.image.max(), queries.image.max())) + 1
    original = best_by_image(mean, gallery, images)[queries.image]
    fake = best_by_image(mean, fakes, images)[queries.image]
    wins = np.where(fake > original, 1.0, np.where(fake == original, 0.5, 0.0))
    asked = (fake > -np.inf).astype(np.float64)
    return {BLIND_ASKED: asked, BLIND_FOOLED: wins * asked}


def mean_direction(queries: Queries) -> NDArray[np.float32] | None:
    """The L2-normalised mean of the queries, summed in float64: float32 [1, dim]; None for a mean of zero."""
    total = np.zeros(queries.items.rows.shape[1])
    for start, stop in queries.blocks(GATHER_ROWS):
        total += queries.read(start, stop).sum(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(total))
    return None if length == 0 else (total / length).astype(np.float32)[None, :]


def best_by_image(vector: NDArray[np.float32], items: Items, images: int) -> NDArray[np.float32]:
    """float32 [images]: the highest exact score of any item of each image; -inf where it has none."""
    best = np.full(images, -np.inf, dtype=np.float32)
    for start in range(0, len(items), GATHER_ROWS):
        stop = min(start + GATHER_ROWS, len(items))
        scores = exact_score_block(vector, items.rows.read(start, stop))[0]
        np.maximum.at(best, items.image[start:stop], scores)
    return best
