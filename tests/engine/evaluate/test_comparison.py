"""Paired differences: the test against every exchange, the interval against resamples, Holm by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import erfc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from engine.evaluate.bootstrap import DEFAULT_RESAMPLING, Resampling, draw_weights
from engine.evaluate.comparison import (
    Contender,
    Difference,
    compare,
    draw_flips,
    holm,
    randomisation_tests,
)
from engine.evaluate.sample import Sample


def compare_samples(
    first: Sample, second: Sample, names: Any, resampling: Resampling = DEFAULT_RESAMPLING
) -> tuple[Difference, ...]:
    return compare(Contender.of(first, resampling), Contender.of(second, resampling), names)


NAMES = ("recall@1", "mean_rank", "drop_rate", "incorrect_recall@1/other", "map@r")
COLUMNS = (
    *("rank", "hit@1", "hit@5", "hit@10", "base_hit@1", "fooled", "fooled_by_own"),
    *("average_precision", "asked"),
)


def metrics_of(values: dict[str, Any]) -> dict[str, float]:
    mean = {name: float(np.mean(value)) for name, value in values.items()}
    base = mean["base_hit@1"]
    return {
        "recall@1": 100 * mean["hit@1"],
        "mean_rank": mean["rank"],
        "drop_rate": 100 * (base - mean["hit@1"]) / base if base else float("nan"),
        "incorrect_recall@1/other": 100 * (mean["fooled"] - mean["fooled_by_own"]),
        "map@r": 100 * mean["average_precision"] / mean["asked"] if mean["asked"] else float("nan"),
    }


def enumerated(first: Sample, second: Sample) -> dict[str, float | None]:
    """Every exchange of whole images, query by query; flips of contributions for ratios."""
    a, b = metrics_of(dict(first.values)), metrics_of(dict(second.values))
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for swapped in product((False, True), repeat=len(first.images)):
        mask = np.array(swapped)[first.cluster]
        left = {n: np.where(mask, second.values[n], first.values[n]) for n in COLUMNS}
        right = {n: np.where(mask, first.values[n], second.values[n]) for n in COLUMNS}
        one, two = metrics_of(left), metrics_of(right)
        for name in NAMES:
            found[name].append(two[name] - one[name])
    for name, (part, whole) in RATIOS.items():
        found[name] = flipped_ratios(first, second, part, whole, (a[name] + b[name]) / 200)
    return {
        name: None
        if np.isnan([*found[name], a[name], b[name]]).any()
        else float(np.mean(np.abs(found[name]) >= abs(b[name] - a[name]) - 1e-9))
        for name in NAMES
    }


RATIOS = {
    "drop_rate": (lambda one: one["base_hit@1"] - one["hit@1"], lambda one: one["base_hit@1"]),
    "map@r": (lambda one: one["average_precision"], lambda one: one["asked"]),
}


def flipped_ratios(first: Sample, second: Sample, part_of: Any, whole_of: Any, common: float) -> list[float]:
    parts = []
    for image in range(len(first.images)):
        part = 0.0
        for sign, one in ((-1, first), (1, second)):
            some, whole = part_of(one.values), whole_of(one.values)
            if whole.sum() == 0:
                return [float("nan")]
            own = one.cluster == image
            part += sign * 100 * (some[own].sum() - common * whole[own].sum()) / whole.sum()
        parts.append(part)
    return [
        sum(s * p for s, p in zip(signs, parts, strict=True)) for signs in product((-1, 1), repeat=len(parts))
    ]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Sample, Sample]:
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=6))
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    share = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(cluster), max_size=len(cluster))

    def one() -> Sample:
        values = {name: np.array(draw(share)) for name in COLUMNS}
        images = tuple(f"i{n}" for n in range(len(sizes)))
        return Sample(tuple(f"q{n}" for n in range(len(cluster))), images, cluster, values)

    return one(), one()


@settings(max_examples=60, deadline=None)
@given(pair=pairs())
def test_few_images_are_tested_by_every_exchange(pair: tuple[Sample, Sample]) -> None:
    found = compare_samples(*pair, NAMES, Resampling(50))
    expected = enumerated(*pair)
    for one in found:
        assert one.exact
        assert one.p_value == (None if expected[one.metric] is None else pytest.approx(expected[one.metric]))


@settings(max_examples=30, deadline=None)
@given(pair=pairs())
def test_the_interval_resamples_both_with_the_same_images(pair: tuple[Sample, Sample]) -> None:
    weights = draw_weights(len(pair[0].images), 40, 5)
    found = {one.metric: one for one in compare_samples(*pair, NAMES, Resampling(40, 5))}
    drawn: dict[str, list[float]] = {name: [] for name in NAMES}
    for row in weights:
        queries = np.repeat(np.arange(len(pair[0])), row[pair[0].cluster].astype(int))
        a, b = (metrics_of({n: v[queries] for n, v in one.values.items()}) for one in pair)
        for name in NAMES:
            drawn[name].append(b[name] - a[name])
    for name in NAMES:
        if np.isnan(drawn[name]).any():
            assert found[name].interval is None
        else:
            assert found[name].interval == pytest.approx(np.quantile(drawn[name], (0.025, 0.975)), abs=1e-5)


def hits(values: Any, cluster: Any = None) -> Sample:
    values = np.asarray(values, dtype=float)
    cluster = np.arange(len(values)) if cluster is None else cluster
    columns = {"rank": 2 - values, **{f"hit@{k}": values for k in (1, 5, 10)}}
    images = tuple(f"i{n:05}" for n in range(int(cluster.max()) + 1))
    return Sample(tuple(f"q{n}" for n in range(len(values))), images, cluster, columns)


def test_drawn_exchanges_come_near_to_all_of_them() -> None:
    generator = np.random.default_rng(0)
    a, b = hits(generator.integers(0, 2, 13)), hits([1] * 10 + [0] * 3)
    exact = randomisation_tests(a, b, ["recall@1"], 1 << 14, 0)["recall@1"]
    drawn = randomisation_tests(a, b, ["recall@1"], 4000, 0)
    differing = int(np.sum(a.values["hit@1"] != b.values["hit@1"]))
    assert exact[1]
    assert 2**differing <= 4000  # images that agree need no exchange
    assert drawn["recall@1"] == exact
    forced = randomisation_tests(a, b, ["recall@1"], 30, 0)["recall@1"]
    assert forced == randomisation_tests(a, b, ["recall@1"], 30, 0)["recall@1"]
    big_a, big_b = hits(generator.integers(0, 2, 400)), hits(generator.integers(0, 2, 400))
    p, is_exact = randomisation_tests(big_a, big_b, ["recall@1"], 5000, 1)["recall@1"]
    gap = big_b.values["hit@1"] - big_a.values["hit@1"]
    z = gap.sum() / np.sqrt(np.sum(gap**2))
    assert not is_exact
    assert p == pytest.approx(erfc(abs(z) / np.sqrt(2)), abs=0.06)


def test_no_drawn_p_value_is_zero_and_alike_checkpoints_have_one() -> None:
    p, _ = randomisation_tests(hits([0] * 50), hits([1] * 50), ["recall@1"], 99, 0)["recall@1"]
    assert p == pytest.approx(1 / 100)
    same = hits([0, 1] * 20)
    assert randomisation_tests(same, same, ["recall@1"], 99, 0)["recall@1"] == (1.0, True)


def test_exchanges_are_fair_coins_whatever_the_blocks() -> None:
    rows = np.concatenate(list(draw_flips(11, 4000, 3)))
    assert rows.shape == (4000, 11)
    assert rows.mean(axis=0) == pytest.approx(np.full(11, 0.5), abs=0.04)


def test_five_captions_of_an_image_count_as_one_finding() -> None:
    cluster = np.repeat(np.arange(6), 5)
    p, exact = randomisation_tests(hits([0] * 30, cluster), hits([1] * 30, cluster), ["recall@1"], 1000, 0)[
        "recall@1"
    ]
    assert exact
    assert p == pytest.approx(2 / 2**6)


def test_alike_drop_rates_of_unlike_checkpoints_are_rarely_called_different() -> None:
    """The p-value is at most 0.1 in about a tenth of draws, with R@1 of 25 and 90 and half of it lost."""
    generator = np.random.default_rng(3)
    p_values = []
    for _ in range(300):
        pair = []
        for recall in (0.25, 0.9):
            base = generator.random(300) < recall
            new = base & (generator.random(300) < 0.5)
            sample = hits(new)
            pair.append(replace(sample, values={**sample.values, "base_hit@1": base.astype(float)}))
        p, _ = randomisation_tests(*pair, ["drop_rate"], 199, 0)["drop_rate"]
        p_values.append(p)
    assert 0.05 <= np.mean(np.array(p_values) <= 0.1) <= 0.16


def test_a_ratio_over_few_queries_is_tested_as_its_mean_over_them() -> None:
    """Where every image asks alike, and where some ask nothing, mAP@R is the mean over what asks."""
    generator = np.random.default_rng(4)
    cluster = np.repeat(np.arange(60), 5)
    asked = (generator.random(300) < 0.4).astype(float)
    asked[cluster == 7] = 0.0
    pair = []
    for level in (0.45, 0.5):
        found = asked * (generator.random(300) < level)
        asking = hits(found[asked > 0], cluster[asked > 0])
        whole = hits(found, cluster)
        columns = {**whole.values, "average_precision": found, "asked": asked}
        pair.append((replace(whole, values=columns), asking))
    (first, first_asking), (second, second_asking) = pair
    p, _ = randomisation_tests(first, second, ["map@r"], 20_000, 0)["map@r"]
    only, _ = randomisation_tests(first_asking, second_asking, ["recall@1"], 20_000, 0)["recall@1"]
    assert p == pytest.approx(only, abs=0.03)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == pytest.approx((1.0, 1.0))
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_as_the_step_down_rule(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for alpha in (0.01, 0.05, 0.3):
        rejected = set()
        order = sorted(range(len(p_values)), key=lambda n: p_values[n])
        for place, number in enumerate(order):
            if (len(p_values) - place) * p_values[number] > alpha:
                break
            rejected.add(number)
        assert {n for n, p in enumerate(adjusted) if p <= alpha} == rejected


def test_runs_of_other_queries_and_missing_metrics_are_refused() -> None:
    with pytest.raises(InputError, match="not of the same queries"):
        compare_samples(hits([0, 1]), hits([0, 1, 1]), ["recall@1"])
    other = replace(hits([0, 1]), query_ids=("x", "y"))
    with pytest.raises(InputError, match="not of the same queries"):
        compare_samples(hits([0, 1]), other, ["recall@1"])
    with pytest.raises(InputError, match="'drop_rate' is not in both runs"):
        compare_samples(hits([0, 1]), hits([0, 1]), ["drop_rate"])


def test_one_image_has_values_and_no_more() -> None:
    one = hits([0.0, 1.0], np.array([0, 0]))
    (found,) = compare_samples(one, one, ["recall@1"])
    assert (found.difference, found.interval, found.p_value) == (0.0, None, None)
