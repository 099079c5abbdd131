"""The generalised pooling operator: sorted values, weighted by coefficients of the length alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.encoders.recurrent import GruSizes, mean_of_directions, read_gru_sizes, run_gru
from engine.encoders.weights import Weights

_TEMPERATURE = 0.1
_LOWEST = -10000.0  # of a padded place: behind every value in the order, and no weight after the softmax


@dataclass(frozen=True)
class PoolingSizes:
    """Sizes of the pooling operator."""

    gru: GruSizes


def read_pooling_sizes(weights: Weights, prefix: str = "gpool.") -> PoolingSizes:
    """Sizes from the tensors under `prefix`."""
    return PoolingSizes(read_gru_sizes(weights, f"{prefix}gru."))


class Pooling(nn.Module):
    """[n, longest, width] and lengths int64 [n] (CPU) to pooled [n, width] and coefficients [n, longest].

    The padding is behind an item's true places; what stands there does not matter.
    """

    def __init__(self, sizes: PoolingSizes) -> None:
        super().__init__()
        self.code_width = sizes.gru.input_width
        self.gru = sizes.gru.make()
        self.linear = nn.Linear(sizes.gru.width, 1, bias=False)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See the class."""
        longest = features.shape[1]
        coefficients = self._coefficients(lengths, longest, features.device)
        padded = torch.arange(longest, device=features.device) >= lengths.to(features.device)[:, None]
        ordered = features.float().masked_fill(padded[:, :, None], _LOWEST)
        ordered = ordered.sort(dim=1, descending=True).values.masked_fill(padded[:, :, None], 0.0)
        return (ordered * coefficients[:, :, None]).sum(dim=1), coefficients

    def _coefficients(self, lengths: Tensor, longest: int, device: torch.device) -> Tensor:
        """float32 [n, longest]: a softmax over the true places; computed once for every distinct length."""
        distinct, which = torch.unique(lengths, return_inverse=True)
        code = position_code(longest, self.code_width).to(device).expand(len(distinct), -1, -1)
        states = mean_of_directions(run_gru(self.gru, code, distinct))
        scores = self.linear(states).squeeze(-1).float()
        padded = torch.arange(longest, device=device) >= distinct.to(device)[:, None]
        coefficients: Tensor = (scores.masked_fill(padded, _LOWEST) / _TEMPERATURE).softmax(dim=1)
        return coefficients[which.to(device)]


def position_code(length: int, width: int) -> Tensor:
    """float32 [length, width]: sines in the even columns, cosines in the odd ones, frequencies
    10000^(-2i/width)."""
    places = torch.arange(length, dtype=torch.float32)[:, None]
    frequencies = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * -(math.log(10000.0) / width))
    code = torch.empty(length, width)
    code[:, 0::2] = torch.sin(places * frequencies)
    code[:, 1::2] = torch.cos(places * frequencies[: width // 2])
    return code
