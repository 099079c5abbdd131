"""`evaluate_store` against the full matrix and every order of the tied rows, one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import fsum
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.evaluate.results import Run
from engine.evaluate.run import evaluate_store
from engine.evaluate.ties import POLICIES

DIRECTIONS = ("i2t", "t2i")
# six unit vectors: equal picks give exact ties, also between different images
POOL = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0], [0.8, 0, 0.6], [-0.6, 0, 0.8]], dtype=np.float32
)


def score(query: Any, row: Any) -> np.float32:
    return np.float32(fsum(float(a) * float(b) for a, b in zip(query, row, strict=True)))


@cache
def first_place(wanted: int, others: int) -> tuple[float, ...]:
    """Chance that the first wanted row of a random order is at place 0, 1, ...; rows are drawn one by one."""
    if wanted == 0:
        return ()
    now = wanted / (wanted + others)
    later = first_place(wanted, others - 1) if others else ()
    return (now, *((1 - now) * chance for chance in later))


class Oracle:
    """One query: labels and scores of every row of its gallery."""

    def __init__(self, policy: str, rows: Sequence[tuple[np.float32, str]]) -> None:
        self.policy = policy
        threshold = max(s for s, label in rows if label == "positive")
        self.above = sum(s > threshold for s, _ in rows)
        wanted = sum(s == threshold and label == "positive" for s, label in rows)
        others = sum(s == threshold and label != "positive" for s, label in rows)
        places = first_place(wanted, others)
        self.places = {
            "expected": dict(enumerate(places)),
            "optimistic": {0: 1.0},
            "pessimistic": {others: 1.0},
        }[policy]
        best = max(s for s, _ in rows)
        self.top = [label for s, label in rows if s == best]

    def hit(self, k: int) -> float:
        return sum(chance for place, chance in self.places.items() if self.above + place + 1 <= k)

    @property
    def rank(self) -> float:
        return sum(chance * (self.above + place + 1) for place, chance in self.places.items())

    def fooled(self) -> float:
        fakes = [label for label in self.top if label in ("own", "other")]
        share = len(fakes) / len(self.top)
        return {"expected": share, "optimistic": float(share == 1), "pessimistic": float(share > 0)}[
            self.policy
        ]

    def fooled_by_own(self) -> float:
        fakes = [label for label in self.top if label in ("own", "other")]
        return self.fooled() * fakes.count("own") / len(fakes) if fakes else 0.0


def oracles(world: Any, direction: str, policy: str, part: Any | None) -> list[Oracle]:
    """Every query's full row of the similarity matrix, labelled."""
    owner = list(world.image_of_caption)
    usable = [i for i in range(len(world.images)) if i not in world.skipped_images]
    images = [(world.images[i], i) for i in usable]
    captions = list(zip(world.captions, owner, strict=True))
    queries, gallery = (images, captions) if direction == "i2t" else (captions, images)
    fakes = []
    if part is not None:
        origin = owner if part.modality == "captions" else list(range(len(world.images)))
        fakes = [(v, origin[s]) for v, s in zip(part.vectors, part.source, strict=True)]
    found = []
    for vector, image in queries:
        rows = [(score(vector, v), "positive" if i == image else "genuine") for v, i in gallery]
        if any(label == "positive" for _, label in rows):
            rows += [(score(vector, v), "own" if i == image else "other") for v, i in fakes]
            found.append(Oracle(policy, rows))
    return found


def check_run(run: Run, found: list[Oracle]) -> None:
    assert run.queries == len(found)
    for k in (1, 5, 10):
        assert run.metrics[f"recall@{k}"] == pytest.approx(100 * np.mean([o.hit(k) for o in found]))
    assert run.metrics["mean_rank"] == pytest.approx(np.mean([o.rank for o in found]))
    assert run.metrics["median_rank"] == pytest.approx(median(o.rank for o in found))
    if run.variant is not None:
        assert run.metrics["incorrect_recall@1"] == pytest.approx(100 * np.mean([o.fooled() for o in found]))
        own = 100 * np.mean([o.fooled_by_own() for o in found])
        assert run.metrics["incorrect_recall@1/own"] == pytest.approx(own)


@st.composite
def worlds(draw: st.DrawFn, parts: Any) -> Any:
    world_type, variant_type, _ = parts
    count = draw(st.integers(1, 5))
    owner = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=9))
    picks = st.integers(0, len(POOL) - 1)

    def vectors(n: int) -> Any:
        return POOL[draw(st.lists(picks, min_size=n, max_size=n))]

    def variant(name: str, modality: str, originals: int) -> Any:
        source = draw(st.lists(st.integers(0, originals - 1), min_size=1, max_size=6))
        return variant_type(name, modality, source, vectors(len(source)), [True] * len(source))

    described = sorted(set(owner))
    skipped = draw(st.lists(st.sampled_from(range(count)), unique=True, max_size=count - 1))
    if set(described) <= set(skipped):
        skipped = [image for image in skipped if image != described[0]]
    return world_type(
        vectors(count),
        vectors(len(owner)),
        owner,
        [variant("words", "captions", len(owner)), variant("mix", "images", count)],
        sorted(skipped),
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("backend", ["numpy", "faiss"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_metrics_equal_the_full_matrix(
    world_parts: Any, policy: str, backend: str, data: st.DataObject
) -> None:
    world = data.draw(worlds(world_parts))
    results = evaluate_store(world_parts[2](world), ties=policy, backend=backend)  # type: ignore[arg-type]
    assert [(run.variant, run.direction) for run in results.runs] == [
        (None, "i2t"),
        ("words", "i2t"),
        (None, "t2i"),
        ("mix", "t2i"),
    ]
    parts = {part.name: part for part in world.variants} | {None: None}
    for run in results.runs:
        check_run(run, oracles(world, run.direction, policy, parts[run.variant]))
        if run.variant is not None:
            assert run.base is not None
            base = results.find(None, run.direction)
            assert base is not None
            assert all(run.base[key] == base.metrics[key] for key in run.base)
            check_invariants(run)


def check_invariants(run: Run) -> None:
    """R_new <= R; R_new + IR <= 100; R - R_new <= IR (the last two at 1)."""
    assert run.base is not None
    new, slack = {key: value for key, value in run.metrics.items() if value is not None}, 1e-9
    for key in ("recall@1", "recall@5", "recall@10"):
        assert new[key] <= run.base[key] + slack
    assert new["mean_rank"] >= run.base["mean_rank"] - slack
    assert new["recall@1"] + new["incorrect_recall@1"] <= 100 + slack
    assert run.base["recall@1"] - new["recall@1"] <= new["incorrect_recall@1"] + slack
    parts = new["incorrect_recall@1/own"] + new["incorrect_recall@1/other"]
    assert parts == pytest.approx(new["incorrect_recall@1"])


def test_policies_are_ordered(world_parts: Any, make_world: Any) -> None:
    store = world_parts[2](make_world())
    recalls = {
        name: [run.metrics["recall@1"] for run in evaluate_store(store, ties=name).runs]  # type: ignore[arg-type]
        for name in POLICIES
    }
    ordered = zip(recalls["pessimistic"], recalls["expected"], recalls["optimistic"], strict=True)
    assert all(low <= middle <= high for low, middle, high in ordered)  # type: ignore[operator]
    assert recalls["pessimistic"] != recalls["optimistic"]  # a third of the fakes equal their originals
