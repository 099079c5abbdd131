"""VSE-infinity's tensors: from a checkpoint to both towers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.bert import Bert, BertSizes, attention_mask, read_bert_sizes
from engine.encoders.checkpoint import listed_weights, published_options, read_checkpoint
from engine.encoders.recurrent import GruSizes, mean_of_directions, read_gru_sizes, run_gru
from engine.encoders.vse_infty.backbone import Backbone, BackboneSizes, read_backbone_sizes
from engine.encoders.vse_infty.pooling import Pooling, PoolingSizes, read_pooling_sizes
from engine.encoders.weights import Weights
from engine.errors import InputError

FAMILY = "vse_infty"
NORM_EPS = 1e-8
_PIXELS_AT_SCALE_ONE = 256
_USUAL_SCALE = 2
BACKBONES = ("detector", "wsl", "imagenet_res50", "imagenet_res101", "imagenet_res152")
# a second batch norm that is never applied; two more copies of the backbone under other names
_UNUSED_IN_IMAGE = (r"^mlp\.bns\.1\.", r"^backbone\.resnet\.")
_UNUSED_IN_TEXT = (r"^bert\.pooler\.", r"\.position_ids$")


class Pooled(NamedTuple):
    """Vectors [n, dim] before they are normalised, and the pooling coefficients [n, longest]."""

    vectors: Tensor
    coefficients: Tensor


def normalised(vectors: Tensor) -> Tensor:
    """Rows divided by their length plus 1e-8."""
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / (lengths + NORM_EPS)


@dataclass(frozen=True)
class HeadSizes:
    """Sizes of an image head; `inner` is the width of its second branch, None where there is none (grids)."""

    inputs: int
    dim: int
    inner: int | None
    pooling: PoolingSizes


class ImageHead(nn.Module):
    """Features float32 [n, longest, inputs] and lengths int64 [n] to `Pooled`."""

    def __init__(self, sizes: HeadSizes) -> None:
        super().__init__()
        self.fc = nn.Linear(sizes.inputs, sizes.dim)
        self.mlp = None if sizes.inner is None else _Branch(sizes.inputs, sizes.inner, sizes.dim)
        self.gpool = Pooling(sizes.pooling)

    def forward(self, features: Tensor, lengths: Tensor) -> Pooled:
        """See the class."""
        projected = self.fc(features)
        if self.mlp is not None:
            projected = projected + self.mlp(features)
        return Pooled(*self.gpool(projected, lengths))


class _Branch(nn.Module):
    """Linear, batch norm over all places, ReLU, linear; on the raw features."""

    def __init__(self, inputs: int, inner: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, inner), nn.Linear(inner, outputs)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(inner)])

    def forward(self, features: Tensor) -> Tensor:
        inner = self.layers[0](features)
        inner = self.bns[0](inner.flatten(0, 1)).view(inner.shape)
        result: Tensor = self.layers[1](functional.relu(inner))
        return result


class BertText(nn.Module):
    """Token ids int64 [n, longest] (0 is padding) and lengths int64 [n] (CPU) to `Pooled`.

    BERT's last layer at every token is pooled, ``[CLS]`` and ``[SEP]`` included.
    """

    def __init__(self, sizes: BertSizes, dim: int, pooling: PoolingSizes) -> None:
        super().__init__()
        self.dim = dim
        self.heads = sizes.heads
        self.layers = sizes.layers
        self.bert = Bert(sizes)
        self.linear = nn.Linear(sizes.width, dim)
        self.gpool = Pooling(pooling)

    def forward(self, ids: Tensor, lengths: Tensor) -> Pooled:
        """See the class."""
        hidden = self.bert.run(self.bert.embed(ids), attention_mask(ids), 0, self.layers)
        return Pooled(*self.gpool(self.linear(hidden), lengths))


class GruText(nn.Module):
    """Word ids int64 [n, longest] and lengths int64 [n] (CPU) to `Pooled`; start and end count as words."""

    def __init__(self, words: int, gru: GruSizes, pooling: PoolingSizes) -> None:
        super().__init__()
        self.dim = gru.width
        self.embed = nn.Embedding(words, gru.input_width)
        self.rnn = gru.make()
        self.gpool = Pooling(pooling)

    def forward(self, ids: Tensor, lengths: Tensor) -> Pooled:
        """See the class."""
        states = mean_of_directions(run_gru(self.rnn, self.embed(ids), lengths))
        return Pooled(*self.gpool(states, lengths))


class GridTower(nn.Module):
    """A head over grid cells, behind its backbone where the checkpoint holds one (None otherwise)."""

    def __init__(self, head: HeadSizes, backbone: BackboneSizes | None) -> None:
        super().__init__()
        self.backbone = None if backbone is None else Backbone(backbone)
        self.image_encoder = ImageHead(head)


@dataclass(frozen=True)
class VseInfty:
    """Both towers, their modules in evaluation mode.

    `backbone` is None for a model that reads features: regions, or (`grid`) cells made elsewhere.
    `feature_dim` is the width of a feature, `image_size` the side in pixels of a backbone's input,
    `words` the rows of the token embeddings, `positions` BERT's longest text (None for a GRU).
    """

    head: ImageHead
    backbone: Backbone | None
    text: BertText | GruText
    grid: bool
    dim: int
    feature_dim: int
    image_size: int
    words: int
    positions: int | None

    def grid_cells(self, pixels: Tensor) -> Tensor:
        """float32 [n, 3, side, side] through the backbone to [n, cells, feature_dim]."""
        if self.backbone is None:
            raise ValueError("this model has no backbone")
        cells: Tensor = self.backbone(pixels).flatten(2).transpose(1, 2)
        return cells


def load_vse_infty(path: Path, *, image_size: int | None = None, text_heads: int | None = None) -> VseInfty:
    """The model in a checkpoint of VSE-infinity; regions or grid, BERT or GRU is read from its keys.

    `image_size` is the side in pixels of a grid model's image; None takes the checkpoint's own input scale,
    512 when it does not say. Raises `InputError` for a key that is missing, unexpected or wrongly shaped,
    and for embeddings that are not normalised, which are not covered.
    """
    checkpoint = read_checkpoint(path)
    options = published_options(checkpoint)
    _check_options(path, options)
    image, text = listed_weights(checkpoint, FAMILY, path, ("image", "text"))
    image, text = image.without(*_UNUSED_IN_IMAGE), text.without(*_UNUSED_IN_TEXT)
    grid = any(key.startswith("image_encoder.") for key in image.tensors)
    source = options.get("backbone_source")
    head, backbone = _load_grid(image, source) if grid else (_load_head(image), None)
    tower, words, positions = _load_text(text, text_heads)
    dim = image.shape("image_encoder.fc.weight" if grid else "fc.weight", 2)[0]
    if tower.dim != dim:
        raise InputError(
            f"{path}: image vectors have {dim} values, text vectors {tower.dim}; expected the same"
        )
    return VseInfty(
        head=head,
        backbone=backbone,
        text=tower,
        grid=grid,
        dim=dim,
        feature_dim=head.fc.in_features,
        image_size=image_size or _trained_size(options),
        words=words,
        positions=positions,
    )


def _check_options(path: Path, options: Mapping[str, Any]) -> None:
    for option in ("no_imgnorm", "no_txtnorm"):
        if options.get(option):
            raise InputError(f"{path}: trained with {option}: its scores are no cosines; not supported")
    backbone = options.get("backbone_source", BACKBONES[0])
    if options.get("precomp_enc_type") == "backbone" and backbone not in BACKBONES:
        raise InputError(f"{path}: its backbone is {backbone!r}; expected one of {', '.join(BACKBONES)}")


def _trained_size(options: Mapping[str, Any]) -> int:
    scale = options.get("input_scale_factor", _USUAL_SCALE)
    return int(_PIXELS_AT_SCALE_ONE * scale)


def _load_head(weights: Weights) -> ImageHead:
    head: ImageHead = weights.build(lambda: ImageHead(_read_head_sizes(weights)))
    return head


def _load_grid(weights: Weights, source: str | None) -> tuple[ImageHead, Backbone | None]:
    sizes = _read_head_sizes(weights.below("image_encoder."))
    layers = weights.below("backbone.")
    backbone = read_backbone_sizes(layers, source) if layers.tensors else None
    if backbone is not None and backbone.stages[-1].outputs != sizes.inputs:
        raise InputError(
            f"{weights.source}: the backbone gives {backbone.stages[-1].outputs} channels and "
            f"the head reads {sizes.inputs}; expected the same number"
        )
    tower: GridTower = weights.build(lambda: GridTower(sizes, backbone))
    return tower.image_encoder, tower.backbone


def _read_head_sizes(weights: Weights) -> HeadSizes:
    dim, inputs = weights.shape("fc.weight", 2)
    branch = "mlp.layers.0.weight"
    inner = weights.shape(branch, 2)[0] if branch in weights else None
    return HeadSizes(inputs, dim, inner, read_pooling_sizes(weights))


def _load_text(weights: Weights, heads: int | None) -> tuple[BertText | GruText, int, int | None]:
    """The tower, the rows of its token embeddings, and BERT's longest text."""
    pooling = read_pooling_sizes(weights)
    if any(key.startswith("bert.") for key in weights.tensors):
        sizes = read_bert_sizes(weights.below("bert."), heads)
        dim = weights.shape("linear.weight", 2)[0]
        bert: BertText = weights.build(lambda: BertText(sizes, dim, pooling))
        return bert, sizes.words, sizes.positions
    words = weights.shape("embed.weight", 2)[0]
    gru = read_gru_sizes(weights, "rnn.")
    if not gru.bidirectional:
        raise InputError(
            f"{weights.source}: its GRU reads in one direction; expected both (family '{FAMILY}')"
        )
    text: GruText = weights.build(lambda: GruText(words, gru, pooling))
    return text, words, None
