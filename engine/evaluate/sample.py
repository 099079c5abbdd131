"""What statistics read of a run: per-query values and the image that each query belongs to.

Five captions share one image, so queries are no independent draws: intervals and tests resample whole
images (`Sample.cluster`). Every metric but the median rank is a function of means over queries; `FORMULAS`
says which function of which means, once for the bootstrap, the randomisation test and the metrics of further
columns. `engine.evaluate.metrics` has the definitions that a search values a run by; a test holds both equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.evaluate import metrics
from engine.evaluate.ties import Standing, TiePolicy

Values = NDArray[np.float64]

RANK = "rank"
FOOLED, FOOLED_BY_OWN = "fooled", "fooled_by_own"
HIT = {k: f"hit@{k}" for k in metrics.CUTOFFS}
BASE_HIT = {k: f"base_hit@{k}" for k in metrics.CUTOFFS}
DOWN, UP = "down", "up"
SET_HIT = {k: f"set_hit@{k}" for k in metrics.CUTOFFS}
DCG_GAIN = "dcg"
BLIND_ASKED, BLIND_FOOLED = "blind_asked", "blind_fooled"
ASKED, FIRST_FITS, R_PRECISE, AVERAGE_PRECISION = "asked", "first_fits", "r_precise", "average_precision"
FURTHER = (
    *SET_HIT.values(),
    DCG_GAIN,
    *(BLIND_ASKED, BLIND_FOOLED),
    *(ASKED, FIRST_FITS, R_PRECISE, AVERAGE_PRECISION),
)
"""Columns that outcomes have where they were asked for; they hold the values as they are."""
SAME_VALUE = 1e-9  # sums of hits that differ by less are equal but for rounding


@dataclass(frozen=True)
class Linear:
    """A metric as a linear function `of` the means of `columns`, given in order as equally shaped arrays."""

    columns: tuple[str, ...]
    of: Callable[..., Values]


@dataclass(frozen=True)
class Ratio:
    """A metric as 100 times one mean over another, both linear in the means of `columns`; nan, undefined,
    where the `whole` is 0."""

    columns: tuple[str, ...]
    part: Callable[..., Values]
    whole: Callable[..., Values]

    def of(self, *means: Values) -> Values:
        """From the means of the columns, given in order as equally shaped arrays."""
        whole = self.whole(*means)
        result: Values = 100.0 * self.part(*means) / np.where(whole > 0, whole, np.nan)
        return result


Formula = Linear | Ratio


def scaled(mean: Values) -> Values:
    """``100 * mean``."""
    result: Values = 100.0 * mean
    return result


def share(part: str, whole: str) -> Ratio:
    """Of the queries in column `whole`, those in column `part`."""
    return Ratio((part, whole), lambda some, _: some, lambda _, all_: all_)


FORMULAS: Mapping[str, Formula] = {
    **{metrics.RECALL[k]: Linear((HIT[k],), scaled) for k in metrics.CUTOFFS},
    metrics.MEAN_RANK: Linear((RANK,), lambda rank: rank),
    metrics.RSUM: Linear(tuple(HIT.values()), lambda *hits: scaled(np.sum(hits, axis=0))),
    metrics.DROP_RATE: Ratio((BASE_HIT[1], HIT[1]), lambda base, new: base - new, lambda base, _: base),
    metrics.INCORRECT_RECALL: Linear((FOOLED,), scaled),
    metrics.INCORRECT_RECALL_OWN: Linear((FOOLED_BY_OWN,), scaled),
    metrics.INCORRECT_RECALL_OTHER: Linear((FOOLED, FOOLED_BY_OWN), lambda all_, own: scaled(all_ - own)),
    **{metrics.SET_RECALL[k]: Linear((SET_HIT[k],), scaled) for k in metrics.CUTOFFS},
    metrics.SET_RSUM: Linear(tuple(SET_HIT.values()), lambda *hits: scaled(np.sum(hits, axis=0))),
    metrics.DCG: Linear((DCG_GAIN,), lambda gain: gain),
    metrics.EXTENDED_RECALL_1: share(FIRST_FITS, ASKED),
    metrics.R_PRECISION: share(R_PRECISE, ASKED),
    metrics.MAP_AT_R: share(AVERAGE_PRECISION, ASKED),
    metrics.FOOLED_BLIND: share(BLIND_FOOLED, BLIND_ASKED),
    metrics.QUERIES_DOWN: Linear((DOWN,), scaled),
    metrics.QUERIES_UP: Linear((UP,), scaled),
    metrics.QUERIES_SAME: Linear((DOWN, UP), lambda down, up: scaled(1.0 - down - up)),
}


@dataclass(frozen=True)
class Sample:
    """The queries of a run, in its order.

    `query_ids` are the originals that ask. `images` are the distinct image ids in ascending order, `cluster`
    int64 [queries] the number of each query's image in them. `values` maps a column to float64 [queries];
    ``base_...``, ``fooled`` and ``down`` are there for runs that have them.
    """

    query_ids: tuple[str, ...]
    images: tuple[str, ...]
    cluster: NDArray[np.int64]
    values: Mapping[str, Values]

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of `FORMULAS` that the sample has the columns of."""
        return tuple(name for name, one in FORMULAS.items() if set(one.columns) <= set(self.values))

    @cached_property
    def sizes(self) -> Values:
        """float64 [images]: how many queries each has."""
        return np.bincount(self.cluster, minlength=len(self.images)).astype(np.float64)

    @cached_property
    def sums(self) -> Mapping[str, Values]:
        """Column -> float64 [images]: the sum over the queries of each image."""
        count = len(self.images)
        return {
            name: np.bincount(self.cluster, value, count).astype(np.float64, copy=False)
            for name, value in self.values.items()
        }

    def estimate(self) -> dict[str, float]:
        """Every metric of the sample itself, median rank included; nan where undefined."""
        means = {name: np.mean(value, keepdims=True) for name, value in self.values.items()}
        values = {name: float(value[0]) for name, value in evaluate_formulas(self.metrics, means).items()}
        return {**values, metrics.MEDIAN_RANK: metrics.median_rank(self.values[RANK])}


