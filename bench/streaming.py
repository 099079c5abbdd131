"""Galleries larger than memory: distractors streamed from an HDF5 file against the same rows in memory.

    python -m bench.streaming [--rows 2M] [--queries 1000] [--memory-limit 1.5GiB] [--json FILE]

Random unit rows are written as a float16 distractor set. Then the search that `evaluate --distractors` does
(counts at a threshold and the best row, in one pass) is timed: streamed from the file at a quarter, half and
all of the rows; the same over all rows held in memory; and, for comparison, `counts` alone by the backend as
it searches rows that it has opened. Opening (reading the file, preparing the rows) is timed apart: a backend
does it once for many searches, streaming does it in every search and at no other time. Every run is a process
of its own, in turn, so that a slow minute of the machine meets all; the file is in the system's cache, but
for the run called cold.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import describe_machine, peak_memory
from bench.report import add_output, output_of
from engine.store.distractors import BLOCK_ROWS, DistractorHeader, open_set, parse_rows, write_set
from indexes.memory import MemoryLimit, parse_bytes
from indexes.prefixes import search_prefixes
from indexes.protocol import Shard
from indexes.registry import BLOCK_ROWS as SEARCHED_ROWS
from indexes.registry import open_backend
from indexes.sources import ArrayRows
from indexes.streaming import DEFAULT_PLAN, open_streamed

Search = Callable[[NDArray[np.float32], NDArray[np.float32]], object]


@dataclass(frozen=True)
class RandomRows:
    """Unit rows in random directions about a common mean; a block depends on its number alone."""

    dim: int

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows [start, stop), `start` being the first of a block: float32 [stop - start, dim]."""
        blocks = [self._block(number) for number in range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))]
        return np.concatenate(blocks)[: stop - start]

    def _block(self, number: int) -> NDArray[np.float32]:
        rows = np.random.default_rng([7, number]).standard_normal((BLOCK_ROWS, self.dim), np.float32) + 0.5
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


@dataclass(frozen=True)
class Job:
    """One way to search: how it is opened, how many rows it searches, and whether the file is cold."""

    name: str
    way: str
    rows: int
    cold: bool = False


