"""Which GPUs torch can use here, what fits on one, and a search that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import add
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.float32_products import TF32_FORCED, tf32_is_forced
from indexes.merge import merge_topk
from indexes.protocol import Counts, Survey, TopK

CPU = torch.device("cpu")
SHARE_ROWS = 1 << 16  # fewer rows on a GPU would not keep it busy
SEARCH_BYTES = 3 << 30  # tiles of scores, exact products, candidates, queries and their answers

Result = TypeVar("Result")


@cache
def gpu_trouble(number: int = 0) -> str | None:
    """Why torch cannot multiply on that GPU here, in words; None when it can. Tried once."""
    if tf32_is_forced():
        return TF32_FORCED
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return f"torch {torch.__version__} sees no GPU"
    try:
        ones = torch.ones(8, 8, device=torch.device("cuda", number), dtype=torch.bfloat16)
        result = float((ones @ ones).sum())
    except RuntimeError as error:
        return f"torch {torch.__version__} sees a GPU but cannot use it: {str(error).splitlines()[0]}"
    return None if result == 8.0**3 else f"the GPU computes {result}, expected {8.0**3}"


@cache
def usable_gpus() -> tuple[torch.device, ...]:
    """The GPUs of the kind of the first one that torch can use; none when it cannot use the first.

    Another kind would have another fastest precision, and would keep the others waiting.
    """
    if gpu_trouble():
        return ()
    kind = torch.cuda.get_device_name(0)
    numbers = range(torch.cuda.device_count())
    same = [number for number in numbers if torch.cuda.get_device_name(number) == kind]
    return tuple(torch.device("cuda", number) for number in same if gpu_trouble(number) is None)


def fits_on(device: torch.device, rows: int, dim: int, value_bytes: int) -> bool:
    """Whether rows can stay on a GPU and leave room to search; other devices are the memory they are in."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return rows * dim * value_bytes <= free + kept - SEARCH_BYTES


class Scan(Protocol):
    """What does the work on one device, or on several."""

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries."""

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds of validated queries."""

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries."""


@dataclass(frozen=True)
class Share:
    """Rows [first, first + rows) of a shard, which one device searches; its answers count from 0."""

    first: int
    rows: int
    scan: Scan


@dataclass(frozen=True)
class SharedScan:
    """Exact search in shares of a shard at the same time: counts add up, lists are merged exactly."""

    shares: tuple[Share, ...]

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries."""
        found = self._ask_all(lambda share: share.scan.topk(queries, min(k, share.rows)))
        return merge_topk(
            [(share.first, answer) for share, answer in zip(self.shares, found, strict=True)], k
        )

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds of validated queries."""
        return reduce(add, self._ask_all(lambda share: share.scan.counts(queries, thresholds)))

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries."""
        found = Survey.nothing(len(queries))
        answers = self._ask_all(lambda share: share.scan.survey(queries, thresholds))
        for share, later in zip(self.shares, answers, strict=True):
            leaders = replace(later.leaders, rows=later.leaders.rows + share.first)
            found.add(replace(later, leaders=leaders))
        return found

    def _ask_all(self, ask: Callable[[Share], Result]) -> list[Result]:
        # not `indexes.workers`: its threads may be what a share's own search waits for
        with ThreadPoolExecutor(len(self.shares), "itrstress-device") as pool:
            return list(pool.map(ask, self.shares))


def share_out(
    rows: int, devices: Sequence[torch.device], least: int = SHARE_ROWS
) -> list[tuple[torch.device, int, int]]:
    """(device, first row, rows) of even shares, each of `least` rows or more where there are several."""
    count = max(1, min(len(devices), rows // least))
    edges = [rows * number // count for number in range(count + 1)]
    return [
        (device, first, stop - first)
        for device, first, stop in zip(devices[:count], edges[:-1], edges[1:], strict=True)
    ]
