"""What is asked of a model family: the parts of a spec, and on which device and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import unknown_name
from engine.path_text import path_text

PRECISIONS = ("fp32", "bf16", "fp16")
DEVICES = ("auto", "cpu", "cuda", "mps")
DEFAULT_BATCH_SIZE = 64
DEFAULT_PAIR_BATCH = 64  # pairs through a matching head at once
LARGEST_BATCH_SIZE = 2**16
LARGEST_WORKERS = 256


@dataclass(frozen=True)
class EncoderRequest:
    """What the user asked for: the parts of the spec, and the options.

    `weights` is None when the spec has no third part. `device` is "auto", "cpu", "cuda", "cuda:N" or "mps";
    `precision` one of `PRECISIONS`; `batch_size` the rows a forward pass has; `preprocess` the image
    preprocessing that the user named (`engine.encoders.preprocess`), or None for the checkpoint's own.
    """

    family: str
    name: str
    weights: str | None = None
    device: str = "auto"
    precision: str = "fp32"
    batch_size: int = DEFAULT_BATCH_SIZE
    preprocess: str | None = None

    @property
    def spec(self) -> str:
        """The spec string, as text that can be stored."""
        return path_text(
            ":".join(part for part in (self.family, self.name, self.weights) if part is not None)
        )


def check_device_name(name: str) -> None:
    """Raise `InputError` for what cannot be a device; whether it is there, `engine.encoders.device` says."""
    kind, _, number = name.partition(":")
    if kind not in DEVICES or (number and (kind != "cuda" or not number.isdecimal())):
        raise unknown_name("device", name, [*DEVICES, "cuda:N"])
