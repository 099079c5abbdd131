"""What fools a checkpoint: which words, concepts and places win against originals, and which originals hold.

A *trial* of a gallery variant, of captions as of images, is a fake and a query of the image that it was made
from: it is won when that fake is listed first for that query (originals come first among equal scores). There
a fake stands against its own originals, which differ from it in nothing but what was changed; what else a
fake of another image has in its favour is no matter of the change. All trials won are the IR@1 of own fakes.
A trial of a query variant is a perturbed query: it is won when it takes the R@1 that it had unperturbed.

A *query is lost* under a gallery variant when a fake is listed first, made from whichever image (all lost are
the IR@1), under a query variant when its perturbation takes the R@1 that it had.

Trials of several checkpoints are counted together; the units of the intervals are images all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.changes import DIMENSIONS, labels_of
from engine.evaluate.indexed import AnySets
from engine.evaluate.results import QUERY_MODALITY, Run
from engine.evaluate.sample import BASE_HIT, HIT, Values, sample_of
from engine.evaluate.sets import variant_sets
from engine.evaluate.ties import tie_policy
from engine.store.schema import ORIGINAL
from engine.variants.concepts import Concepts
from engine.variants.variant import Modality

Z_95 = 1.959963984540054
EVERYTHING = "(all)"
OWN_FAKE_FIRST: Final = (
    "A trial is a fake and a query of the image that it was made from; it is won when that fake is listed "
    "first for that query. First for another image's query does not count here."
)
HIT_LOST: Final = (
    "A trial is a perturbed query; it is won when it takes the R@1 that the query had unperturbed."
)
LOST_TO_FAKE: Final = "A query is lost when a fake is listed first, made from whichever image."
LOST_HIT: Final = "A query is lost when its perturbation takes the R@1 that it had."


@dataclass(frozen=True)
class Trials:
    """Trials of one variant, over any number of checkpoints; one entry a trial.

    `won` float64 in [0, 1], `image` int64 the number of the image it belongs to, `item` int64 the number of
    its labels: ``labels[dimension][item]``.
    """

    won: Values
    image: NDArray[np.int64]
    item: NDArray[np.int64]
    labels: Mapping[str, Sequence[tuple[str, ...]]]


@dataclass(frozen=True)
class Tally:
    """How often a label won: `wins` of `trials` of so many `images`, the rate in percent, its interval."""

    dimension: str
    label: str
    trials: int
    wins: float
    images: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class VariantLabels:
    """What the trials of a variant are counted by.

    `row` maps the id of an item to its row, `of_original` the id of an original to the row of the item made
    from it, `image` int64 [items] are the image rows, `labels` one entry an item by dimension.
    """

    row: Mapping[str, int]
    of_original: Mapping[str, int]
    image: NDArray[np.int64]
    labels: Mapping[str, Sequence[tuple[str, ...]]]

    @classmethod
    def read(cls, store: AnySets, modality: Modality, name: str, concepts: Concepts) -> VariantLabels:
        """A set of the store: a variant's items, or the originals themselves (they have a length only)."""
        items = store.load(modality, name, complete=False)
        originals = store.load(modality, ORIGINAL, complete=False)
        source = items.source.tolist()
        texts = originals.content if modality == "captions" else [None] * len(originals.ids)
        changes = items.change or ["{}"] * len(source)
        labels = [
            labels_of(change, texts[row], concepts) for change, row in zip(changes, source, strict=True)
        ]
        return cls(
            row={item: row for row, item in enumerate(items.ids)},
            of_original={originals.ids[original]: row for row, original in enumerate(source)},
            image=items.source if originals.image is None else originals.image[items.source],
            labels={name: [one[name] for one in labels] for name in DIMENSIONS},
        )

    def of_images(self, images: NDArray[np.int64]) -> VariantLabels:
        """The same without the originals of all other images (int64, rows)."""
        there = np.isin(self.image, images)
        return replace(self, of_original={one: row for one, row in self.of_original.items() if there[row]})


def what_wins(run: Run) -> str:
    """What a trial of the run is and when it is won, as a sentence."""
    return OWN_FAKE_FIRST if run.side == "gallery" else HIT_LOST


