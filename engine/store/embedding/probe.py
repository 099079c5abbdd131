"""One text and one image through an encoder: what it cannot do at all is said before a store is laid out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage
from engine.encoders.encoder import Encoder
from engine.errors import InputError
from engine.store.image_source import ImageSource


def probe(encoder: Encoder, corpus: Corpus, source: ImageSource, digests: Sequence[str]) -> None:
    """Encode the first caption and the first image that can be read, and forget the rows.

    `digests` has one entry an image, "" for a file that is missing or cut off. Raises what the encoder
    raises, and `InputError` when what it gives is no row of its dimensions.
    """
    for caption in corpus.captions[:1]:
        check_row(encoder, "text", encoder.encode_texts([caption.text]))
    row = next((row for row, digest in enumerate(digests) if digest), None)
    if row is None:
        return
    try:
        image = source.open(row)
    except UnreadableImage:
        return  # told with all other unreadable images, in the end
    check_row(encoder, "image", encoder.encode_images([encoder.prepare_image(image)]))


def check_row(encoder: Encoder, kind: str, rows: NDArray[np.float32]) -> None:
    """Raise `InputError` unless there is one row of the encoder's dimensions."""
    if np.shape(rows) != (1, encoder.dim):
        raise InputError(
            f"{encoder.spec}: one {kind} gave rows of shape {np.shape(rows)}, expected (1, {encoder.dim}); "
            "the encoder is wrong"
        )
