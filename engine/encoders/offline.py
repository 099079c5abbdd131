"""No network while a model is opened from files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


@contextmanager
def no_network() -> Iterator[None]:
    """Forbid every request to the model hub inside the block, whatever a model's configuration names.

    Works for the libraries that read the hub's switch at each request (huggingface_hub, and through it
    transformers, timm and open_clip); what they want and is not on disk fails. One thread at a time; the
    switch is put back afterwards.
    """
    from huggingface_hub import constants

    with _lock:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def hub_cache() -> str:
    """Where files from the model hub are looked for, with the home folder as ``~``."""
    from huggingface_hub import constants

    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of a text, not a path to open
    cache = str(constants.HF_HUB_CACHE)
    return cache.replace(home, "~", 1) if cache.startswith(home) else cache