def jobs(rows: int) -> tuple[Job, ...]:
    """What is measured."""
    streamed = [Job(f"streamed, {part:,} rows", "streamed", part) for part in (rows // 4, rows // 2, rows)]
    return (
        *streamed,
        Job(f"streamed cold, {rows:,} rows", "streamed", rows, cold=True),
        Job(f"in memory, {rows:,} rows", "memory", rows),
        Job(f"backend's counts, {rows:,} rows", "backend", rows),
    )


# ---------------------------------------------------------------- in the child


def open_search(way: str, file: Path, rows: int, backend: str, limit: MemoryLimit) -> Search:
    """The search of the first `rows` rows of a set, opened."""
    found = open_set(file)
    header = found.header
    if way == "streamed":
        shard = Shard("streamed", "distractor", found.rows)
        streamed = open_streamed(shard, limit.plan(shard.name, header.dim), backend)
        return partial(prefix_search, streamed, rows)
    held = np.empty((rows, header.dim), header.stored_dtype)
    for start in range(0, rows, SEARCHED_ROWS):
        stop = min(start + SEARCHED_ROWS, rows)
        held[start:stop] = found.rows.read(start, stop)
    shard = Shard("in memory", "distractor", ArrayRows(held))
    if way == "memory":
        return partial(prefix_search, open_streamed(shard, DEFAULT_PLAN, backend), rows)
    opened = open_backend(backend, shard)
    return lambda queries, thresholds: opened.counts(queries, thresholds)


def prefix_search(
    backend: Any, rows: int, queries: NDArray[np.float32], thresholds: NDArray[np.float32]
) -> object:
    """What `evaluate --distractors` does."""
    return search_prefixes(backend, queries, thresholds, [rows])


def run_child(options: argparse.Namespace) -> None:
    """Time one search, after a small one that loads and compiles; prints JSON."""
    limit = MemoryLimit(parse_bytes(options.memory_limit))
    queries = RandomRows(options.dim).read(0, options.queries)
    thresholds = np.linspace(0.3, 0.4, len(queries), dtype=np.float32)
    small = open_search(options.child, options.file, BLOCK_ROWS, options.backend, limit)
    small(queries, thresholds)
    if options.cold:
        drop_from_cache(options.file)
    started = time.perf_counter()
    search = open_search(options.child, options.file, options.search_rows, options.backend, limit)
    opened = time.perf_counter()
    search(queries, thresholds)
    ended = time.perf_counter()
    print(json.dumps({"seconds": ended - opened, "opening": opened - started, "peak": peak_memory()}))


def drop_from_cache(file: Path) -> None:
    """Ask the system to forget the file's pages, where it can be asked."""
    handle = os.open(file, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


# ---------------------------------------------------------------- in the parent


def measure(options: argparse.Namespace, file: Path, rows: int) -> list[dict[str, Any]]:
    """Every job `repeat` times, in turn; one record each."""
    wanted = jobs(rows)
    runs: dict[str, list[dict[str, float]]] = {job.name: [] for job in wanted}
    for _ in range(options.repeat):
        for job in wanted:
            runs[job.name].append(run_job(options, file, job))
    return [record(job, options.queries, runs[job.name]) for job in wanted]


def run_job(options: argparse.Namespace, file: Path, job: Job) -> dict[str, float]:
    """One run in a process of its own. Raises RuntimeError when it fails."""
    command = [sys.executable, "-m", "bench.streaming", "--child", job.way, "--file", str(file)]
    command += ["--search-rows", str(job.rows), "--queries", str(options.queries), "--dim", str(options.dim)]
    command += ["--backend", options.backend, "--memory-limit", options.memory_limit]
    command += ["--cold"] if job.cold else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{job.name}: {done.stderr.strip()}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def record(job: Job, queries: int, runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """What is kept of a job."""
    seconds = [run["seconds"] for run in runs]
    median = statistics.median(seconds)
    return {
        "name": job.name,
        "rows": job.rows,
        "median_seconds": median,
        "spread": [min(seconds), max(seconds)],
        "opening_seconds": statistics.median(run["opening"] for run in runs),
        "microseconds_a_row": 1e6 * median / job.rows,
        "rows_a_second": job.rows / median,
        "queries_per_second": queries / median,
        "peak_rss_bytes": int(max(run["peak"] for run in runs)),
    }


def judge(records: Sequence[dict[str, Any]], limit: int) -> dict[str, Any]:
    """The three targets: memory, rates against memory, and the spread of the time a row.

    `rate_against_memory` is for the same search of rows in memory, `rate_against_backend` for the `counts` of
    a backend that has them open already, `..._and_opening` with its opening.
    """
    streamed, memory, backend = list(records[:3]), records[4], records[5]
    a_row = [one["microseconds_a_row"] for one in streamed]
    return {
        "peak_over_limit": max(one["peak_rss_bytes"] for one in streamed) / limit,
        "rate_against_memory": memory["median_seconds"] / streamed[-1]["median_seconds"],
        "rate_against_backend": backend["median_seconds"] / streamed[-1]["median_seconds"],
        "rate_against_backend_and_opening": (backend["median_seconds"] + backend["opening_seconds"])
        / streamed[-1]["median_seconds"],
        "time_a_row_spread": max(a_row) / min(a_row) - 1,
    }


def write_rows(file: Path, rows: int, dim: int) -> None:
    """The set that is searched."""
    header = DistractorHeader(
        modality="captions",
        name="random",
        encoder_spec="bench",
        encoder_fingerprint="0" * 64,
        rows=rows,
        dim=dim,
        dtype="float16",
        recipe={"from": "bench.streaming"},
    )
    write_set(file, header, RandomRows(dim))


def show(records: Sequence[dict[str, Any]], verdict: dict[str, Any]) -> None:
    """A Markdown table and the verdict."""
    print("| search | seconds, median (lowest to highest) | opening | microseconds a row | peak resident |")
    print("|---|---|---|---|---|")
    for one in records:
        low, high = one["spread"]
        print(
            f"| {one['name']} | {one['median_seconds']:.2f} ({low:.2f} to {high:.2f}) "
            f"| {one['opening_seconds']:.2f} | {one['microseconds_a_row']:.2f} "
            f"| {one['peak_rss_bytes'] / 2**20:,.0f} MiB |"
        )
    print()
    for name, value in verdict.items():
        print(f"{name.replace('_', ' ')}: {value:.2f}")


def main() -> None:
    """Parse the options, measure, print, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time searches of distractors streamed from a file.")
    parser.add_argument("--rows", default="2M", help="rows of the set, such as 2M")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--memory-limit", default="1.5GiB")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the file is made (default: the temporary folder)")
    add_output(parser)
    parser.add_argument("--child", choices=("streamed", "memory", "backend"), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--search-rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(options)
        return
    output = output_of(parser, options)
    rows = parse_rows("--rows", options.rows)
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-", dir=options.folder) as folder:
        file = Path(folder) / "captions.random.h5"
        write_rows(file, rows, options.dim)
        records = measure(options, file, rows)
    verdict = judge(records, parse_bytes(options.memory_limit))
    show(records, verdict)
    if output:
        found = {"machine": machine, "options": job_options(options), "rows": records, "verdict": verdict}
        output.write(f"{json.dumps(found, indent=1)}\n".encode())


def job_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options that a measurement depends on."""
    return {
        name: getattr(options, name)
        for name in ("rows", "dim", "queries", "memory_limit", "backend", "repeat")
    }


if __name__ == "__main__":
    main()
