"""Forward passes of a checkpoint: where and how exactly they are computed, and in which batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.encoders.device import autocast, check_precision, resolve_device
from engine.encoders.float32_convolutions import float32_convolutions
from engine.encoders.request import EncoderRequest
from engine.errors import InputError
from indexes.float32_products import float32_products

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Forward:
    """Device, precision (fp32, bf16, fp16 by autocast) and rows of a forward pass.

    In fp32 a row differs by less than 1e-6 between batches of any size and order. In bf16 and fp16 the
    kernels for one row and for many, for short and for long padding round differently (measured: 6e-3 between
    batches of 1 and 64). So there a batch holds items of one length (`batches`) and exactly `batch_size` rows
    (`filled`): a row then depends on `batch_size` alone, not on what is beside it.
    """

    device: torch.device
    precision: str
    batch_size: int

    def describe(self) -> str:
        """Precision, device and batch in words."""
        return f"{self.precision} on {self.device}, {self.batch_size} a batch"

    def batches(self, lengths: Sequence[int], *, equal: bool = False) -> Iterator[Rows]:
        """Rows int64 [at most batch_size] of items with such lengths, shortest first.

        With `equal`, and in bf16 and fp16, a batch has items of one length only.
        """
        equal = equal or self.precision != "fp32"
        return batches_by_length(lengths, self.batch_size, equal=equal)

    def image_batches(self, images: Sequence[Tensor]) -> Iterator[tuple[Rows, Tensor]]:
        """Rows int64 [at most batch_size], and their images [n, ...] on the device, `filled`."""
        for start in range(0, len(images), self.batch_size):
            batch = torch.stack(list(images[start : start + self.batch_size]))
            yield np.arange(start, start + len(batch)), self.filled(batch).to(self.device)

    def filled(self, part: Tensor) -> Tensor:
        """The rows [n, ...] of a batch; in bf16 and fp16 [batch_size, ...], with copies of the last one."""
        missing = self.batch_size - len(part)
        if self.precision == "fp32" or missing <= 0:
            return part
        return torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Inside it, models run in this precision.

        float32 means float32, in convolutions and in products, whatever the process allows: no TF32 on a GPU,
        no bfloat16 on a processor.
        """
        products = float32_products(self.device, tf32=False)
        convolutions = float32_convolutions(self.device)
        with torch.inference_mode(), products, convolutions, autocast(self.precision, self.device):
            yield


def open_forward(request: EncoderRequest) -> Forward:
    """What a request asks for; `InputError` when this machine cannot do it, or a preprocessing is named."""
    check_no_preprocess(request)
    return resolve_forward(request)


def check_no_preprocess(request: EncoderRequest) -> None:
    """Raise `InputError` for a request that names a preprocessing, of a family that has its own."""
    if request.preprocess is not None:
        raise InputError(
            f"{request.spec}: the preprocessing of the family '{request.family}' is part of it; "
            "leave --preprocess out"
        )


def resolve_forward(request: EncoderRequest) -> Forward:
    """Device, precision and batch of a request; `InputError` when this machine cannot do it."""
    device = resolve_device(request.device)
    check_precision(request.precision, device)
    return Forward(device, request.precision, request.batch_size)


def batches_by_length(lengths: Sequence[int], size: int, *, equal: bool = False) -> Iterator[Rows]:
    """Rows in batches of at most `size`, shortest first; with `equal`, a batch has one length only."""
    counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(counts, kind="stable")
    starts = np.flatnonzero(np.diff(counts[order])) + 1 if equal else np.empty(0, dtype=np.int64)
    for group in np.split(order, starts):
        for start in range(0, len(group), size):
            yield group[start : start + size]


def pad_ids(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids int64 [n, longest] on the device, 0 behind a sequence, and lengths int64 [n] on the CPU."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.zeros(len(sequences), int(lengths.max()), dtype=torch.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    return ids.to(device), lengths


def pad_features(items: Sequence[NDArray[np.float32]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Features float32 [n, most, dim] on the device, 0 behind an item's own, and lengths int64 [n] (CPU)."""
    lengths = torch.tensor([len(item) for item in items])
    features = torch.zeros(len(items), int(lengths.max()), items[0].shape[1])
    for row, item in enumerate(items):
        features[row, : len(item)] = torch.from_numpy(item)
    return features.to(device), lengths


def unit_rows(count: int, dim: int, kind: str, batches: Iterable[tuple[Rows, Tensor]]) -> NDArray[np.float32]:
    """float32 [count, dim] of length 1 from batches of rows and their vectors [n, dim].

    Raises `InputError` for a vector that has no direction; `kind` ("image", "text") names it.
    """
    result = np.empty((count, dim), dtype=np.float32)
    for rows, vectors in batches:
        values = vectors.cpu().double().numpy()
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        wrong = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
        if len(wrong):
            raise InputError(
                f"the model gives {kind} {rows[wrong[0]]} of {count} an embedding with NaN, infinity or "
                "zero length; try --precision fp32, or check the checkpoint and the item"
            )
        result[rows] = values / lengths
    return result
