"""Intervals by a bootstrap clustered on images: whole images are drawn with replacement, with all queries.

A resample is a row of whole-number weights, one an image; a metric that is a function of means needs nothing
but weights times sums by image, one matrix product for all resamples and columns. With equal numbers of
images and equal seeds the weights are the same, so base and variant, variants, and checkpoints are resampled
together: an interval of a drop rate or of a difference takes account of what both have in common.

The interval is the percentile interval (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13).
It says how much a value depends on the images that happened to be drawn, not on the seeds of a variant, and
it has no width where every query has the same value (an R@1 of exactly 0 or 100).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate import metrics
from engine.evaluate.results import Bootstrap, Run
from engine.evaluate.sample import RANK, Sample, Values, evaluate_formulas, sample_of
from engine.evaluate.ties import tie_policy

DEFAULT_RESAMPLES = 1000
MOST_RESAMPLES = 100_000  # bounds of an interval no longer move then
DEFAULT_SEED = 0
CONFIDENCE = 0.95
BLOCK_CELLS = 1 << 22  # weights that are float64 at once
KEPT_CELLS = 1 << 25  # weights that are kept for the next run; more are drawn anew, block by block
DIGITS = 6  # of a bound after the point: what the order of a sum can change is cut off
WINDOW_DEVIATIONS = 5.0

Weights = NDArray[np.uint16]


@dataclass(frozen=True)
class Resampling:
    """How many resamples are drawn (0: no intervals) and from which seed.

    Raises `InputError` for more than `MOST_RESAMPLES`.
    """

    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        if self.resamples > MOST_RESAMPLES:
            raise InputError(
                f"{self.resamples:,} resamples are too many; ask for at most {MOST_RESAMPLES:,} "
                f"({DEFAULT_RESAMPLES:,} are usual)"
            )


DEFAULT_RESAMPLING = Resampling()


@lru_cache(maxsize=4)
def draw_weights(images: int, resamples: int, seed: int) -> Weights:
    """uint16 [resamples, images]: how often each image is in each resample; every row sums to `images`."""
    weights = draw_rows(np.random.default_rng((seed, images)), resamples, images)
    weights.setflags(write=False)
    return weights


def draw_rows(generator: np.random.Generator, rows: int, images: int) -> Weights:
    """uint16 [rows, images]: the generator's next resamples."""
    weights = np.empty((rows, images), dtype=np.uint16)
    for row in weights:
        row[:] = np.bincount(generator.integers(images, size=images), minlength=images)
    return weights


def weight_blocks(images: int, resampling: Resampling) -> Iterator[Weights]:
    """All resamples of so many images in order, `BLOCK_CELLS` or one row at once: uint16 [block, images]."""
    resamples, seed = resampling.resamples, resampling.seed
    size = max(1, BLOCK_CELLS // images)
    starts = range(0, resamples, size)
    if resamples * images <= KEPT_CELLS:
        weights = draw_weights(images, resamples, seed)
        yield from (weights[start : start + size] for start in starts)
        return
    generator = np.random.default_rng((seed, images))
    yield from (draw_rows(generator, min(size, resamples - start), images) for start in starts)


def distributions(sample: Sample, blocks: Iterable[Weights]) -> dict[str, Values]:
    """Every metric of every resample: float64 [resamples]; nan where a metric is undefined.

    `blocks` are uint16 [block, images], at least one.
    """
    window = MedianWindow.of(sample)
    columns = {**sample.sums, "size": sample.sizes, "below": window.below}
    matrix = np.stack(list(columns.values()), axis=1)
    parts = []
    for rows in blocks:
        totals = dict(zip(columns, (rows.astype(np.float64) @ matrix).T, strict=True))
        size, below = totals.pop("size"), totals.pop("below")
        means = {name: total / size for name, total in totals.items()}
        values = evaluate_formulas(sample.metrics, means)
        values[metrics.MEDIAN_RANK] = window.medians(rows, size, below)
        parts.append(values)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True)
