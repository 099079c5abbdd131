"""Whether float32 products are float32: for searches, whose bound rests on it, and for models alike.

Libraries may round the inputs of a float32 product to TF32 (GPUs) or bfloat16 (oneDNN, on processors with
units for it). Where torch has a setting for that it is held while a product runs, whatever the process asks
for; what only the environment decides is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any

import torch

TF32_FORCED = "NVIDIA_TF32_OVERRIDE rounds every float32 product on a GPU, no bound holds; unset it"
HOST_VARIABLES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")  # where a program says nothing


def tf32_is_forced() -> bool:
    """Whether the environment makes CUDA libraries multiply float32 in TF32, whatever they are asked for."""
    return os.environ.get("NVIDIA_TF32_OVERRIDE", "0") != "0"


def host_rounding() -> str | None:
    """Why torch's float32 products on a processor are none, in words: a variable lets oneDNN round them."""
    for name in HOST_VARIABLES:
        mode = os.environ.get(name, "")
        if mode.upper() not in ("", "STRICT"):
            return f"{name}={mode} lets oneDNN round float32 products, no bound holds; unset it"
    return None


class ProductSetting:
    """Whether some float32 products may be rounded: one setting of the process, shared by those who agree.

    Whoever wants the other value waits until nobody uses this one. `write` sets a value and returns what was
    there before, which is given to it again when the last user leaves.
    """

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self._changed = Condition()
        self._users, self._allowed = 0, False
        self._before: Any = None

    @contextmanager
    def held(self, allowed: bool) -> Iterator[None]:
        """Within the context the setting has this value."""
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._allowed == allowed)
            if not self._users:
                self._before = self._write(allowed)
            self._users, self._allowed = self._users + 1, allowed
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    self._write(self._before)
                    self._changed.notify_all()


def set_tf32(settings: Any, parts: Sequence[Any], value: Any) -> tuple[bool | None, list[str]]:
    """Allow TF32 or forbid it (a bool) in both interfaces of torch: reading the older one raises while the
    newer says something else. Takes what it returns too, which is what was there before.

    `settings` have the older flag, `parts` the newer words. The flag is None where reading it raises: the
    process uses the words alone, and so does this.
    """
    try:
        flag: bool | None = bool(settings.allow_tf32)
        if settings is torch.backends.cuda.matmul and torch.get_float32_matmul_precision() == "medium":
            flag = None  # it could not be put back to a word that is more than the flag
    except RuntimeError:
        flag = None
    parts = [part for part in parts if hasattr(part, "fp32_precision")]
    before = flag, [part.fp32_precision for part in parts]
    if isinstance(value, bool):
        value = None if flag is None else value, ["tf32" if value else "ieee"] * len(parts)
    if value[0] is not None:
        settings.allow_tf32 = value[0]
    for part, word in zip(parts, value[1], strict=True):
        part.fp32_precision = word
    return before


def allow_tf32(value: Any) -> Any:
    """`set_tf32` of the products on GPUs."""
    return set_tf32(torch.backends.cuda.matmul, [torch.backends.cuda.matmul], value)


def allow_host_rounding(value: bool | str) -> str:
    """Forbid it (False) for processors, or set a word of torch's own; returns torch's word for before."""
    settings: Any = getattr(torch.backends.mkldnn, "matmul", None)
    if settings is None:  # before torch 2.9 one word stood for all devices
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(value if isinstance(value, str) else "highest")
        return before
    before = settings.fp32_precision
    settings.fp32_precision = value if isinstance(value, str) else "ieee"
    return str(before)


ON_GPUS, ON_HOST = ProductSetting(allow_tf32), ProductSetting(allow_host_rounding)


@contextmanager
def float32_products(device: torch.device, *, tf32: bool) -> Iterator[None]:
    """Within the context float32 products on a GPU may use TF32, or not; on a processor they are float32.

    What was set before is put back afterwards.
    """
    if device.type == "cuda":
        held = ON_GPUS.held(tf32)
    elif device.type == "cpu":
        held = ON_HOST.held(False)
    else:
        yield
        return
    with held:
        yield
