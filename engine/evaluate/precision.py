"""What half precision changes: the answers and metrics of one model and corpus, against float32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.evaluate.direction import DirectionSearch
from engine.evaluate.results import DIRECTIONS, Direction
from engine.stopwatch import Stopwatch
from engine.store.reader import open_store
from engine.store.schema import MODALITIES, ORIGINAL

REFERENCE = "fp32"
BLOCK = 4096  # rows of a set compared at once


@dataclass(frozen=True)
class PrecisionChange:
    """One direction in one precision.

    `changed` of the `queries` have another first item than in fp32. `metrics` are those of the run,
    `differences` what they have more (in the unit of each, percent for recalls) than in fp32; a metric that
    is undefined is in neither. `largest` is the largest difference of a component of an embedding.
    """

    precision: str
    direction: Direction
    queries: int
    changed: int
    metrics: Mapping[str, float]
    differences: Mapping[str, float]
    largest: float


def precision_changes(stores: Mapping[str, Path]) -> Iterator[PrecisionChange]:
    """The changes by direction, fp32 first, from stores of the same corpus by precision (`REFERENCE` too).

    The stores hold the originals, whole. Searched exactly, so all there is to see is the encoder's.
    """
    answers = {precision: _answers(path) for precision, path in stores.items()}
    largest = {precision: _largest(stores[REFERENCE], path) for precision, path in stores.items()}
    for direction in DIRECTIONS:
        first, metrics = answers[REFERENCE][direction]
        for precision in stores:
            ours, values = answers[precision][direction]
            yield PrecisionChange(
                precision=precision,
                direction=direction,
                queries=len(first),
                changed=sum(a != b for a, b in zip(first, ours, strict=True)),
                metrics=values,
                differences={name: value - metrics[name] for name, value in values.items()},
                largest=largest[precision],
            )


def _answers(path: Path) -> dict[Direction, tuple[list[str], dict[str, float]]]:
    """By direction: the id of every query's first item, and the metrics."""
    answers: dict[Direction, tuple[list[str], dict[str, float]]] = {}
    with open_store(path) as store:
        for direction in DIRECTIONS:
            run, table = DirectionSearch(store, direction).run(None, Stopwatch())
            metrics = {name: value for name, value in run.metrics.items() if value is not None}
            answers[direction] = (table["top_id"].to_pylist(), metrics)
    return answers


def _largest(reference: Path, other: Path) -> float:
    largest = 0.0
    with open_store(reference) as one, open_store(other) as two:
        for modality in MODALITIES:
            rows, others = (store.load(modality, ORIGINAL).rows for store in (one, two))
            for start in range(0, rows.shape[0], BLOCK):
                stop = min(start + BLOCK, rows.shape[0])
                difference = np.abs(rows.read(start, stop) - others.read(start, stop))
                largest = max(largest, float(difference.max()))
    return largest