def what_loses(run: Run) -> str:
    """When `lost_queries` holds a query for lost, as a sentence."""
    return LOST_TO_FAKE if run.side == "gallery" else LOST_HIT


def read_trials(store: AnySets, run: Run, table: pa.Table, concepts: Concepts) -> Trials:
    """The trials of a run from its per-query outcomes and the store's set of its variant.

    Raises `InputError` when the store does not hold the variant, or is of other queries.
    """
    assert run.variant is not None
    modality = variant_sets(store, run.direction)[run.variant].modality
    if run.side != "gallery":
        items = VariantLabels.read(store, modality, run.variant, concepts)
        return query_trials(table, lost_queries(table, run), items)
    if modality == "captions":
        return item_trials(table, store, VariantLabels.read(store, modality, run.variant, concepts))
    fakes = store.load(modality, run.variant, complete=False).source
    queries = VariantLabels.read(store, QUERY_MODALITY[run.direction], ORIGINAL, concepts)
    return query_trials(table, own_fake_first(table), queries.of_images(fakes))


def item_trials(table: pa.Table, store: AnySets, items: VariantLabels) -> Trials:
    """The items of a gallery variant of captions whose image asks in the table (one row an image)."""
    asked = set(table["query_image_id"].to_pylist())
    image_ids = store.load("images", ORIGINAL, complete=False).ids
    tops = zip(*(table[name].to_pylist() for name in ("top_id", "top_is_own_fake")), strict=True)
    winners = {item for item, is_own_fake in tops if is_own_fake}
    unknown = next((one for one in sorted(winners) if one not in items.row), None)
    if unknown is not None:
        raise InputError(f"the per-query outcomes name {unknown!r}, which the store's variant does not hold")
    takes_part = np.array([image_ids[row] in asked for row in items.image.tolist()], dtype=np.bool_)
    won = np.array([float(item in winners) for item in items.row])
    rows = np.flatnonzero(takes_part)
    return Trials(won[rows], items.image[rows], rows, items.labels)


def query_trials(table: pa.Table, won: Values, items: VariantLabels) -> Trials:
    """The queries that an item stands for; `won` float64 [queries]."""
    rows = [(number, items.of_original.get(one)) for number, one in enumerate(table["query_id"].to_pylist())]
    kept = [(number, row) for number, row in rows if row is not None]
    if not kept:
        raise InputError("the per-query outcomes are of other queries than the store holds")
    item = np.array([row for _, row in kept], dtype=np.int64)
    return Trials(won[[number for number, _ in kept]], items.image[item], item, items.labels)


def own_fake_first(table: pa.Table) -> Values:
    """float64 [queries]: 1 where a fake made from the query's own image is listed first."""
    return np.array(table["top_is_own_fake"].to_pylist(), dtype=np.float64)


def lost_queries(table: pa.Table, run: Run) -> Values:
    """float64 [queries]: 1 where a fake is listed first; for a query variant the hit at 1 that is lost."""
    if run.side == "gallery":
        fooled = np.array([one == "adversarial" for one in table["top_origin"].to_pylist()])
        return fooled.astype(np.float64)
    values = sample_of(table, tie_policy(run.ties)).values
    lost: Values = np.maximum(values[BASE_HIT[1]] - values[HIT[1]], 0.0)
    return lost


def join_trials(parts: Sequence[Trials]) -> Trials:
    """Trials of several checkpoints under one variant."""
    return Trials(
        np.concatenate([one.won for one in parts]),
        np.concatenate([one.image for one in parts]),
        np.concatenate([one.item for one in parts]),
        parts[0].labels,
    )


