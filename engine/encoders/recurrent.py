"""GRUs over sequences of different lengths, without a trace of the padding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engine.encoders.weights import Weights


@dataclass(frozen=True)
class GruSizes:
    """Sizes of a GRU."""

    input_width: int
    width: int
    layers: int
    bidirectional: bool

    def make(self) -> nn.GRU:
        """The GRU; batch first."""
        return nn.GRU(
            self.input_width, self.width, self.layers, batch_first=True, bidirectional=self.bidirectional
        )


def read_gru_sizes(weights: Weights, prefix: str) -> GruSizes:
    """Sizes of the GRU under `prefix`, e.g. ``rnn.``, from its tensors."""
    return GruSizes(
        input_width=weights.shape(f"{prefix}weight_ih_l0", 2)[1],
        width=weights.shape(f"{prefix}weight_hh_l0", 2)[1],
        layers=weights.count(prefix + "weight_hh_l{}"),
        bidirectional=f"{prefix}weight_hh_l0_reverse" in weights,
    )


def run_gru(gru: nn.GRU, sequences: Tensor, lengths: Tensor) -> Tensor:
    """Outputs float32 [n, longest, width or 2 * width], zero beyond an item's length.

    `sequences` [n, longest, input width]; `lengths` int64 [n] on the CPU, at least 1, any order.
    """
    packed = pack_padded_sequence(sequences, lengths, batch_first=True, enforce_sorted=False)
    padded, _ = pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=sequences.shape[1])
    return padded


def mean_of_directions(outputs: Tensor) -> Tensor:
    """[n, steps, 2 * width] of a bidirectional GRU to [n, steps, width]."""
    forward, backward = outputs.chunk(2, dim=-1)
    return (forward + backward) / 2
