"""Contestants in processes of their own, that take turns.

A child loads the vectors, opens its contestant, warms up, and then does what single lines on its standard
input say, answering each with one line of JSON. Only one child works at a time, and rounds go through all of
them, so that a slow minute of the machine meets everyone.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bench.contestants import CONTESTANTS
from bench.vectors import queries_and_rows

TUNING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
LATENCY_QUERIES = 200


@dataclass(frozen=True)
class Task:
    """How many queries and rows, their length, and how many of the best."""

    queries: int
    rows: int
    dim: int
    k: int

    @property
    def operations(self) -> float:
        """Multiplications and additions of the whole score matrix."""
        return 2.0 * self.queries * self.rows * self.dim


class Failed(RuntimeError):
    """A contestant ended; the message has its last line of errors."""


class Child:
    """A running contestant."""

    def __init__(self, name: str, folder: Path, k: int) -> None:
        self.name = name
        environment = dict(os.environ)
        if CONTESTANTS[name].shipped:
            for variable in TUNING:
                environment.pop(variable, None)
        command = [sys.executable, "-m", "bench.contest", name, str(folder), str(k)]
        self.errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the child
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self.opened = self._answer()

    def ask(self, *words: object) -> Any:
        """Send one line, wait for its answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer will say that it has ended
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
            raise Failed(f"{self.name} ended with code {self.process.wait()}: {last}")
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        self.errors.close()


@contextlib.contextmanager
def arena(task: Task, names: Sequence[str]) -> Iterator[tuple[list[Child], NDArray[np.float32]]]:
    """The contestants, opened and warm, and the exact scores of the right answer, float32 [queries, k]."""
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-") as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        queries, rows = queries_and_rows(task.queries, task.rows, task.dim)
        np.save(folder / "queries.npy", queries)
        np.save(folder / "rows.npy", rows)
        children = []
        for name in names:
            child = Child(name, folder, task.k)
            stack.callback(child.close)
            children.append(child)
        yield children, right_scores(queries, rows, task.k)


def right_scores(queries: NDArray[np.float32], rows: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """The exact scores of every query's k best, the highest first, by the plain numpy backend."""
    from indexes.protocol import Shard
    from indexes.registry import open_backend
    from indexes.sources import ArrayRows

    return open_backend("numpy", Shard("rows", "original", ArrayRows(rows))).topk(queries, k).scores


def measure(
    task: Task, names: Sequence[str], repeat: int, *, curves: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One record for each contestant, in order; those in `curves` also tell latencies and batch sizes."""
    with arena(task, names) as (children, right):
        seconds: dict[str, list[float]] = {child.name: [] for child in children}
        for _ in range(repeat):
            for child in children:
                seconds[child.name].append(child.ask("search"))
        records = []
        for child in children:
            record = summary(task, child.name, seconds[child.name])
            record["open_seconds"] = child.opened["open_seconds"]
            if child.name in curves:
                record["first_query_seconds"] = child.opened["first_query_seconds"]
                record["one_query_seconds"] = percentiles(child.ask("latency", LATENCY_QUERIES))
                transfer = child.ask("transfer", LATENCY_QUERIES)
                record["transfer_seconds"] = None if transfer is None else percentiles(transfer)
                record["batches"] = child.ask("batches")
            record["peak_rss_bytes"] = child.ask("peak")  # before the answer, which takes memory of its own
            record.update(quality(child.ask("answer"), right))
            records.append(record)
    return records


def summary(task: Task, name: str, seconds: Sequence[float]) -> dict[str, Any]:
    """Median and spread of the whole task, and the rates that follow."""
    median = statistics.median(seconds)
    return {
        "name": name,
        "work": CONTESTANTS[name].work,
        "exact": CONTESTANTS[name].exact,
        "median_seconds": median,
        "spread": [min(seconds), max(seconds)],
        "queries_per_second": task.queries / median,
        "gflops": task.operations / median / 1e9,
    }


def quality(scores: list[list[float]] | None, right: NDArray[np.float32]) -> dict[str, Any]:
    """Agreement and recall from the exact scores of the rows that were listed, both None without rows.

    Rows that tie are as good as each other: an answer agrees when its exact scores, sorted, are the right
    ones, and a row counts for recall when its exact score is no lower than the k-th right one.
    """
    if scores is None:
        return {"agreement": None, "recall": None}
    found = np.array(scores, np.float32)
    agreement = float((np.sort(found, axis=1)[:, ::-1] == right).all(axis=1).mean())
    return {"agreement": agreement, "recall": float((found >= right[:, -1:]).mean())}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99."""
    return {f"p{share}": float(np.percentile(seconds, share)) for share in (50, 95, 99)}
