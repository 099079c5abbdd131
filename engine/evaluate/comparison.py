"""Is the difference of two checkpoints real? The same queries, whole images as the units.

The randomisation test writes the difference as a sum of one contribution an image and flips the sign of each
by a fair coin: if the checkpoints were alike in the metric, every such choice of signs would be as likely as
what was seen. For a mean over queries a flip is the exchange of the two checkpoints' outcomes of that image,
all its queries together. The interval is that of the bootstrap (`engine.evaluate.bootstrap`), both
checkpoints resampled with the same weights. Sources: Smucker, Allan and Carterette 2007 (randomisation tests
of retrieval); Holm 1979.
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
    DEFAULT_SEED,
    Resampling,
    distributions,
    percentile_interval,
    weight_blocks,
)
from engine.evaluate.sample import FORMULAS, Linear, Ratio, Sample, Values

DEFAULT_FLIPS = 10_000
MOST_FLIPS = 1_000_000  # all choices of signs of 19 images are fewer, and are tried at once
AS_LARGE = 1e-9  # statistics that differ by less are equal but for rounding


@dataclass(frozen=True)
class Difference:
    """Second minus first in one metric.

    `interval` is its 95% interval, `p_value` that of the two-sided randomisation test, `exact` whether all
    choices of signs were tried. An interval is None where the metric is undefined in any resample, both are
    None for a single image, and the p-value is for the median rank, which is no function of means.
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


@dataclass(frozen=True)
class Contender:
    """A checkpoint's run, prepared once for all its comparisons.

    `values` are its metrics, `resampled` the same in every resample (float64 [resamples]; empty for a single
    image or without resamples).
    """

    sample: Sample
    values: Mapping[str, float]
    resampled: Mapping[str, Values]

    @classmethod
    def of(cls, sample: Sample, resampling: Resampling = DEFAULT_RESAMPLING) -> Contender:
        """Resample the run."""
        if resampling.resamples == 0 or len(sample.images) < 2:
            return cls(sample, sample.estimate(), {})
        blocks = weight_blocks(len(sample.images), resampling)
        return cls(sample, sample.estimate(), distributions(sample, blocks))


def compare(
    first: Contender,
    second: Contender,
    names: Sequence[str],
    flips: int = DEFAULT_FLIPS,
    seed: int = DEFAULT_SEED,
) -> tuple[Difference, ...]:
    """The differences in the named metrics (`engine.evaluate.sample.FORMULAS`, and the median rank).

    Both must have been made with the same `Resampling`. Raises `InputError` when they are not of the same
    queries, have not all the metrics, or `flips` are more than `MOST_FLIPS`.
    """
    if flips > MOST_FLIPS:
        raise InputError(f"{flips:,} sign flips are too many; ask for at most {MOST_FLIPS:,}")
    check_paired(first.sample, second.sample)
    for name in names:
        if name not in first.values or name not in second.values:
            raise InputError(f"the metric {name!r} is not in both runs; they have {', '.join(first.values)}")
    tested = [name for name in names if name in FORMULAS]
    tests = randomisation_tests(first.sample, second.sample, tested, flips, seed)
    return tuple(
        Difference(
            name,
            first.values[name],
            second.values[name],
            difference_interval(first, second, name),
            *tests.get(name, (None, False)),
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


def difference_interval(first: Contender, second: Contender, name: str) -> tuple[float, float] | None:
    """The 95% interval of second minus first; None without resamples."""
    if name not in first.resampled:
        return None
    return percentile_interval(second.resampled[name] - first.resampled[name])


def randomisation_tests(
    first: Sample, second: Sample, names: Sequence[str], flips: int, seed: int
) -> dict[str, tuple[float | None, bool]]:
    """Metric -> (p-value, whether all choices of signs were tried).

    Images that contribute nothing to any metric change nothing and are left out. With n left and
    ``2 ** n <= flips`` all choices are tried and p is the share that gives at least the difference seen; else
    `flips` are drawn and p is ``(1 + those) / (1 + flips)``, never 0.
    """
    if not names or len(first.images) < 2:
        return {}
    parts = np.stack([contributions(first, second, name) for name in names], axis=1)
    undefined = np.isnan(parts.sum(axis=0))
    parts = np.nan_to_num(parts)
    seen = np.abs(parts.sum(axis=0)) - AS_LARGE
    parts = parts[np.greater(np.abs(parts).max(axis=1), 0)]
    exact = len(parts) <= math.log2(flips)
    drawn = all_flips(len(parts)) if exact else draw_flips(len(parts), flips, seed)
    more = 0 if exact else 1
    count, at_least = more, np.full(len(names), float(more))
    for flipped in drawn:
        # a flip takes twice the contribution away
        totals = parts.sum(axis=0) - 2.0 * (flipped.astype(np.float64) @ parts)
        at_least += np.sum(np.abs(totals) >= seen, axis=0)
        count += len(flipped)
    return {
        name: (None if undefined[number] else float(at_least[number] / count), exact)
        for number, name in enumerate(names)
    }


def contributions(first: Sample, second: Sample, name: str) -> Values:
    """float64 [images]: what each image adds to second minus first; nan everywhere where it is undefined."""
    formula = FORMULAS[name]
    one, two = ([sample.sums[column] for column in formula.columns] for sample in (first, second))
    if isinstance(formula, Linear):
        return linear_contributions(formula, one, two, len(first))
    return ratio_contributions(formula, one, two)


def linear_contributions(
    formula: Linear, first: Sequence[Values], second: Sequence[Values], queries: int
) -> Values:
    """The metric of an image's sums over the number of all queries, second minus first."""
    one, two = (formula.of(*(column / queries for column in columns)) for columns in (first, second))
    result: Values = two - one
    return result


def ratio_contributions(formula: Ratio, first: Sequence[Values], second: Sequence[Values]) -> Values:
    """``100 * (part_i - r * whole_i) / whole``, second minus first.

    `part` and `whole` are sums over all queries, with i over those of image i, and r is the mean of the two
    ratios. The sum is the difference whatever r is; with r near the common ratio an image's contribution is
    as likely to be positive as negative when the ratios are alike, even where the wholes are far apart: with
    drop rates, the R@1. (Exchanging outcomes would also test whether those are alike.)
    """
    sums = [(formula.part(*columns), formula.whole(*columns)) for columns in (first, second)]
    totals = [float(whole.sum()) for _, whole in sums]
    if min(totals) <= 0:
        return np.full(len(first[0]), np.nan)
    common = sum(float(part.sum()) / total for (part, _), total in zip(sums, totals, strict=True)) / 2
    one, two = (
        100.0 * (part - common * whole) / total for (part, whole), total in zip(sums, totals, strict=True)
    )
    result: Values = two - one
    return result


def all_flips(images: int) -> Iterator[NDArray[np.uint8]]:
    """Every choice of images to flip, uint8 [2 ** images, images]."""
    numbers = np.arange(2**images, dtype=np.int64)
    yield (numbers[:, None] >> np.arange(images) & 1).astype(np.uint8)


def draw_flips(images: int, flips: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """`flips` random choices of images to flip, in blocks: uint8 [block, images]."""
    generator = np.random.default_rng((seed, images))
    size = max(1, BLOCK_CELLS // images)
    for start in range(0, flips, size):
        rows = min(size, flips - start)
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
