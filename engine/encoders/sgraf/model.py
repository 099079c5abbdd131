"""SGRAF's tensors: from a checkpoint to the towers and the network that scores pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.checkpoint import listed_weights, published_options, read_checkpoint
from engine.encoders.recurrent import GruSizes, mean_of_directions, read_gru_sizes, run_gru
from engine.encoders.weights import Weights
from engine.errors import InputError

_EPS = 1e-8
_SHARPNESS = 9.0  # factor before the softmax of the cross-attention
_SLOPE = 0.1
# the published names of the two models, and the key that only theirs has
MODULES: Mapping[str, str] = {
    "saf": "SAF_module.attn_sim_w.weight",
    "sgr": "SGR_module.0.graph_query_w.weight",
}


def normalised(values: Tensor, dim: int = -1) -> Tensor:
    """Divided by the length along `dim` plus 1e-8."""
    lengths: Tensor = torch.linalg.vector_norm(values, dim=dim, keepdim=True)
    return values / (lengths + _EPS)


class ImageTower(nn.Module):
    """Region features float32 [n, regions, inputs] to region states [n, regions, dim]."""

    def __init__(self, inputs: int, dim: int, norm: bool) -> None:
        super().__init__()
        self.norm = norm
        self.fc = nn.Linear(inputs, dim)

    def forward(self, features: Tensor) -> Tensor:
        """See the class."""
        states: Tensor = self.fc(features)
        return normalised(states) if self.norm else states


class TextTower(nn.Module):
    """Word ids int64 [n, longest], lengths int64 [n] (CPU) to word states [n, longest, dim], zero at the
    padding."""

    def __init__(self, words: int, gru: GruSizes, norm: bool) -> None:
        super().__init__()
        self.norm = norm
        self.embed = nn.Embedding(words, gru.input_width)
        self.cap_rnn = gru.make()

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """See the class."""
        states = run_gru(self.cap_rnn, self.embed(ids), lengths)
        if self.cap_rnn.bidirectional:
            states = mean_of_directions(states)
        return normalised(states) if self.norm else states


@dataclass(frozen=True)
class SimilaritySizes:
    """Sizes of the scoring network; `steps` of SGR's graph, 0 for SAF."""

    dim: int
    similarity: int
    regions: int
    steps: int


class Similarity(nn.Module):
    """Scores of all pairs of n images and m texts that have the same number of words."""

    def __init__(self, sizes: SimilaritySizes) -> None:
        super().__init__()
        self.v_global_w = _GlobalVector(sizes.dim, sizes.regions)
        self.t_global_w = _GlobalVector(sizes.dim, None)
        self.sim_tranloc_w = nn.Linear(sizes.dim, sizes.similarity)
        self.sim_tranglo_w = nn.Linear(sizes.dim, sizes.similarity)
        self.sim_eval_w = nn.Linear(sizes.similarity, 1)
        if sizes.steps:
            self.SGR_module = nn.ModuleList(_GraphStep(sizes.similarity) for _ in range(sizes.steps))
        else:
            self.SAF_module = _Filtration(sizes.similarity)
        self.steps = sizes.steps

    def global_image(self, regions: Tensor) -> Tensor:
        """[n, regions, dim] to one vector an image [n, dim]."""
        vector: Tensor = self.v_global_w(regions)
        return vector

    def forward(self, regions: Tensor, vectors: Tensor, words: Tensor) -> Tensor:
        """[n, m] in (0, 1): region states [n, regions, dim], `global_image` of them, word states [m, words,
        dim]."""
        words_global = self.t_global_w(words)
        context = _attend(regions, words)
        local = normalised(self.sim_tranloc_w((context - words).square()))
        whole = normalised(self.sim_tranglo_w((vectors[:, None] - words_global).square()))
        alignments = torch.cat([whole[:, :, None], local], dim=2)
        scores: Tensor = torch.sigmoid(self.sim_eval_w(self._reason(alignments)).squeeze(-1))
        return scores

    def _reason(self, alignments: Tensor) -> Tensor:
        if not self.steps:
            filtered: Tensor = self.SAF_module(alignments)
            return filtered
        for step in self.SGR_module:
            alignments = step(alignments)
        return alignments[..., 0, :]


def _attend(regions: Tensor, words: Tensor) -> Tensor:
    """What each word finds in each image: [n, regions, dim] and [m, words, dim] to [n, m, words, dim]."""
    products = functional.leaky_relu(torch.einsum("nrd,mwd->nmrw", regions, words), _SLOPE)
    weights = (normalised(products, dim=3) * _SHARPNESS).softmax(dim=2)
    return normalised(torch.einsum("nmrw,nrd->nmwd", weights, regions))


