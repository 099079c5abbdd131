"""What every model opened from a request has in common, and how an encoder's rows come from its towers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.encoders.forward import Forward, Rows, unit_rows
from engine.encoders.identity import json_digest
from engine.encoders.request import EncoderRequest


class OpenedModel:
    """A model with the request it was opened from, and what its fingerprint is the digest of."""

    def __init__(self, request: EncoderRequest, forward: Forward, parts: Mapping[str, Any]) -> None:
        self._spec, self._forward, self._parts = request.spec, forward, parts

    @property
    def spec(self) -> str:
        """The spec string it was found by."""
        return self._spec

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of `fingerprint_parts`: equal means equal results."""
        return json_digest(self._parts)

    @property
    def fingerprint_parts(self) -> Mapping[str, Any]:
        """What the fingerprint is the digest of, by topic: weights, preprocessing, vocabulary, precision.

        In bf16 and fp16 also the kind of device and the batch size (`engine.encoders.device.arithmetic`).
        """
        return self._parts


class OpenedEncoder(OpenedModel, ABC):
    """An `Encoder` of two towers that give vectors of `dim` values."""

    def __init__(self, request: EncoderRequest, forward: Forward, parts: Mapping[str, Any], dim: int) -> None:
        super().__init__(request, forward, parts)
        self._dim = dim

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self._dim

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised. Raises `InputError` for an embedding with no direction."""
        return unit_rows(len(images), self._dim, "image", self._image_vectors(images))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised; a text too long is cut as the model's tokenizer does.

        Raises `InputError` for an embedding with no direction, and for a text too long where the model's
        published code does not cut.
        """
        return unit_rows(len(texts), self._dim, "text", self._text_vectors(texts))

    @abstractmethod
    def _image_vectors(self, images: Sequence[Any]) -> Iterable[tuple[Rows, Tensor]]:
        """Rows and their vectors [n, dim], batch by batch, of images that went through `prepare_image`."""

    @abstractmethod
    def _text_vectors(self, texts: Sequence[str]) -> Iterable[tuple[Rows, Tensor]]:
        """Rows and their vectors [n, dim], batch by batch."""
