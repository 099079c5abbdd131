"""Models that score pairs: a matching head on a shortlist, or a model that has no embedding.

Both work on states: what a model needs of one image or one text, computed once and kept. A state is a
float32 array whose first axis is the model's own (tokens, regions, words) and may differ between items.
The score of a pair depends on its two states only, never on the gallery, the block or the batch (beyond
rounding, 1e-6), so one more variant costs its own pairs and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from engine.encoders.encoder import Encoder

State = NDArray[np.float32]
Join = Literal["add", "replace"]
PUBLISHED_SHORTLISTS: Mapping[str, int] = {"coco": 256, "flickr30k": 128}
"""k_test of ALBEF's and BLIP's evaluation, by data set."""


class Reranker(Encoder, Protocol):
    """An encoder whose matching head scores the best candidates of the first stage once more.

    The first stage ranks by the cosine of `encode_images` and `encode_texts`. The best candidates of a query
    (`shortlist` says how many; more than the gallery has means all of it) get a joined score; the rest come
    below every one of them, whatever that score is. The published code writes -100 for the rest.
    """

    @property
    def join(self) -> Join:
        """How a pair's score joins its cosine: "add" (their sum) or "replace" (the score alone)."""

    @property
    def shortlist(self) -> Mapping[str, int]:
        """Published shortlist lengths (k_test) by data set: ``{"coco": 256, "flickr30k": 128}``."""

    def image_states(self, images: Sequence[Any]) -> list[State]:
        """One state [tokens, width] an image that went through `prepare_image`, for `score_pairs`."""

    def text_states(self, texts: Sequence[str]) -> list[State]:
        """One state [tokens, width] a text, for `score_pairs`."""

    def score_pairs(self, image_state: State, text_states: Sequence[State]) -> NDArray[np.float32]:
        """float32 [texts]: the matching score of the image with each text, a logit (any real number)."""


class PairScorer(Protocol):
    """A model with a score for a pair and no vector for an item; every pair is scored, block by block."""

    @property
    def spec(self) -> str:
        """The spec string it was found by."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of weights + vocabulary + tokeniser + precision: equal means equal scores."""

    def prepare_image(self, image: Any) -> Any:
        """The checked input of one image (for region models: its features, float32 [regions, dim])."""

    def image_states(self, images: Sequence[Any]) -> list[State]:
        """One state [regions, width] an image that went through `prepare_image`."""

    def text_states(self, texts: Sequence[str]) -> list[State]:
        """One state [words, width] a text."""

    def score_block(self, image_states: Sequence[State], text_states: Sequence[State]) -> NDArray[np.float32]:
        """float32 [images, texts]: a block of the full matrix, for any rows of either side."""


def is_pair_scorer(model: Encoder | PairScorer) -> TypeGuard[PairScorer]:
    """Whether a model scores pairs and has no vector for an item."""
    return hasattr(model, "score_block")