def evaluate_formulas(names: tuple[str, ...], means: Mapping[str, Values]) -> dict[str, Values]:
    """The named metrics from means of columns (arrays of one shape)."""
    return {name: FORMULAS[name].of(*(means[one] for one in FORMULAS[name].columns)) for name in names}


def sample_of(table: pa.Table, policy: TiePolicy) -> Sample:
    """The sample of a run's per-query outcomes (`engine.evaluate.outcomes`) under its tie policy."""
    standing, base = standing_of(table, ""), standing_of(table, "base_")
    values = {RANK: policy.ranks(standing)} | {HIT[k]: policy.hits(standing, k) for k in metrics.CUTOFFS}
    if table["variant"].null_count == 0:
        values |= {BASE_HIT[k]: policy.hits(base, k) for k in metrics.CUTOFFS}
        is_query_variant = table["fake_id"].null_count == table.num_rows
        values |= moved(values) if is_query_variant else fooled(table)
    images, cluster = clusters_of(table["query_image_id"])
    values |= {name: table[name].to_numpy() for name in FURTHER if name in table.column_names}
    return Sample(tuple(table["query_id"].to_pylist()), images, cluster, values)


def standing_of(table: pa.Table, prefix: str) -> Standing:
    """Where the best positives stand: in the run's gallery, with the prefix ``base_`` in the originals'."""
    return Standing(*(table[f"{prefix}{name}"].to_numpy() for name in ("above", "tied", "tied_positives")))


def fooled(table: pa.Table) -> dict[str, Values]:
    """The columns of IR@1 (they hold the values under the run's tie policy)."""
    return {name: table[name].to_numpy() for name in (FOOLED, FOOLED_BY_OWN)}


def moved(values: Mapping[str, Values]) -> dict[str, Values]:
    """1 where a query's rsum (its hits at 1, 5 and 10, added) is below, or above, its original form's."""
    change = sum(values[HIT[k]] - values[BASE_HIT[k]] for k in metrics.CUTOFFS)
    return {
        DOWN: np.less(change, -SAME_VALUE).astype(np.float64),
        UP: np.greater(change, SAME_VALUE).astype(np.float64),
    }


def clusters_of(ids: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The distinct ids in ascending order, and int64 [n]: the number of each entry's id in them."""
    encoded = ids.combine_chunks().dictionary_encode()
    found = encoded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=found.__getitem__)
    number = np.empty(len(found), dtype=np.int64)
    number[order] = np.arange(len(found))
    return tuple(found[one] for one in order), number[encoded.indices.to_numpy()]
