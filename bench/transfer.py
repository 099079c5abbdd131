"""How long it takes to bring one query to a GPU and its answer back, beside what is computed there."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray


def transfer_times(query: NDArray[np.float32], k: int, device: torch.device, count: int) -> list[float]:
    """Seconds of so many round trips: `query` [1, dim] there, k scores and k row numbers back.

    The device has nothing else to do; each trip ends when it is synchronised.
    """
    wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    scores = torch.zeros(k, dtype=torch.float32, device=device)
    rows = torch.zeros(k, dtype=torch.int64, device=device)
    wait()
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        torch.tensor(query, device=device)
        scores.cpu(), rows.cpu()
        wait()
        seconds.append(time.perf_counter() - start)
    return seconds
