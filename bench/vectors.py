"""Made-up embeddings: captions lie around their images, and everything shares a mean, as in real models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CAPTION_NOISE = 4.5  # of a caption about its image, in units of the images' own spread
BLOCK = 8192


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rows scaled to length 1, float32."""
    scaled: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(
        np.float32
    )
    return scaled


@dataclass(frozen=True)
class Space:
    """Seeded vectors of one made-up model: `images` float64 [n, dim] not scaled, `mean` float64 [dim]."""

    images: NDArray[np.float64]
    mean: NDArray[np.float64]
    seed: int

    @classmethod
    def draw(cls, images: int, dim: int, seed: int) -> Space:
        """So many images of that length."""
        random = np.random.default_rng([seed, 0])
        return cls(random.standard_normal((images, dim)), random.standard_normal(dim), seed)

    def image_rows(self) -> NDArray[np.float32]:
        """The images, L2-normalised, float32 [n, dim]."""
        return unit(self.images + self.mean)

    def near(self, images: NDArray[np.int64], noise: float, number: int) -> NDArray[np.float32]:
        """Rows around the given images, float32 [len(images), dim]; another `number` draws others."""
        random = np.random.default_rng([self.seed, 1, number])
        rows = np.empty((len(images), self.images.shape[1]), np.float32)
        for start in range(0, len(images), BLOCK):
            part = self.images[images[start : start + BLOCK]]
            rows[start : start + BLOCK] = unit(part + noise * random.standard_normal(part.shape) + self.mean)
        return rows


def queries_and_rows(
    queries: int, rows: int, dim: int, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Image queries [queries, dim] and captions [rows, dim] that belong to them in turn."""
    space = Space.draw(queries, dim, seed)
    return space.image_rows(), space.near(np.arange(rows) % queries, CAPTION_NOISE, 0)
