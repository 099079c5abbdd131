"""Intervals against a loop that draws images and repeats their queries, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from engine.evaluate import bootstrap, metrics
from engine.evaluate.bootstrap import (
    MedianWindow,
    Resampling,
    bootstrap_intervals,
    distributions,
    draw_weights,
    weight_blocks,
)
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.run import evaluate_store
from engine.evaluate.sample import Sample, sample_of
from engine.evaluate.ties import tie_policy
from engine.stopwatch import Stopwatch


def sample_with(cluster: list[int], values: dict[str, list[float]]) -> Sample:
    images = tuple(f"image {i:03}" for i in range(max(cluster) + 1))
    ids = tuple(f"q{i}" for i in range(len(cluster)))
    return Sample(ids, images, np.array(cluster), {k: np.array(v, dtype=float) for k, v in values.items()})


def repeated(sample: Sample, weights: Any) -> dict[str, float]:
    """The slow way: the resample written out query by query, the metrics by their own functions."""
    rows = [q for q in range(len(sample)) for _ in range(int(weights[sample.cluster[q]]))]
    values = {name: value[rows] for name, value in sample.values.items()}
    recalls = {k: 100 * float(np.mean(values[f"hit@{k}"])) for k in (1, 5, 10)}
    expected = {metrics.RECALL[k]: recalls[k] for k in recalls}
    expected |= {
        "rsum": sum(recalls.values()),
        "mean_rank": float(np.mean(values["rank"])),
        "median_rank": float(np.median(values["rank"])),
    }
    if "base_hit@1" in values:
        base = 100 * float(np.mean(values["base_hit@1"]))
        expected["drop_rate"] = 100 * (base - recalls[1]) / base if base else float("nan")
    if "fooled" in values:
        expected["incorrect_recall@1"] = 100 * float(np.mean(values["fooled"]))
        expected["incorrect_recall@1/own"] = 100 * float(np.mean(values["fooled_by_own"]))
        expected["incorrect_recall@1/other"] = 100 * float(
            np.mean(values["fooled"] - values["fooled_by_own"])
        )
    if "down" in values:
        expected["queries_down"] = 100 * float(np.mean(values["down"]))
        expected["queries_up"] = 100 * float(np.mean(values["up"]))
        expected["queries_same"] = 100 - expected["queries_down"] - expected["queries_up"]
    return expected


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    cluster = draw(st.permutations([i for i, size in enumerate(sizes) for _ in range(size)]))
    n = len(cluster)
    share = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=n, max_size=n)
    names = ["hit@1", "hit@5", "hit@10"]
    names += draw(
        st.sampled_from([[], ["base_hit@1", "fooled", "fooled_by_own"], ["base_hit@1", "down", "up"]])
    )
    ranks = draw(st.lists(st.sampled_from([1.0, 1.5, 2.0, 7.0, 30.0]), min_size=n, max_size=n))
    return sample_with(list(cluster), {"rank": ranks, **{name: draw(share) for name in names}})


@settings(max_examples=60, deadline=None)
@given(sample=samples(), seed=st.integers(0, 3))
def test_every_resample_equals_the_one_written_out(sample: Sample, seed: int) -> None:
    weights = draw_weights(len(sample.images), 20, seed)
    found = distributions(sample, [weights])
    for number, row in enumerate(weights):
        expected = repeated(sample, row)
        assert set(found) == set(expected)
        for name, value in expected.items():
            assert found[name][number] == pytest.approx(value, abs=1e-9, nan_ok=True), name


@settings(max_examples=40, deadline=None)
@given(sample=samples(), deviations=st.sampled_from([0.0, 0.3, 5.0]))
def test_the_window_of_the_median_never_changes_it(sample: Sample, deviations: float) -> None:
    weights = draw_weights(len(sample.images), 30, 0)
    window = MedianWindow.of(sample, deviations)
    rows = weights.astype(np.float64)
    medians = window.medians(weights, rows @ sample.sizes, rows @ window.below)
    assert medians.tolist() == [repeated(sample, row)["median_rank"] for row in weights]


def test_weights_are_draws_of_whole_images_that_only_the_seed_and_their_number_decide() -> None:
    weights = draw_weights(50, 400, 7)
    assert set(weights.sum(axis=1)) == {50}
    assert np.array_equal(weights, draw_weights.__wrapped__(50, 400, 7))
    assert not np.array_equal(weights, draw_weights(50, 400, 8))
    assert weights.var() == pytest.approx(1 - 1 / 50, rel=0.05)  # of a multinomial count with mean 1


def test_blocks_do_not_change_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    ranks = generator.integers(1, 50, 60).astype(float).tolist()
    values = {"rank": ranks, **{f"hit@{k}": [float(r <= k) for r in ranks] for k in (1, 5, 10)}}
    sample = sample_with(np.repeat(np.arange(20), 3).tolist(), values)
    whole = distributions(sample, [draw_weights(20, 101, 0)])
    for kept in (bootstrap.KEPT_CELLS, 0):  # drawn at once, and block by block
        monkeypatch.setattr(bootstrap, "BLOCK_CELLS", 60)
        monkeypatch.setattr(bootstrap, "KEPT_CELLS", kept)
        blocks = list(weight_blocks(20, Resampling(101, 0)))
        assert {len(block) for block in blocks} == {3, 2}
        assert np.array_equal(np.concatenate(blocks), draw_weights(20, 101, 0))
        parts = distributions(sample, blocks)
        assert all(whole[name] == pytest.approx(parts[name]) for name in whole)


def test_many_resamples_of_many_images_are_never_in_memory_at_once() -> None:
    import tracemalloc

    tracemalloc.start()
    blocks = weight_blocks(20_000, Resampling(bootstrap.MOST_RESAMPLES))
    assert sum(len(next(blocks)) for _ in range(3)) < 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20  # all of them are 4 GB


def test_absurdly_many_resamples_are_refused() -> None:
    with pytest.raises(InputError, match="1,000,000,000 resamples are too many; ask for at most 100,000"):
        Resampling(10**9)


def test_captions_of_one_image_widen_the_interval() -> None:
    generator = np.random.default_rng(1)
    hits = np.repeat(generator.integers(0, 2, 100), 5).astype(float)
    values = {"rank": 2 - hits, **{f"hit@{k}": hits for k in (1, 5, 10)}}
    together = sample_with(np.repeat(np.arange(100), 5).tolist(), values)  # type: ignore[arg-type]
    apart = sample_with(list(range(500)), values)  # type: ignore[arg-type]
    wide = bootstrap_intervals(together, Resampling())["recall@1"]
    narrow = bootstrap_intervals(apart, Resampling())["recall@1"]
    ratio = (wide[1] - wide[0]) / (narrow[1] - narrow[0])
    assert ratio == pytest.approx(np.sqrt(5), rel=0.15)
    normal = 2 * 1.96 * 100 * np.sqrt(hits.mean() * (1 - hits.mean()) / 100)
    assert wide[1] - wide[0] == pytest.approx(normal, rel=0.1)


def test_a_drop_rate_is_resampled_together_with_its_base() -> None:
    generator = np.random.default_rng(2)
    base = generator.integers(0, 2, 200).astype(float)
    values = {"rank": np.ones(200), "base_hit@1": base, **{f"hit@{k}": base for k in (1, 5, 10)}}
    sample = sample_with(list(range(200)), values)  # type: ignore[arg-type]
    assert bootstrap_intervals(sample, Resampling())["drop_rate"] == (0.0, 0.0)


def test_one_image_has_no_interval_and_equal_values_have_no_width() -> None:
    values = {"rank": [1.0, 3.0], "hit@1": [1.0, 0.0], "hit@5": [1.0, 1.0], "hit@10": [1.0, 1.0]}
    assert bootstrap_intervals(sample_with([0, 0], values), Resampling()) == {}
    found = bootstrap_intervals(sample_with([0, 1], values), Resampling())
    assert found["recall@5"] == (100.0, 100.0)
    assert found["recall@1"] == (0.0, 100.0)
    assert bootstrap_intervals(sample_with([0, 1], values), Resampling(resamples=0)) == {}


def test_a_metric_that_a_resample_leaves_undefined_has_no_interval() -> None:
    values = {"rank": [1.0] * 3, **{f"hit@{k}": [0.0] * 3 for k in (1, 5, 10)}, "base_hit@1": [1.0, 0.0, 0.0]}
    found = bootstrap_intervals(sample_with([0, 1, 2], values), Resampling())
    assert "drop_rate" not in found
    assert "recall@1" in found


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("policy", ["optimistic", "pessimistic", "expected"])
def test_the_sample_of_a_run_has_the_metrics_of_the_run(
    world_parts: Any, make_world: Any, direction: Any, policy: str
) -> None:
    search = DirectionSearch(world_parts[2](make_world(images=30)), direction, policy)
    variants = {"i2t": [None, "swap:seed=7"], "t2i": [None, "mix:0.9:seed=1", "typo:seed=3"]}[direction]
    for variant in variants:
        run, table = search.run(variant, Stopwatch())
        estimate = sample_of(table, tie_policy(policy)).estimate()
        known = set(run.metrics) - {"tied_queries", "changed_rate"}
        assert known == set(estimate) - set(metrics.QUERY_MOVES)
        for name in known:
            assert estimate[name] == pytest.approx(run.metrics[name]), name


def test_results_hold_intervals_around_their_values(world_parts: Any, make_world: Any) -> None:
    results = evaluate_store(world_parts[2](make_world(images=30)), resampling=Resampling(200, 3))
    for run in results.runs:
        assert run.bootstrap is not None
        assert (run.bootstrap.resamples, run.bootstrap.seed, run.bootstrap.images) == (200, 3, 30)
        assert set(run.intervals) == set(run.metrics) - {"tied_queries", "changed_rate"}
        for name, (low, high) in run.intervals.items():
            value = run.metrics[name]
            assert value is not None
            assert low <= value <= high
    assert all(
        run.bootstrap is None
        for run in evaluate_store(world_parts[2](make_world()), resampling=Resampling(0)).runs
    )


def test_queries_of_a_perturbation_go_down_up_or_stay(world_parts: Any, make_world: Any) -> None:
    world = make_world(images=30)
    run = evaluate_store(world_parts[2](world), ["typo:seed=3"], ["t2i"]).find("typo:seed=3", "t2i")
    assert run is not None
    owner = np.array(world.image_of_caption)

    def rsums(vectors: Any) -> list[int]:
        scores = vectors.astype(np.float64) @ world.images.astype(np.float64).T
        ranks = 1 + np.sum(scores > scores[np.arange(len(owner)), owner][:, None], axis=1)
        return [sum(int(rank <= k) for k in (1, 5, 10)) for rank in ranks]

    pairs = list(zip(rsums(world.captions), rsums(world.variants[2].vectors), strict=True))
    share = 100 / len(pairs)
    assert run.metrics["queries_down"] == pytest.approx(share * sum(new < old for old, new in pairs))
    assert run.metrics["queries_up"] == pytest.approx(share * sum(new > old for old, new in pairs))
    assert run.metrics["queries_same"] == pytest.approx(share * sum(new == old for old, new in pairs))
    assert run.metrics["queries_up"] > 0


def test_scores_that_are_all_equal_have_values_and_narrow_intervals(world_parts: Any) -> None:
    world_type, part_type, store_type = world_parts
    same = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (4, 1))
    fakes = part_type("swap", "captions", [0, 1, 2, 3], same, [True] * 4)
    results = evaluate_store(store_type(world_type(same, same, [0, 1, 2, 3], [fakes])))
    attacked = results.find("swap", "i2t")
    assert attacked is not None
    assert attacked.metrics["recall@1"] == pytest.approx(100 / 8)
    assert attacked.metrics["incorrect_recall@1"] == pytest.approx(50)
    assert attacked.intervals["recall@1"] == pytest.approx((12.5, 12.5))
    assert attacked.intervals["drop_rate"] == pytest.approx((50, 50))


def test_one_query_is_evaluated_without_intervals(world_parts: Any) -> None:
    world_type, _, store_type = world_parts
    one = np.array([[0.6, 0.8]], dtype=np.float32)
    for run in evaluate_store(store_type(world_type(one, one, [0]))).runs:
        assert run.metrics["recall@1"] == 100
        assert (run.intervals, run.bootstrap) == ({}, None)
