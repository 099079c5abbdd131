"""Set recall over every order of the tied rows, DCG term by term, lists against the full matrix."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import fsum, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.metrics import rsum_both
from engine.evaluate.ranked_metrics import FOUND, RankedMetrics, dcg
from engine.evaluate.ranking import Ranker
from engine.evaluate.results import read_results
from engine.evaluate.run import evaluate_store

POOL = np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [-0.6, 0, 0.8]], dtype=np.float32)


def score(query: Any, row: Any) -> np.float32:
    return np.float32(fsum(float(a) * float(b) for a, b in zip(query, row, strict=True)))


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 2), st.integers(0, 6))
def test_tied_positives_within_k_over_every_order(rows: list[bool], above: int, places: int) -> None:
    places = min(places, len(rows))
    found = [above + sum(order[:places]) for order in permutations(rows)]
    arguments = [np.array([float(v)]) for v in (above, sum(rows), places, len(rows))]
    assert FOUND["expected"](*arguments)[0] == pytest.approx(np.mean(found))
    assert FOUND["optimistic"](*arguments)[0] == max(found)
    assert FOUND["pessimistic"](*arguments)[0] == min(found)


def test_dcg_is_its_formula_with_the_stated_maximum() -> None:
    relevance = np.array([[1.0] * 10, [1, 0.5, 0.25, *[0.0] * 7]])
    assert dcg(relevance)[0] == pytest.approx(4.5436, abs=5e-5)
    assert dcg(relevance)[1] == pytest.approx(1 + 0.5 / log2(3) + 0.25 / 2)
    assert dcg(relevance[:, :3])[1] == pytest.approx(1 + 0.5 / log2(3) + 0.25 / 2)


@st.composite
def worlds(draw: st.DrawFn, parts: Any) -> Any:
    world_type, variant_type, _ = parts
    count = draw(st.integers(1, 4))
    owner = [*range(count), *draw(st.lists(st.integers(0, count - 1), max_size=9))]

    def vectors(n: int) -> Any:
        return POOL[draw(st.lists(st.integers(0, len(POOL) - 1), min_size=n, max_size=n))]

    source = draw(st.lists(st.integers(0, len(owner) - 1), min_size=1, max_size=5))
    typos = variant_type(
        "typo", "captions", list(range(len(owner))), vectors(len(owner)), [True] * len(owner), "query"
    )
    words = variant_type("words", "captions", source, vectors(len(source)), [True] * len(source))
    return world_type(vectors(count), vectors(len(owner)), owner, [words, typos])


def galleries(world: Any, direction: str, variant: str | None) -> Any:
    """Queries and, in the promised order of rows, (vector, image, is original)."""
    owner = list(world.image_of_caption)
    images = [(v, i, True) for i, v in enumerate(world.images)]
    captions = [(v, i, True) for v, i in zip(world.captions, owner, strict=True)]
    if variant == "typo":
        return [
            (v, owner[s]) for v, s in zip(world.variants[1].vectors, world.variants[1].source, strict=True)
        ], images
    fakes = []
    if variant == "words":
        part = world.variants[0]
        fakes = [(v, owner[s], False) for v, s in zip(part.vectors, part.source, strict=True)]
    queries, rows = (images, captions) if direction == "i2t" else (captions, images)
    return [(v, i) for v, i, _ in queries], rows + fakes


@pytest.mark.parametrize("policy", sorted(FOUND))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_columns_equal_the_full_matrix(world_parts: Any, policy: str, data: st.DataObject) -> None:
    world = data.draw(worlds(world_parts))
    for direction, variant in (("i2t", None), ("i2t", "words"), ("t2i", None), ("t2i", "typo")):
        search = DirectionSearch(world_parts[2](world), direction, policy, "numpy")  # type: ignore[arg-type]
        found = RankedMetrics().columns(search, variant)
        queries, rows = galleries(world, direction, variant)
        for number, (vector, image) in enumerate(queries):
            scores = [score(vector, v) for v, _, _ in rows]
            positive = [i == image and original for _, i, original in rows]
            order = sorted(range(len(rows)), key=lambda n: (-scores[n], n))
            gain = sum(
                (1.0 if positive[n] else float(scores[n])) / log2(place + 2)
                for place, n in enumerate(order[:10])
            )
            assert found["dcg"][number] == pytest.approx(gain, abs=1e-6)
            for k in (1, 5, 10):
                expected = slow_set_hit(scores, positive, k, policy)
                assert found[f"set_hit@{k}"][number] == pytest.approx(expected), (direction, variant, k)


def slow_set_hit(scores: list[Any], positive: list[bool], k: int, policy: str) -> float:
    """Tied rows dealt out one by one, as the policy orders them."""
    within, left = 0.0, k
    for value in sorted(set(scores), reverse=True):
        group = [p for s, p in zip(scores, positive, strict=True) if s == value]
        places = min(left, len(group))
        if policy == "expected":
            within += sum(group) * places / len(group)
        else:
            group.sort(reverse=policy == "optimistic")
            within += sum(group[:places])
        left -= places
    return within / min(sum(positive), k)


def test_lists_are_the_order_of_the_full_matrix_at_any_depth(world_parts: Any, make_world: Any) -> None:
    world = make_world(images=9)
    search = DirectionSearch(world_parts[2](world), "i2t", backend="numpy")
    ranker = Ranker.of(search, "swap:seed=7")
    rows = np.concatenate([world.captions, world.variants[0].vectors])
    scores = np.array([[score(q, r) for r in rows] for q in world.images])
    order = np.argsort(-scores, axis=1, kind="stable")
    for depth in (1, 7, len(rows), 99):
        (listed,) = ranker.lists(depth)
        assert np.array_equal(listed.rows, order[:, :depth])
        assert np.array_equal(listed.scores, np.take_along_axis(scores, order, axis=1)[:, :depth])
    with pytest.raises(InputError, match="a list of 0 rows"):
        list(ranker.lists(0))


def test_the_relevance_of_another_encoder_is_its_cosine(world_parts: Any, make_world: Any) -> None:
    world, other = make_world(images=8), make_world(images=8, seed=5, encoder="fake:other")
    search = DirectionSearch(world_parts[2](world), "i2t")
    found = RankedMetrics(world_parts[2](other)).columns(search, "swap:seed=7")
    rows, others = (np.concatenate([w.captions, w.variants[0].vectors]) for w in (world, other))
    owner = [*world.image_of_caption, *[-1] * len(world.variants[0].source)]
    for image, vector in enumerate(world.images):
        order = np.argsort(-np.array([score(vector, r) for r in rows]), kind="stable")[:10]
        gain = sum(
            (1.0 if owner[n] == image else float(score(other.images[image], others[n]))) / log2(place + 2)
            for place, n in enumerate(order)
        )
        assert found["dcg"][image] == pytest.approx(gain, abs=1e-6)
    with pytest.raises(InputError, match="has other items"):
        RankedMetrics(world_parts[2](make_world(images=9))).columns(search, None)


def test_the_relevance_is_of_the_same_texts_and_not_of_ids_alone(world_parts: Any, make_world: Any) -> None:
    search = DirectionSearch(world_parts[2](make_world()), "i2t")
    other = world_parts[2](make_world(encoder="fake:other"))
    RankedMetrics(other).columns(search, "swap:seed=7")
    label = ("captions", "swap:seed=7")
    texts = other.load(*label).content
    other._sets[label] = replace(other.load(*label), content=(*texts[:-1], "another text"))
    with pytest.raises(InputError, match="captions/swap:seed=7 has other items than"):
        RankedMetrics(other).columns(search, "swap:seed=7")


def test_a_run_records_all_that_its_relevance_depends_on(world_parts: Any, make_world: Any) -> None:
    def recorded(variant: str | None = "swap:seed=7", **changes: Any) -> str:
        world = replace(make_world(), **changes)
        return RankedMetrics(world_parts[2](world)).relevance_of("i2t", variant)

    assert recorded() == recorded(images=make_world(seed=9).images)  # rows are the fingerprint's to tell
    assert recorded().startswith("fake:encoder (eeeeeeeeeeee), sets ")
    swapped = [replace(make_world().variants[0], source=[1, 0, *range(2, 24)])]
    others = [recorded(None), recorded(dtype="float16"), recorded(variants=swapped)]
    assert len({recorded(), *others}) == 4
    with pytest.raises(InputError, match=r"holds no variant 'mix:0\.5'"):
        RankedMetrics(world_parts[2](replace(make_world(), variants=[]))).relevance_of("t2i", "mix:0.5")
    found = evaluate_store(
        world_parts[2](make_world()), ["swap:seed=7"], ranked=RankedMetrics(world_parts[2](make_world()))
    )
    assert recorded() in {one.relevance for one in found.runs}


def test_results_hold_the_metrics_with_intervals_when_asked(
    world_parts: Any, make_world: Any, store_file: Path, tmp_path: Path, capsys: Any
) -> None:
    plain = evaluate_store(world_parts[2](make_world()))
    results = evaluate_store(world_parts[2](make_world()), ranked=RankedMetrics())
    assert results.provenance.config["relevance"] == "self"
    for one, without in zip(results.runs, plain.runs, strict=True):
        added = {"set_recall@1", "set_recall@5", "set_recall@10", "set_rsum", "dcg@10"}
        assert set(one.metrics) - set(without.metrics) == added
        assert added <= set(one.intervals)
        assert one.metrics["set_recall@1"] == pytest.approx(one.metrics["recall@1"])
        parts = [one.metrics[f"set_recall@{k}"] or 0.0 for k in (1, 5, 10)]
        assert one.metrics["set_rsum"] == pytest.approx(sum(parts))
        if one.direction == "t2i":  # one positive a query
            assert one.metrics["set_rsum"] == pytest.approx(one.metrics["rsum"])
    out = tmp_path / "out"
    command = ["evaluate", str(store_file), "--out", str(out), "--ranked", "--relevance", str(store_file)]
    assert run(command) == 0
    assert read_results(out).provenance.config["relevance"] == "fake:encoder (eeeeeeeeeeee)"
    assert run(["evaluate", str(store_file), "--relevance", str(store_file)]) == 2
    assert "--relevance belongs to --ranked" in capsys.readouterr().err


def test_the_rsum_of_both_directions_needs_both() -> None:
    assert rsum_both({"i2t": 200.0, "t2i": 150.5}) == 350.5
    assert rsum_both({"i2t": 200.0}) is None
