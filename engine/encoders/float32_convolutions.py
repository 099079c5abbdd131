"""Convolutions and recurrent layers in float32: no TF32 on a GPU, no bfloat16 on a processor, the same
algorithm every time; whatever the process allows, which is put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from indexes.float32_products import ProductSetting, set_tf32

STEADY = {"enabled": True, "benchmark": False, "deterministic": True}
"""Of cuDNN: without a search for the fastest algorithm, which may choose another one the next time."""


def change_cudnn(value: Any) -> Any:
    """Hold `STEADY` and forbid TF32 (False), or put back what this returned."""
    settings: Any = torch.backends.cudnn
    before = {name: getattr(settings, name) for name in STEADY}
    steady, tf32 = (STEADY, False) if value is False else value
    for name, wanted in steady.items():
        setattr(settings, name, wanted)
    parts = [getattr(settings, name, None) for name in ("conv", "rnn")]
    return before, set_tf32(settings, parts, tf32)


def change_host(value: Any) -> Any:
    """Forbid rounding to bfloat16 or TF32 on a processor (False), or put back what this returned."""
    parts: list[Any] = [getattr(torch.backends.mkldnn, name, None) for name in ("conv", "rnn")]
    parts = [part for part in parts if hasattr(part, "fp32_precision")]  # since torch 2.9
    before = [part.fp32_precision for part in parts]
    for part, word in zip(parts, ["ieee"] * len(parts) if value is False else value, strict=True):
        part.fp32_precision = word
    return before


SETTINGS = {"cuda": ProductSetting(change_cudnn), "cpu": ProductSetting(change_host)}


@contextmanager
def float32_convolutions(device: torch.device) -> Iterator[None]:
    """Within the context they are float32 on this device."""
    setting = SETTINGS.get(device.type)
    if setting is None:
        yield
        return
    with setting.held(False):
        yield
