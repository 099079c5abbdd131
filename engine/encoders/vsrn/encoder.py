"""The VSRN family: ``vsrn:PATH[+PATH][:vocab=PATH]``, one model or an ensemble as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.encoders.device import arithmetic
from engine.encoders.families.vsrn import MOST_MODELS
from engine.encoders.forward import (
    Forward,
    Rows,
    open_forward,
    pad_features,
    pad_ids,
    unit_rows,
)
from engine.encoders.opened import OpenedModel
from engine.encoders.options import checkpoint_paths, read_options
from engine.encoders.regions import ImageInput, check_regions
from engine.encoders.request import EncoderRequest
from engine.encoders.vocabulary import Vocabulary, choose_vocabulary, find_vocabularies
from engine.encoders.vsrn.model import Vsrn, load_vsrn
from engine.encoders.weights import hash_weights
from engine.encoders.words import lower_ascii, split_words
from engine.errors import InputError


def open_family(request: EncoderRequest) -> VsrnEncoder:
    """Open one VSRN checkpoint or several, with the vocabulary that fits each. Raises `InputError`.

    Vocabularies are looked for beside the first checkpoint where ``vocab`` is not given.
    """
    paths = checkpoint_paths(request, MOST_MODELS)
    options = read_options(request)
    forward = open_forward(request)
    models = [load_vsrn(path) for path in paths]
    if any(model.feature_dim != models[0].feature_dim for model in models):
        dims = ", ".join(f"{path} {model.feature_dim}" for path, model in zip(paths, models, strict=True))
        raise InputError(f"{request.spec}: the models read features of other widths: {dims}")
    files = find_vocabularies(options.paths("vocab") or [paths[0].parent])
    words = [
        choose_vocabulary(files, model.words, str(path)) for path, model in zip(paths, models, strict=True)
    ]
    return VsrnEncoder(request, forward, models, words)


class VsrnEncoder(OpenedModel):
    """VSRN as an `Encoder`; it reads region features, any number of regions, in their order.

    The score of an ensemble is the mean of its models' cosines. It is one inner product: their embeddings one
    after the other, divided by the square root of their number.
    """

    reads: ImageInput = "regions"

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        models: Sequence[Vsrn],
        words: Sequence[Vocabulary],
    ) -> None:
        super().__init__(request, forward, _identity(request, models, words))
        self._models, self._words = models, words
        for model in models:
            model.image.to(forward.device)
            model.text.to(forward.device)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return sum(model.dim for model in self._models)

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        return {
            "images": f"features of {self._models[0].feature_dim} values, regions in their order",
            "texts": f"words of {', '.join(words.source for words in self._words)}",
            "models": str(len(self._models)),
            "computed": self._forward.describe(),
        }

    def prepare_image(self, image: Any) -> NDArray[np.float32]:
        """The checked features float32 [regions, dim] of an image."""
        return check_regions(image, self.spec, self._models[0].feature_dim)

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised. `InputError` for features that give NaN."""
        return self._joined(
            [
                unit_rows(len(images), model.dim, "image", self._image_vectors(model, images))
                for model in self._models
            ]
        )

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dim], rows L2-normalised; nothing is cut."""
        return self._joined(
            [
                unit_rows(len(texts), model.dim, "text", self._text_vectors(model, words, texts))
                for model, words in zip(self._models, self._words, strict=True)
            ]
        )

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: none of them; nothing is cut."""
        return np.zeros(len(texts), dtype=np.bool_)

    def _joined(self, rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1) / np.float32(math.sqrt(len(rows)))

    def _image_vectors(
        self, model: Vsrn, images: Sequence[NDArray[np.float32]]
    ) -> Iterator[tuple[Rows, Tensor]]:
        """A batch has one number of regions: padding would change the result."""
        counts = [len(image) for image in images]
        for rows in self._forward.batches(counts, equal=True):
            features, _ = pad_features([images[row] for row in rows], self._forward.device)
            with self._forward.passes():
                vectors = model.finish(model.image(self._forward.filled(features)).vectors)
            yield rows, vectors[: len(rows)]

    def _text_vectors(
        self, model: Vsrn, words: Vocabulary, texts: Sequence[str]
    ) -> Iterator[tuple[Rows, Tensor]]:
        tokens = [words.encode(split_words(lower_ascii(text))) for text in texts]
        for rows in self._forward.batches([len(ids) for ids in tokens]):
            ids, lengths = pad_ids([tokens[row] for row in rows], self._forward.device)
            with self._forward.passes():
                vectors = model.finish(model.text(self._forward.filled(ids), self._forward.filled(lengths)))
            yield rows, vectors[: len(rows)]


def _identity(request: EncoderRequest, models: Sequence[Vsrn], words: Sequence[Vocabulary]) -> dict[str, Any]:
    return {
        "family": request.family,
        "weights": [hash_weights(module) for model in models for module in (model.image, model.text)],
        "absolute": [model.absolute for model in models],
        "vocabularies": [vocabulary.fingerprint for vocabulary in words],
        **arithmetic(request),
    }
