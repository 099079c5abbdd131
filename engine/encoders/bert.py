"""BERT layers with the key names of the published checkpoints, cross-attention to an image included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.weights import Weights
from engine.errors import InputError

LAYER_NORM_EPS = 1e-12
_MASKED = -10000.0  # added to the scores of padded tokens, as the published models do
_USUAL_HEAD_WIDTH = 64
_CROSS_KEY = "crossattention.self.key.weight"


@dataclass(frozen=True)
class BertSizes:
    """Sizes of a BERT. Layers from `first_cross_layer` on also attend to tokens of `cross_width`."""

    words: int
    positions: int
    token_types: int
    width: int
    layers: int
    heads: int
    inner_width: int
    first_cross_layer: int
    cross_width: int


def read_bert_sizes(weights: Weights, heads: int | None) -> BertSizes:
    """Sizes from the tensors (keys begin with ``embeddings.`` and ``encoder.``); see `head_count` for the
    heads."""
    words, width = weights.shape("embeddings.word_embeddings.weight", 2)
    layers = weights.count("encoder.layer.{}.")
    crossing = [n for n in range(layers) if f"encoder.layer.{n}.{_CROSS_KEY}" in weights]
    first_cross = crossing[0] if crossing else layers
    return BertSizes(
        words=words,
        positions=weights.shape("embeddings.position_embeddings.weight", 2)[0],
        token_types=weights.shape("embeddings.token_type_embeddings.weight", 2)[0],
        width=width,
        layers=layers,
        heads=head_count(weights, "text_heads", width, heads),
        inner_width=weights.shape("encoder.layer.0.intermediate.dense.weight", 2)[0],
        first_cross_layer=first_cross,
        cross_width=weights.shape(f"encoder.layer.{first_cross}.{_CROSS_KEY}", 2)[1] if crossing else width,
    )


def head_count(weights: Weights, option: str, width: int, given: int | None) -> int:
    """Attention heads: `given`, or one for every 64 of `width` as in every published model.

    No tensor tells the number of heads. Raises `InputError` that names the option when it must be given or
    does not divide the width.
    """
    if given is None and width % _USUAL_HEAD_WIDTH:
        raise InputError(
            f"{weights.source}: a checkpoint does not hold its number of attention heads, and a width of "
            f"{width} is no multiple of {_USUAL_HEAD_WIDTH}; give {option}=N"
        )
    heads = width // _USUAL_HEAD_WIDTH if given is None else given
    if heads < 1 or width % heads:
        raise InputError(f"{weights.source}: {option}={heads} does not divide the width {width}")
    return heads


class Bert(nn.Module):
    """Embeddings and layers, without a pooler."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.embeddings = _Embeddings(sizes)
        self.encoder = _Layers(sizes)

    def embed(self, ids: Tensor) -> Tensor:
        """Embedding layer only: int64 [n, tokens] to [n, tokens, width]; token types 0, positions from 0."""
        hidden: Tensor = self.embeddings(ids)
        return hidden

    def run(self, hidden: Tensor, mask: Tensor, first: int, stop: int, image: Tensor | None = None) -> Tensor:
        """Layers `first` to `stop` (exclusive) on [n, tokens, width]; `mask` [n, tokens] is 1 for true
        tokens.

        With `image` [n or 1, image tokens, cross width], layers that have a cross-attention use it.
        """
        bias = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * _MASKED
        for layer in self.encoder.layer[first:stop]:
            hidden = layer(hidden, bias, image)
        return hidden


class _Embeddings(nn.Module):
    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.words, sizes.width)
        self.position_embeddings = nn.Embedding(sizes.positions, sizes.width)
        self.token_type_embeddings = nn.Embedding(sizes.token_types, sizes.width)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=LAYER_NORM_EPS)

    def forward(self, ids: Tensor) -> Tensor:
        positions = self.position_embeddings.weight[: ids.shape[1]]
        summed = self.word_embeddings(ids) + self.token_type_embeddings.weight[0] + positions
        normed: Tensor = self.LayerNorm(summed)
        return normed


class _Layers(nn.Module):
    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.layer = nn.ModuleList(_Layer(sizes, n >= sizes.first_cross_layer) for n in range(sizes.layers))


class _Layer(nn.Module):
    """Self-attention, cross-attention where there is one and an image is given, feed-forward; all
    post-norm."""

    def __init__(self, sizes: BertSizes, crosses: bool) -> None:
        super().__init__()
        self.attention = _Attention(sizes, sizes.width)
        self.crossattention = _Attention(sizes, sizes.cross_width) if crosses else None
        self.intermediate = _Dense(sizes.width, sizes.inner_width)
        self.output = _Residual(sizes.inner_width, sizes.width)

    def forward(self, hidden: Tensor, bias: Tensor, image: Tensor | None) -> Tensor:
        hidden = self.attention(hidden, hidden, bias)
        if self.crossattention is not None and image is not None:
            hidden = self.crossattention(hidden, image, None)
        inner = functional.gelu(self.intermediate.dense(hidden))
        result: Tensor = self.output(inner, hidden)
        return result


class _Attention(nn.Module):
    def __init__(self, sizes: BertSizes, source_width: int) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.add_module("self", _Projections(sizes.width, source_width))
        self.output = _Residual(sizes.width, sizes.width)

    def forward(self, hidden: Tensor, source: Tensor, bias: Tensor | None) -> Tensor:
        projections = cast(_Projections, self.get_submodule("self"))
        query = self._split(projections.query(hidden))
        # an image that all texts are matched with comes once: its keys are computed once and repeated here
        key = self._split(projections.key(source)).expand(len(query), -1, -1, -1)
        value = self._split(projections.value(source)).expand(len(query), -1, -1, -1)
        bias = None if bias is None else bias.to(query.dtype)  # autocast may have lowered the query
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        result: Tensor = self.output(context.transpose(1, 2).flatten(2), hidden)
        return result

    def _split(self, projected: Tensor) -> Tensor:
        n, tokens, width = projected.shape
        return projected.view(n, tokens, self.heads, width // self.heads).transpose(1, 2)


class _Projections(nn.Module):
    def __init__(self, width: int, source_width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(source_width, width)
        self.value = nn.Linear(source_width, width)


class _Dense(nn.Module):
    def __init__(self, width: int, inner_width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, inner_width)


class _Residual(nn.Module):
    def __init__(self, source_width: int, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(source_width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)

    def forward(self, source: Tensor, residual: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(source) + residual)
        return normed


def attention_mask(ids: Tensor, padding: int = 0) -> Tensor:
    """int64 [n, tokens]: 1 where a token is no padding."""
    return (ids != padding).to(torch.int64)
