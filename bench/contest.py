"""One contestant's process: `python -m bench.contest NAME FOLDER K`, driven by lines on standard input."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.contestants import CONTESTANTS, Search
from bench.machine import peak_memory

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
BATCH_SECONDS = 0.5  # repeat a batch size for about so long
NOT_LISTED = -2.0  # the score of a row that is not there, or listed twice


@dataclass(frozen=True)
class Contest:
    """The vectors, float32 [n, dim] and [m, dim], and the contestant's search."""

    name: str
    k: int
    queries: NDArray[np.float32]
    rows: NDArray[np.float32]
    search: Search

    def timed(self, queries: NDArray[np.float32]) -> float:
        """Seconds of one search."""
        start = time.perf_counter()
        self.search(queries)
        return time.perf_counter() - start

    def whole(self) -> float:
        """Seconds of the whole task."""
        return self.timed(self.queries)

    def latency(self, count: str) -> list[float]:
        """Seconds of single queries, each another one."""
        numbers = np.arange(int(count)) % len(self.queries)
        return [self.timed(self.queries[number : number + 1]) for number in numbers]

    def transfer(self, count: str) -> list[float] | None:
        """Seconds of bringing one query to GPU 0 and an answer back; None where the contestant uses none."""
        if not CONTESTANTS[self.name].on_gpu:
            return None
        import torch

        from bench.transfer import transfer_times
        from indexes.devices import gpu_trouble

        if gpu_trouble():
            return None
        return transfer_times(self.queries[:1], self.k, torch.device("cuda", 0), int(count))

    def batches(self) -> dict[int, float]:
        """Queries a second by the number of queries in a call."""
        curve = {}
        for size in (size for size in BATCHES if size <= len(self.queries)):
            part = self.queries[:size]
            self.search(part)
            runs, start = 0, time.perf_counter()
            while runs == 0 or time.perf_counter() - start < BATCH_SECONDS:
                self.search(part)
                runs += 1
            curve[size] = size * runs / (time.perf_counter() - start)
        return curve

    def answer(self) -> list[list[float]] | None:
        """Exact scores of the listed rows [queries, k]; None where none are listed."""
        from indexes.exact import exact_scores

        found = self.search(self.queries)
        if found is None:
            return None
        there = (found >= 0) & (found < len(self.rows))
        order = np.sort(found, axis=1)
        distinct = np.ones(len(found), np.bool_)
        distinct[(order[:, 1:] == order[:, :-1]).any(axis=1)] = False
        numbers = np.repeat(np.arange(len(found)), found.shape[1]).reshape(found.shape)
        scores = np.full(found.shape, NOT_LISTED, np.float32)
        scores[there] = exact_scores(self.queries[numbers[there]], self.rows[found[there]])
        scores[~distinct] = np.float32(NOT_LISTED)
        return [[float(score) for score in line] for line in scores]

    def commands(self) -> Mapping[str, Callable[..., Any]]:
        """What a line may ask for."""
        return {
            "search": self.whole,
            "latency": self.latency,
            "transfer": self.transfer,
            "batches": self.batches,
            "answer": self.answer,
            "peak": peak_memory,
        }


def main(name: str, folder: str, k: str) -> None:
    """Open, search once (cold), warm up, then serve."""
    replies = os.fdopen(os.dup(1), "w")  # what a library prints must not be taken for an answer
    os.dup2(2, 1)
    queries, rows = np.load(Path(folder) / "queries.npy"), np.load(Path(folder) / "rows.npy")
    start = time.perf_counter()
    contest = Contest(name, int(k), queries, rows, CONTESTANTS[name].open(rows, int(k)))
    opened = {"open_seconds": time.perf_counter() - start, "first_query_seconds": contest.timed(queries[:1])}
    contest.whole()
    print(json.dumps(opened), file=replies, flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        print(json.dumps(contest.commands()[command](*arguments)), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
