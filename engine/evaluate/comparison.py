"""Is the difference of two checkpoints real? The same queries, whole images as the units.

The randomisation test exchanges the two checkpoints' outcomes of an image, all its queries together, with a
fair coin an image: if the checkpoints were alike, every such exchange would be as likely as what was seen.
The interval is that of the bootstrap (`engine.evaluate.bootstrap`), both checkpoints resampled with the same
weights. Sources: Smucker, Allan and Carterette 2007 (randomisation tests of retrieval); Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate import metrics
from engine.evaluate.bootstrap import (
    BLOCK_CELLS,
    DEFAULT_RESAMPLING,
    Resampling,
    distributions,
    draw_weights,
    percentile_interval,
)
from engine.evaluate.sample import FORMULAS, Sample, Values, evaluate_formulas

DEFAULT_EXCHANGES = 10_000
AS_LARGE = 1e-9  # statistics that differ by less are equal but for rounding


@dataclass(frozen=True)
class Difference:
    """Second minus first in one metric.

    `interval` is its 95% interval, `p_value` that of the two-sided randomisation test, `exact` whether all
    exchanges were tried. An interval or a p-value is None where the metric is undefined in any resample, for
    a single image, and (p-value) for the median rank, which is no function of means.
    """

    metric: str
    first: float
    second: float
    interval: tuple[float, float] | None
    p_value: float | None
    exact: bool

    @property
    def difference(self) -> float:
        """Second minus first."""
        return self.second - self.first


def compare_samples(
    first: Sample,
    second: Sample,
    names: Sequence[str],
    resampling: Resampling = DEFAULT_RESAMPLING,
    exchanges: int = DEFAULT_EXCHANGES,
) -> tuple[Difference, ...]:
    """The differences in the named metrics (`engine.evaluate.sample.FORMULAS`, and the median rank).

    Raises `InputError` when the samples are not of the same queries, or have not all the metrics.
    """
    check_paired(first, second)
    values = [one.estimate() for one in (first, second)]
    for name in names:
        if any(name not in one for one in values):
            raise InputError(f"the metric {name!r} is not in both runs; they have {', '.join(values[0])}")
    intervals = difference_intervals(first, second, resampling)
    tests = randomisation_tests(
        first, second, [n for n in names if n in FORMULAS], exchanges, resampling.seed
    )
    return tuple(
        Difference(
            name, values[0][name], values[1][name], intervals.get(name), *tests.get(name, (None, False))
        )
        for name in names
    )


def check_paired(first: Sample, second: Sample) -> None:
    """Raise `InputError` unless both are of the same queries in the same order, of the same images."""
    if first.query_ids != second.query_ids or first.images != second.images:
        raise InputError(
            f"the two runs are not of the same queries ({len(first):,} and {len(second):,}); compare runs of "
            "one corpus, variant and direction"
        )


def difference_intervals(
    first: Sample, second: Sample, resampling: Resampling
) -> dict[str, tuple[float, float] | None]:
    """95% intervals of second minus first by metric; none for a single image or without resamples."""
    if resampling.resamples == 0 or len(first.images) < 2:
        return {}
    weights = draw_weights(len(first.images), resampling.resamples, resampling.seed)
    before, after = distributions(first, weights), distributions(second, weights)
    return {name: percentile_interval(after[name] - before[name]) for name in before if name in after}


def randomisation_tests(
    first: Sample, second: Sample, names: Sequence[str], exchanges: int, seed: int
) -> dict[str, tuple[float | None, bool]]:
    """Metric -> (p-value, whether all exchanges were tried).

    Images on which the checkpoints agree in all columns change nothing and are left out. With n left and
    ``2 ** n <= exchanges`` all exchanges are tried and p is the share that gives at least the difference
    seen; else `exchanges` are drawn and p is ``(1 + those) / (1 + exchanges)``, never 0.
    """
    columns = sorted({column for name in names for column in FORMULAS[name].columns})
    if not columns or len(first.images) < 2:
        return {}
    one, two = (np.stack([sample.sums[column] for column in columns], axis=1) for sample in (first, second))
    gap = two - one
    gap = gap[np.any(gap != 0, axis=1)]
    exact = len(gap) <= math.log2(max(exchanges, 1))
    drawn = all_exchanges(len(gap)) if exact else draw_exchanges(len(gap), exchanges, seed)
    seen = statistics(one.sum(axis=0)[None], two.sum(axis=0)[None], len(first), columns, names)
    at_least: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in names}
    undefined = {name for name in names if np.isnan(seen[name]).any()}
    for block in drawn:
        moved = block.astype(np.float64) @ gap
        found = statistics(one.sum(axis=0) + moved, two.sum(axis=0) - moved, len(first), columns, names)
        for name in names:
            undefined |= {name} if np.isnan(found[name]).any() else set()
            at_least[name].append(np.abs(found[name]) >= np.abs(seen[name]) - AS_LARGE)
    more = 0 if exact else 1
    counts = {name: np.concatenate(parts) for name, parts in at_least.items()}
    return {
        name: (
            None if name in undefined else float((more + counts[name].sum()) / (more + len(counts[name]))),
            exact,
        )
        for name in names
    }


def statistics(
    first: Values, second: Values, queries: int, columns: Sequence[str], names: Sequence[str]
) -> Mapping[str, Values]:
    """Second minus first by metric, float64 [n], from sums over all queries: float64 [n, columns]."""
    values = [
        evaluate_formulas(tuple(names), dict(zip(columns, (sums / queries).T, strict=True)))
        for sums in (first, second)
    ]
    return {name: values[1][name] - values[0][name] for name in names}


def all_exchanges(images: int) -> Iterator[NDArray[np.uint8]]:
    """Every choice of images to exchange, uint8 [2 ** images, images]."""
    numbers = np.arange(2**images, dtype=np.int64)
    yield (numbers[:, None] >> np.arange(images) & 1).astype(np.uint8)


def draw_exchanges(images: int, exchanges: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """`exchanges` random choices of images to exchange, in blocks: uint8 [block, images]."""
    generator = np.random.default_rng((seed, images))
    size = max(1, BLOCK_CELLS // images)
    for start in range(0, exchanges, size):
        rows = min(size, exchanges - start)
        packed = generator.integers(256, size=(rows, -(-images // 8)), dtype=np.uint8)
        yield np.unpackbits(packed, axis=1, count=images)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment: with p sorted, the largest so far of ``(m - i) * p_i``, at most 1.

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection at alpha.
    """
    count = len(p_values)
    order = sorted(range(count), key=p_values.__getitem__)
    adjusted, largest = [1.0] * count, 0.0
    for place, number in enumerate(order):
        largest = max(largest, min(1.0, (count - place) * p_values[number]))
        adjusted[number] = largest
    return tuple(adjusted)


def lower_is_better(metric: str) -> bool:
    """Whether a smaller value speaks for a checkpoint."""
    return metric.partition("/")[0] in LOWER_IS_BETTER


LOWER_IS_BETTER = {
    metrics.MEDIAN_RANK,
    metrics.MEAN_RANK,
    metrics.DROP_RATE,
    metrics.INCORRECT_RECALL,
    metrics.QUERIES_DOWN,
    metrics.TIED_QUERIES,
}
