"""Whether float32 products on GPUs are float32 or may use TF32, for searches and models alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Any

import torch


class ProductSetting:
    """Whether float32 products on GPUs may use TF32: one setting of the process, shared by those who agree.

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


def allow_tf32(value: bool | str) -> bool | str:
    """Set it in torch, to a word of torch's own too; returns what was there before, as torch says it."""
    settings: Any = torch.backends.cuda.matmul
    if not hasattr(settings, "fp32_precision"):
        name, new = "allow_tf32", value
    else:
        words = {True: "tf32", False: "ieee"}
        name, new = "fp32_precision", words[value] if isinstance(value, bool) else value
    before: bool | str = getattr(settings, name)
    setattr(settings, name, new)
    return before


SETTING = ProductSetting(allow_tf32)


@contextmanager
def float32_products(device: torch.device, *, tf32: bool) -> Iterator[None]:
    """Within the context float32 products on a GPU may use TF32, or not; put back afterwards."""
    if device.type != "cuda":
        yield
        return
    with SETTING.held(tf32):
        yield