def tally(trials: Trials, dimension: str) -> list[Tally]:
    """The tally of every label of a dimension, in no order; a trial counts for each of its labels."""
    names: dict[str, int] = {}
    numbers = [[names.setdefault(one, len(names)) for one in some] for some in trials.labels[dimension]]
    counts = np.array([len(some) for some in numbers], dtype=np.int64)
    flat = np.array([one for some in numbers for one in some], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    repeats = counts[trials.item]
    trial = np.repeat(np.arange(len(trials.item)), repeats)
    offset = np.arange(len(trial)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    label = flat[starts[trials.item[trial]] + offset]
    found = count_wins(label, trials.image[trial], trials.won[trial], len(names))
    return [Tally(dimension, name, *found[number]) for name, number in names.items() if found[number][0]]


def overall(trials: Trials) -> Tally:
    """The tally of all trials."""
    (found,) = count_wins(np.zeros(len(trials.won), dtype=np.int64), trials.image, trials.won, 1)
    return Tally(EVERYTHING, EVERYTHING, *found)


def count_wins(
    group: NDArray[np.int64], image: NDArray[np.int64], won: Values, groups: int
) -> list[tuple[int, float, int, float, float, float]]:
    """(trials, wins, images, rate, low, high) of every group, the last three in percent.

    `group` and `image` int64, `won` float64: one entry a trial. The interval is Wilson's with the effective
    number of trials: trials over the design effect, the variance of the rate with images as units over that
    with trials as units, at least 1 (Kish 1965). Where nothing or everything won no variance can be seen and
    the images are counted.
    """
    width = int(image.max(initial=0)) + 1
    cells, place = np.unique(group * width + image, return_inverse=True)
    trials_in, wins_in = np.bincount(place).astype(np.float64), np.bincount(place, won)
    owner = cells // width
    trials = np.bincount(owner, trials_in, groups)
    wins = np.bincount(owner, wins_in, groups)
    images = np.bincount(owner, minlength=groups).astype(np.float64)
    rate = wins / np.maximum(trials, 1)
    residual = np.bincount(owner, (wins_in - rate[owner] * trials_in) ** 2, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        clustered = images / (images - 1) * residual / trials**2
        effect = np.maximum(clustered / (rate * (1 - rate) / trials), 1.0)
        effective = np.where((rate > 0) & (rate < 1) & (images > 1), trials / effect, images)
    low, high = wilson(rate, effective)
    columns = trials.astype(int), wins, images.astype(int), 100 * rate, 100 * low, 100 * high
    return list(zip(*(column.tolist() for column in columns), strict=True))


def wilson(rate: Values, trials: Values) -> tuple[Values, Values]:
    """Wilson's 95% interval of a share: the p with ``|rate - p| <= z * sqrt(p * (1 - p) / trials)``."""
    trials = np.maximum(trials, 1e-9)
    centre = rate + Z_95**2 / (2 * trials)
    half = Z_95 * np.sqrt(rate * (1 - rate) / trials + Z_95**2 / (4 * trials**2))
    scale = 1 + Z_95**2 / trials
    low = np.where(rate <= 0, 0.0, (centre - half) / scale)
    return low, np.where(rate >= 1, 1.0, (centre + half) / scale)


@dataclass(frozen=True)
class Agreement:
    """How many of several checkpoints each original query is lost to; `lost` int64 [queries].

    `expected` float64 [checkpoints + 1] is the number of queries lost to 0, 1, ... checkpoints if each lost
    its own share of queries independently of the others: more at both ends means they agree on what is hard.
    """

    query_ids: tuple[str, ...]
    checkpoints: tuple[str, ...]
    lost: NDArray[np.int64]
    expected: Values

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 [checkpoints + 1]: queries lost to 0, 1, ... of them."""
        return np.bincount(self.lost, minlength=len(self.checkpoints) + 1)

    def lost_to(self, checkpoints: int) -> list[str]:
        """The ids of the queries lost to exactly so many checkpoints."""
        return [self.query_ids[number] for number in np.flatnonzero(self.lost == checkpoints).tolist()]


def agree(lost: Mapping[str, tuple[tuple[str, ...], Values]]) -> Agreement:
    """Agreement from checkpoint -> (query ids, lost in [0, 1]); a query is lost from one half on.

    Raises `InputError` when the checkpoints were asked other queries.
    """
    ids = [one[0] for one in lost.values()]
    if any(one != ids[0] for one in ids):
        raise InputError("the checkpoints were not asked the same queries; evaluate them on the same corpus")
    matrix = np.array([values >= 0.5 for _, values in lost.values()])
    chances = np.ones(1)
    for share in matrix.mean(axis=1):
        chances = np.convolve(chances, [1 - share, share])
    return Agreement(ids[0], tuple(lost), matrix.sum(axis=0).astype(np.int64), len(ids[0]) * chances)
