"""Example of a plug-in: images and texts by how red, green and blue they are.

Install it (``pip install .``) and use it by its spec: ``colours:rgb``. A real plug-in opens a checkpoint in
`open_family` and raises `InputError` for what it cannot open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from engine.encoders.request import EncoderRequest
from engine.errors import InputError

COLOURS = ("red", "green", "blue")
FLOOR = 0.01  # nothing is without any colour: a row of zeros has no direction


class ColourEncoder:
    """An `engine.encoders.encoder.Encoder` of three dimensions."""

    dim = len(COLOURS)
    fingerprint = hashlib.sha256(f"{COLOURS} {FLOOR}".encode()).hexdigest()

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def prepare_image(self, image: Image) -> NDArray[np.float32]:
        """float32 [3]: the mean of each channel of an RGB image, in [0, 1]."""
        return np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) / 255

    def encode_images(self, images: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """float32 [n, 3], rows L2-normalised."""
        return _unit_rows(images)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, 3], rows L2-normalised: how often each colour is named."""
        return _unit_rows([[text.lower().split().count(colour) for colour in COLOURS] for text in texts])


def _unit_rows(rows: Sequence[Sequence[float] | NDArray[np.float32]]) -> NDArray[np.float32]:
    values = np.array(rows, dtype=np.float32).reshape(len(rows), len(COLOURS)) + FLOOR
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def open_family(request: EncoderRequest) -> ColourEncoder:
    """Open ``colours:rgb``, the only one there is."""
    if request.name != "rgb":
        raise InputError(f"{request.spec}: no such encoder of colours; expected colours:rgb")
    return ColourEncoder(request.spec)
