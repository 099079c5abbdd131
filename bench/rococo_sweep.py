"""The whole RoCOCO job of one model: our way, and a new index over originals and fakes for each variant.

At paper size (5,000 images, five captions each): images ask for captions, beside four caption variants of
25,000 fakes; captions ask for images, beside eight image settings with three seeds of 5,000 fakes. Ours
searches the originals once and each variant's shard alone, and counts ranks exactly; the naive way makes an
index over both and lists the k best, from which ranks beyond k cannot be had. Each runs in a process of its
own (`bench.arena`), vectors are in memory before the clock starts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import peak_memory
from bench.vectors import CAPTION_NOISE, Space

CAPTIONS_AN_IMAGE = 5
CAPTION_VARIANTS = 4
IMAGE_VARIANTS = 8 * 3
FAKE_CAPTION_NOISE = 4.6
FAKE_IMAGE_NOISE = 1.0
K = 10

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Direction:
    """Queries [n, dim], originals [m, dim], the row of every query's positive [n], the variants' fakes."""

    queries: Rows
    originals: Rows
    positives: NDArray[np.int64]
    variants: tuple[Rows, ...]


def directions(images: int, dim: int) -> Iterator[Direction]:
    """Image to caption, then caption to image."""
    space = Space.draw(images, dim, seed=0)
    owners = np.repeat(np.arange(images), CAPTIONS_AN_IMAGE)
    captions = space.near(owners, CAPTION_NOISE, 0)
    fakes = [space.near(owners, FAKE_CAPTION_NOISE, 1 + number) for number in range(CAPTION_VARIANTS)]
    yield Direction(space.image_rows(), captions, np.arange(images) * CAPTIONS_AN_IMAGE, tuple(fakes))
    everyone = np.arange(images)
    mixed = [space.near(everyone, FAKE_IMAGE_NOISE, 100 + number) for number in range(IMAGE_VARIANTS)]
    yield Direction(captions, space.image_rows(), owners, tuple(mixed))


def ours(direction: Direction) -> None:
    """Ranks with the originals alone and beside every variant: each shard is opened and searched once."""
    from engine.evaluate.search import search_shard
    from indexes.exact import exact_scores
    from indexes.protocol import Shard
    from indexes.registry import open_backend
    from indexes.sources import ArrayRows

    thresholds = exact_scores(direction.queries, direction.originals[direction.positives])
    for rows in (direction.originals, *direction.variants):
        backend = open_backend("auto", Shard("rows", "original", ArrayRows(rows)))
        search_shard(backend, direction.queries, thresholds)


def naive(direction: Direction) -> None:
    """FAISS over the originals, then over originals and fakes of every variant."""
    import faiss

    for fakes in (None, *direction.variants):
        index = faiss.IndexFlatIP(direction.originals.shape[1])
        index.add(direction.originals)
        if fakes is not None:
            index.add(fakes)
        index.search(direction.queries, K)


WAYS: Mapping[str, Callable[[Direction], None]] = {"itrstress": ours, "naive_faiss_tuned": naive}


def run(images: int, dim: int, repeat: int) -> list[dict[str, Any]]:
    """One record for each way; the runs take turns, each in a new process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
    for _ in range(repeat):
        for name in WAYS:
            command = [sys.executable, "-m", "bench.rococo_sweep", name, str(images), str(dim)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise RuntimeError(f"{name} ended with code {done.returncode}: {last}")
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return [record(name, images, runs) for name, runs in found.items()]


def record(name: str, images: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread over the runs; queries are counted once for each gallery."""
    seconds = [sum(run["seconds"]) for run in runs]
    median = statistics.median(seconds)
    searched = images * (1 + CAPTION_VARIANTS) + images * CAPTIONS_AN_IMAGE * (1 + IMAGE_VARIANTS)
    return {
        "name": name,
        "work": "sweep",
        "exact": True,
        "median_seconds": median,
        "spread": [min(seconds), max(seconds)],
        "image_to_text_seconds": statistics.median(run["seconds"][0] for run in runs),
        "text_to_image_seconds": statistics.median(run["seconds"][1] for run in runs),
        "queries_per_second": searched / median,
        "agreement": None,
        "peak_rss_bytes": max(run["peak_rss_bytes"] for run in runs),
    }


def main(name: str, images: str, dim: str) -> None:
    """Measure one way: a small job first, so that nothing is loaded or compiled on the clock."""
    import indexes  # noqa: F401 - FAISS gets the fitting BLAS kernel in both ways

    for direction in directions(64, int(dim)):
        WAYS[name](direction)
    seconds = []
    for direction in directions(int(images), int(dim)):
        start = time.perf_counter()
        WAYS[name](direction)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "peak_rss_bytes": peak_memory()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
