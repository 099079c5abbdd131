"""VSRN's tensors: from a checkpoint to both towers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engine.encoders.checkpoint import listed_weights, published_options, read_checkpoint
from engine.encoders.recurrent import GruSizes, read_gru_sizes, run_gru
from engine.encoders.weights import Weights
from engine.errors import InputError

FAMILY = "vsrn"


class ImageOutput(NamedTuple):
    """Vectors [n, dim] before they are normalised, and the region states [n, regions, dim] of the graph."""

    vectors: Tensor
    regions: Tensor


@dataclass(frozen=True)
class ImageSizes:
    """Sizes of the image tower. `final_norm`: the Flickr30k form, with a batch norm at the end."""

    inputs: int
    dim: int
    inner: tuple[int, ...]
    gru: GruSizes
    final_norm: bool


class ImageTower(nn.Module):
    """Region features float32 [n, regions, inputs] to `ImageOutput`.

    All regions are true ones: the number of regions and their order count, so a batch has one number of
    regions and no padding. An item whose features cannot be normalised (all zero) gives NaN, as published.
    """

    def __init__(self, sizes: ImageSizes) -> None:
        super().__init__()
        self.fc = nn.Linear(sizes.inputs, sizes.dim)
        self.layers = len(sizes.inner)
        for number, inner in enumerate(sizes.inner, start=1):
            self.add_module(f"Rs_GCN_{number}", _GraphLayer(sizes.dim, inner))
        self.img_rnn = sizes.gru.make()
        self.bn = nn.BatchNorm1d(sizes.dim) if sizes.final_norm else None

    def forward(self, features: Tensor) -> ImageOutput:
        """See the class."""
        states = self.fc(features)
        if self.bn is None:
            states = normalised(states)
        states = states.transpose(1, 2)
        for number in range(1, self.layers + 1):
            states = self.get_submodule(f"Rs_GCN_{number}")(states)
        states = normalised(states.transpose(1, 2))
        vectors = self.img_rnn(states)[1][-1]
        return ImageOutput(vectors if self.bn is None else self.bn(vectors), states)


class _GraphLayer(nn.Module):
    """[n, dim, regions] to the same: affinities divided by the number of regions, and a residual."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.g = nn.Conv1d(dim, inner, kernel_size=1)
        self.theta = nn.Conv1d(dim, inner, kernel_size=1)
        self.phi = nn.Conv1d(dim, inner, kernel_size=1)
        self.W = nn.Sequential(nn.Conv1d(inner, dim, kernel_size=1), nn.BatchNorm1d(dim))

    def forward(self, states: Tensor) -> Tensor:
        affinity = self.theta(states).transpose(1, 2) @ self.phi(states) / states.shape[2]
        passed = self.g(states) @ affinity.transpose(1, 2)
        result: Tensor = self.W(passed) + states
        return result


class TextTower(nn.Module):
    """Word ids int64 [n, longest] and lengths int64 [n] (CPU) to vectors [n, dim], not normalised."""

    def __init__(self, words: int, gru: GruSizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, gru.input_width)
        self.rnn = gru.make()

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """See the class."""
        outputs = run_gru(self.rnn, self.embed(ids), lengths)
        return outputs[torch.arange(len(ids)), lengths - 1]


def normalised(states: Tensor) -> Tensor:
    """Divided by the length along dimension 1, nothing added to it: of [n, regions, dim] that is the
    regions."""
    lengths: Tensor = torch.linalg.vector_norm(states, dim=1, keepdim=True)
    return states / lengths


@dataclass(frozen=True)
class Vsrn:
    """Both towers in evaluation mode. `absolute`: the embeddings are absolute values (``use_abs``)."""

    image: ImageTower
    text: TextTower
    dim: int
    feature_dim: int
    words: int
    absolute: bool

    def finish(self, vectors: Tensor) -> Tensor:
        """Embeddings [n, dim] from vectors of either tower."""
        rows = normalised(vectors)
        return rows.abs() if self.absolute else rows


def load_vsrn(path: Path, *, absolute: bool | None = None) -> Vsrn:
    """The model in one checkpoint of VSRN; the key ``bn.weight`` tells the Flickr30k form from COCO's.

    `absolute` says whether embeddings are absolute values; None takes the checkpoint's own ``use_abs``.
    Raises `InputError` for a key that is missing, unexpected or wrongly shaped, and for a model trained
    without normalised embeddings.
    """
    checkpoint = read_checkpoint(path)
    options = published_options(checkpoint)
    if options.get("no_imgnorm") or options.get("measure", "cosine") != "cosine":
        raise InputError(f"{path}: trained for another score than the cosine; not supported")
    image, text = listed_weights(checkpoint, FAMILY, path, ("image", "text"))
    sizes = _read_image_sizes(image)
    words = text.shape("embed.weight", 2)[0]
    gru = read_gru_sizes(text, "rnn.")
    if gru.width != sizes.gru.width:
        raise InputError(
            f"{path}: image vectors have {sizes.gru.width} values, text vectors {gru.width}; "
            "expected the same number"
        )
    return Vsrn(
        image=image.build(lambda: ImageTower(sizes)),
        text=text.build(lambda: TextTower(words, gru)),
        dim=gru.width,
        feature_dim=sizes.inputs,
        words=words,
        absolute=bool(options.get("use_abs", False)) if absolute is None else absolute,
    )


def _read_image_sizes(weights: Weights) -> ImageSizes:
    dim, inputs = weights.shape("fc.weight", 2)
    layers = _count_layers(weights)
    return ImageSizes(
        inputs=inputs,
        dim=dim,
        inner=tuple(weights.shape(f"Rs_GCN_{n}.g.weight", 3)[0] for n in range(1, layers + 1)),
        gru=read_gru_sizes(weights, "img_rnn."),
        final_norm="bn.weight" in weights,
    )


def _count_layers(weights: Weights) -> int:
    numbers = {key.split(".")[0] for key in weights.tensors if key.startswith("Rs_GCN_")}
    return max(len(numbers), 1)