class MedianWindow:
    """The ranks around the median in ascending order, wide enough to hold nearly every resample's median.

    `ranks` float64 [window] and `cluster` int64 [window] are a stretch of the sorted queries, the `whole` of
    them or not; `below` float64 [images] counts each image's queries before it. A resample whose median lies
    outside is looked for among all queries, so the window changes the time and never the result.
    """

    ranks: Values
    cluster: NDArray[np.int64]
    below: Values
    whole: bool
    sample: Sample

    @classmethod
    def of(cls, sample: Sample, deviations: float = WINDOW_DEVIATIONS) -> MedianWindow:
        """A window of that many standard deviations (their upper bound) of the median's place, both ways."""
        largest = float(sample.sizes.max())
        half = math.ceil(deviations * largest * math.sqrt(len(sample.images)) / 2) + 1
        middle = len(sample) // 2
        return cls.between(sample, max(0, middle - half), min(len(sample), middle + half))

    @classmethod
    def between(cls, sample: Sample, start: int, stop: int) -> MedianWindow:
        """The sorted queries [start, stop)."""
        ranks = sample.values[RANK]
        order = np.argsort(ranks, kind="stable")
        inside = order[start:stop]
        below = np.bincount(sample.cluster[order[:start]], minlength=len(sample.images))
        whole = stop - start == len(sample)
        return cls(ranks[inside], sample.cluster[inside], below.astype(np.float64), whole, sample)

    def medians(self, weights: Weights, size: Values, below: Values) -> Values:
        """float64 [resamples]: the median rank of each; `size` and `below` are weighted totals of each."""
        reached = np.cumsum(weights[:, self.cluster], axis=1, dtype=np.int32) + below[:, None].astype(
            np.int64
        )
        lower = (size.astype(np.int64) - 1) // 2
        upper = size.astype(np.int64) // 2
        inside = (below <= lower) & (upper < reached[:, -1])
        places = [np.sum(reached[inside] <= place[inside, None], axis=1) for place in (lower, upper)]
        result = np.empty(len(weights), dtype=np.float64)
        result[inside] = (self.ranks[places[0]] + self.ranks[places[1]]) / 2
        if not inside.all():
            assert not self.whole
            everything = MedianWindow.between(self.sample, 0, len(self.sample))
            missed = ~inside
            result[missed] = everything.medians(weights[missed], size[missed], np.zeros(int(missed.sum())))
        return result


def percentile_interval(values: Values, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """The central `confidence` of the values; None when one of them is nan (undefined)."""
    if np.isnan(values).any():
        return None
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(values, (tail, 1.0 - tail))
    return round(float(low), DIGITS), round(float(high), DIGITS)


def bootstrap_intervals(sample: Sample, resampling: Resampling) -> dict[str, tuple[float, float]]:
    """95% intervals by metric; none at all for a single image, which says nothing of others.

    A metric that is undefined in any resample (a drop rate whose base R@1 comes out 0) has no interval.
    """
    if resampling.resamples == 0 or len(sample.images) < 2:
        return {}
    drawn = distributions(sample, weight_blocks(len(sample.images), resampling))
    found = {name: percentile_interval(values) for name, values in drawn.items()}
    return {name: interval for name, interval in found.items() if interval is not None}


def with_statistics(run: Run, table: pa.Table, resampling: Resampling) -> Run:
    """The run with what its per-query outcomes say beyond the search: intervals, moves of the queries, and
    the metrics of further columns."""
    sample = sample_of(table, tie_policy(run.ties))
    intervals = bootstrap_intervals(sample, resampling)
    estimate: Mapping[str, float] = sample.estimate()
    added = {name: estimate[name] for name in metrics.ADDED if name in estimate}
    made = Bootstrap(
        resamples=resampling.resamples,
        seed=resampling.seed,
        confidence=CONFIDENCE,
        images=len(sample.images),
    )
    return run.model_copy(
        update={
            "metrics": {**run.metrics, **added},
            "intervals": order_as(intervals, {**run.metrics, **added}),
            "bootstrap": made if intervals else None,
        }
    )


def order_as(
    intervals: Mapping[str, tuple[float, float]], order: Mapping[str, float | None]
) -> dict[str, tuple[float, float]]:
    """The intervals in the order of the metrics."""
    return {name: intervals[name] for name in order if name in intervals}