class _GlobalVector(nn.Module):
    """A weighted sum of the places [n, places, dim], weighted by how they go with their mean, normalised.

    Of an image, the batch norm of the local branch has one channel a region: their number and order count.
    """

    def __init__(self, dim: int, regions: int | None) -> None:
        super().__init__()
        self.embedding_local = nn.Sequential(nn.Linear(dim, dim))
        self.embedding_global = nn.Sequential(nn.Linear(dim, dim))
        if regions is not None:
            self.embedding_local.append(nn.BatchNorm1d(regions))
            self.embedding_global.append(nn.BatchNorm1d(dim))
        self.embedding_common = nn.Sequential(nn.Linear(dim, 1))

    def forward(self, places: Tensor) -> Tensor:
        local = torch.tanh(self.embedding_local(places))
        whole = torch.tanh(self.embedding_global(places.mean(dim=1)))
        weights = self.embedding_common(local * whole[:, None]).softmax(dim=1)
        return normalised((weights * places).sum(dim=1))


class _GraphStep(nn.Module):
    """Similarity graph reasoning: attention over the alignments [..., places, similarity], no scaling, no
    residual."""

    def __init__(self, similarity: int) -> None:
        super().__init__()
        self.graph_query_w = nn.Linear(similarity, similarity)
        self.graph_key_w = nn.Linear(similarity, similarity)
        self.sim_graph_w = nn.Linear(similarity, similarity)

    def forward(self, alignments: Tensor) -> Tensor:
        query, key = self.graph_query_w(alignments), self.graph_key_w(alignments)
        edges = (query @ key.transpose(-1, -2)).softmax(dim=-1)
        return functional.relu(self.sim_graph_w(edges @ alignments))


class _Filtration(nn.Module):
    """Similarity attention filtration: a sigmoid weight for each alignment, divided by their sum."""

    def __init__(self, similarity: int) -> None:
        super().__init__()
        self.attn_sim_w = nn.Linear(similarity, 1)
        self.bn = nn.BatchNorm1d(1)

    def forward(self, alignments: Tensor) -> Tensor:
        raw = self.attn_sim_w(alignments).squeeze(-1)
        weights = torch.sigmoid(self.bn(raw.reshape(-1, 1, raw.shape[-1])).view(raw.shape))
        weights = weights / (weights.sum(dim=-1, keepdim=True) + _EPS)
        return normalised((weights[..., None] * alignments).sum(dim=-2))


@dataclass(frozen=True)
class Sgraf:
    """Towers and scoring network in evaluation mode."""

    image: ImageTower
    text: TextTower
    similarity: Similarity
    feature_dim: int
    regions: int
    words: int


def load_sgraf(path: Path, family: str) -> Sgraf:
    """The model in a checkpoint of SAF or SGR (`family` is "saf" or "sgr").

    Raises `InputError` for a key that is missing, unexpected or wrongly shaped.
    """
    checkpoint = read_checkpoint(path)
    options = published_options(checkpoint)
    image, text, similarity = listed_weights(checkpoint, family, path, ("image", "text", "similarity"))
    sizes = _read_similarity_sizes(similarity, family)
    inputs = image.shape("fc.weight", 2)[1]
    words = text.shape("embed.weight", 2)[0]
    gru = read_gru_sizes(text, "cap_rnn.")
    if gru.width != sizes.dim:
        raise InputError(f"{path}: words have {gru.width} values, regions {sizes.dim}; expected the same")
    return Sgraf(
        image=image.build(lambda: ImageTower(inputs, sizes.dim, _is_normed(options, "no_imgnorm"))),
        text=text.build(lambda: TextTower(words, gru, _is_normed(options, "no_txtnorm"))),
        similarity=similarity.build(lambda: Similarity(sizes)),
        feature_dim=inputs,
        regions=sizes.regions,
        words=words,
    )


def _is_normed(options: Mapping[str, Any], switch: str) -> bool:
    return not options.get(switch, False)


def _read_similarity_sizes(weights: Weights, family: str) -> SimilaritySizes:
    weights.shape(MODULES[family], 2)
    similarity, dim = weights.shape("sim_tranloc_w.weight", 2)
    return SimilaritySizes(
        dim=dim,
        similarity=similarity,
        regions=weights.shape("v_global_w.embedding_local.1.weight", 1)[0],
        steps=weights.count("SGR_module.{}."),
    )
