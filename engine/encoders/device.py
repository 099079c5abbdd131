"""Devices and precisions: what was asked for, or an error that says what is there."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from engine.encoders.request import EncoderRequest, check_device_name
from engine.errors import InputError

AUTOCAST_DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """The device of a name: "auto" (a GPU where torch sees one), "cpu", "cuda", "cuda:N", "mps".

    Raises `InputError` for a device that is not there; nothing falls back in silence.
    """
    check_device_name(name)
    kind, _, number = name.partition(":")
    if kind == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"the device {name!r} is not there: torch sees no GPU; use cpu, or see itrstress doctor"
        )
    if kind == "cuda" and number and int(number) >= torch.cuda.device_count():
        raise InputError(
            f"the device {name!r} is not there: torch sees {torch.cuda.device_count()} GPU(s), from cuda:0 on"
        )
    if kind == "mps" and not _has_mps():
        raise InputError("the device 'mps' is not there: torch sees no Apple GPU; use cpu")
    return torch.device(name)


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())


def check_precision(precision: str, device: torch.device) -> None:
    """Raise `InputError` when the device cannot compute in the precision (fp32, bf16, fp16)."""
    dtype = AUTOCAST_DTYPES[precision]
    if dtype is None:
        return
    try:
        with torch.autocast(device.type, dtype=dtype):
            product = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    except RuntimeError as error:
        raise InputError(f"precision {precision} does not work on {device} ({error}); use fp32") from error
    if product.dtype != dtype or (
        device.type == "cuda" and precision == "bf16" and not torch.cuda.is_bf16_supported()
    ):
        raise InputError(f"precision {precision} is not supported on {device}; use fp32")


def arithmetic(request: EncoderRequest) -> dict[str, str | int]:
    """What of precision, device and batch decides an embedding beyond rounding: a part of the fingerprint.

    fp32 results agree to rounding on every device and in every batch. In bf16 and fp16 the kernels for
    different batch sizes and devices round differently (measured: 2e-3 between batches of 1 and 64).
    """
    if request.precision == "fp32":
        return {"precision": request.precision}
    device = resolve_device(request.device)
    return {"precision": request.precision, "device": device.type, "batch_size": request.batch_size}


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass in a precision that `check_precision` let through."""
    dtype = AUTOCAST_DTYPES[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
