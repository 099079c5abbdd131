"""The VSE-infinity family: ``vse_infty:PATH[:vocab=PATH,image_size=512]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.device import arithmetic
from engine.encoders.forward import (
    Forward,
    Rows,
    open_forward,
    pad_features,
    pad_ids,
)
from engine.encoders.opened import OpenedEncoder
from engine.encoders.options import CheckpointOptions, checkpoint_paths, read_options
from engine.encoders.regions import ImageInput, check_regions
from engine.encoders.request import EncoderRequest
from engine.encoders.vocabulary import MASK, choose_vocabulary, find_vocabularies
from engine.encoders.vse_infty.model import VseInfty, load_vse_infty, normalised
from engine.encoders.weights import hash_weights
from engine.encoders.wordpiece import read_wordpiece
from engine.encoders.words import split_words
from engine.errors import InputError


@dataclass(frozen=True)
class PixelRecipe:
    """The order of the channels of RGB, and what is taken off and divided by, for values from 0 to 255."""

    name: str
    channels: list[int]
    means: NDArray[np.float32]
    deviations: NDArray[np.float32]


# Caffe's networks: blue, green, red, not scaled; torchvision's: ImageNet's mean and deviation
RECIPES = {
    "caffe": PixelRecipe(
        "BGR", [2, 1, 0], np.array((102.9801, 115.9465, 122.7717), np.float32), np.ones(3, np.float32)
    ),
    "torchvision": PixelRecipe(
        "RGB, ImageNet's mean and std",
        [0, 1, 2],
        255 * np.array((0.485, 0.456, 0.406), np.float32),
        255 * np.array((0.229, 0.224, 0.225), np.float32),
    ),
}

Tokenise = Callable[[str], list[int]]


def open_family(request: EncoderRequest) -> VseInftyEncoder:
    """Open a VSE-infinity checkpoint. Raises `InputError`.

    BERT models need ``vocab.txt``, GRU models the vocabulary they were trained with, JSON or pickle; both are
    looked for beside the checkpoint where ``vocab`` is not given.
    """
    (path,) = checkpoint_paths(request, 1)
    options = read_options(request)
    forward = open_forward(request)
    model = load_vse_infty(
        path, image_size=options.number("image_size"), text_heads=options.number("text_heads")
    )
    find = _read_words if model.positions is None else _read_word_pieces
    tokenise, vocabulary = find(path, options, model)
    return VseInftyEncoder(request, forward, model, tokenise, vocabulary)


def _read_word_pieces(path: Path, options: CheckpointOptions, model: VseInfty) -> tuple[Tokenise, str]:
    pieces = read_wordpiece(options.path("vocab", path.parent / "vocab.txt"), model.words, path)
    return lambda text: pieces.encode(text)[0], pieces.fingerprint


def _read_words(path: Path, options: CheckpointOptions, model: VseInfty) -> tuple[Tokenise, str]:
    """The published code adds ``<mask>`` behind the words of the file before it makes the model."""
    files = find_vocabularies(options.paths("vocab") or [path.parent])
    extended = [vocabulary.with_word(MASK) for vocabulary in files]
    words = choose_vocabulary(extended, model.words, str(path), added=1)
    return lambda text: words.encode(split_words(text.lower())), words.fingerprint


class VseInftyEncoder(OpenedEncoder):
    """A VSE-infinity model as an `Encoder`.

    `reads` says what an image is to it: an image for a grid model with its backbone, else precomputed
    features [regions or grid cells, dim], any number of them. Nothing is cut: a text longer than BERT's
    positions is an error, as it is (an index error) in the published code.
    """

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        model: VseInfty,
        tokenise: Tokenise,
        vocabulary: str,
    ) -> None:
        super().__init__(request, forward, _identity(request, model, vocabulary), model.dim)
        self._model, self._tokenise = model, tokenise
        self._recipe = RECIPES["caffe" if model.backbone is None else model.backbone.style]
        for module in _modules(model):
            module.to(forward.device)

    @property
    def reads(self) -> ImageInput:
        """What `prepare_image` takes: an RGB image, or features."""
        return "regions" if self._model.backbone is None else "images"

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        size = self._model.image_size
        pixels = f"{size} x {size}, squashed, bilinear, {self._recipe.name}"
        features = (
            f"features of {self._model.feature_dim} values, {'grid cells' if self._model.grid else 'regions'}"
        )
        return {
            "images": features if self.reads == "regions" else pixels,
            "texts": "BERT" if self._model.positions else "words and a GRU",
            "computed": self._forward.describe(),
        }

    def prepare_image(self, image: Any) -> Any:
        """float32 [3, side, side] of an RGB image, or the checked features float32 [regions, dim]."""
        if self.reads == "regions":
            return check_regions(image, self.spec, self._model.feature_dim)
        return _pixels(image, self._model.image_size, self._recipe)

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: none of them; nothing is cut."""
        return np.zeros(len(texts), dtype=np.bool_)

    def _image_vectors(self, images: Sequence[Any]) -> Iterator[tuple[Rows, Tensor]]:
        return self._feature_vectors(images) if self.reads == "regions" else self._pixel_vectors(images)

    def _feature_vectors(self, images: Sequence[NDArray[np.float32]]) -> Iterator[tuple[Rows, Tensor]]:
        for rows in self._forward.batches([len(image) for image in images]):
            features, lengths = pad_features([images[row] for row in rows], self._forward.device)
            with self._forward.passes():
                output = self._model.head(self._forward.filled(features), self._forward.filled(lengths))
                vectors = normalised(output.vectors)[: len(rows)]
            yield rows, vectors

    def _pixel_vectors(self, images: Sequence[Tensor]) -> Iterator[tuple[Rows, Tensor]]:
        for rows, pixels in self._forward.image_batches(images):
            with self._forward.passes():
                cells = self._model.grid_cells(pixels)
                lengths = torch.full((len(cells),), cells.shape[1])
                vectors = normalised(self._model.head(cells, lengths).vectors)[: len(rows)]
            yield rows, vectors

    def _text_vectors(self, texts: Sequence[str]) -> Iterator[tuple[Rows, Tensor]]:
        tokens = [self._tokenise(text) for text in texts]
        self._check_lengths(texts, tokens)
        for rows in self._forward.batches([len(ids) for ids in tokens]):
            ids, lengths = pad_ids([tokens[row] for row in rows], self._forward.device)
            with self._forward.passes():
                output = self._model.text(self._forward.filled(ids), self._forward.filled(lengths))
                vectors = normalised(output.vectors)[: len(rows)]
            yield rows, vectors

    def _check_lengths(self, texts: Sequence[str], tokens: Sequence[list[int]]) -> None:
        most = self._model.positions
        for text, ids in zip(texts, tokens, strict=True):
            if most is not None and len(ids) > most:
                raise InputError(
                    f"{self.spec}: the text {text[:40]!r}... has {len(ids)} tokens; the model reads at "
                    f"most {most}, and its published code does not cut"
                )


def _pixels(image: Image, side: int, recipe: PixelRecipe) -> Tensor:
    """float32 [3, side, side] of an RGB image.

    Bilinear between pixel centres without antialiasing, as OpenCV resizes; the aspect is not kept.
    """
    values = (np.asarray(image, dtype=np.float32)[:, :, recipe.channels] - recipe.means) / recipe.deviations
    pixels = torch.from_numpy(values.transpose(2, 0, 1).copy())[None]
    return functional.interpolate(pixels, size=(side, side), mode="bilinear", align_corners=False)[0]


def _modules(model: VseInfty) -> list[nn.Module]:
    return [module for module in (model.head, model.backbone, model.text) if module is not None]


def _identity(request: EncoderRequest, model: VseInfty, vocabulary: str) -> dict[str, Any]:
    return {
        "family": request.family,
        "weights": [hash_weights(module) for module in _modules(model)],
        "heads": getattr(model.text, "heads", None),
        "image_size": None if model.backbone is None else model.image_size,
        **({"backbone": model.backbone.style} if model.backbone and model.backbone.style != "caffe" else {}),
        "vocabulary": vocabulary,
        **arithmetic(request),
    }
