"""mAP@R and R-Precision against a file of positives: by their formulas over the full matrix."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.extra_positives import DEALT, Places, read_positives
from engine.evaluate.results import read_results
from engine.evaluate.run import evaluate_store
from engine.store.reader import open_store
from indexes.exact import exact_score_block


def embeddings(path: Path, modality: str, name: str = "original") -> tuple[list[str], Any]:
    with open_store(path) as store:
        loaded = store.load(modality, name)
        return list(loaded.ids), loaded.rows.read(0, loaded.rows.shape[0])


def by_formula(queries: Any, gallery: Any, wanted: dict[int, list[int]], ties: str) -> dict[str, float]:
    """The three metrics from a whole sorted matrix."""
    scores = exact_score_block(queries, gallery)
    first, precise, average = [], [], []
    for query, rows in wanted.items():
        size = len(rows)
        fitting = np.isin(np.arange(scores.shape[1]), rows)
        order = np.lexsort((fitting != (ties == "optimistic"), -scores[query]))
        fits = fitting[order[:size]].tolist()
        first.append(fits[0])
        precise.append(sum(fits) / size)
        average.append(sum(sum(fits[: i + 1]) / (i + 1) for i in range(size) if fits[i]) / size)
    return {
        "extended_recall@1": 100 * np.mean(first),
        "r_precision": 100 * np.mean(precise),
        "map@r": 100 * np.mean(average),
    }


def draw(queries: list[str], gallery: list[str], seed: int) -> dict[str, list[str]]:
    random = np.random.default_rng(seed)
    return {
        query: random.choice(gallery, random.integers(1, 6), replace=False).tolist()
        for query in queries
        if random.random() < 0.7
    }


@pytest.mark.parametrize("ties", ["optimistic", "pessimistic"])
def test_metrics_are_their_formulas_with_and_without_a_variant(
    store_file: Path, tmp_path: Path, ties: str
) -> None:
    image_ids, images = embeddings(store_file, "images")
    caption_ids, captions = embeddings(store_file, "captions")
    fakes = embeddings(store_file, "captions", "swap:seed=7")[1]
    content = {"i2t": draw(image_ids, caption_ids, 1), "t2i": draw(caption_ids, image_ids, 2)}
    (tmp_path / "more.json").write_text(json.dumps(content))
    command = ["evaluate", str(store_file), "--positives", str(tmp_path / "more.json"), "--ties", ties]
    assert run([*command, "--out", str(tmp_path / "out")]) == 0
    results = read_results(tmp_path / "out" / "results.json")
    found = {(one.direction, one.variant): one for one in results.runs}
    rows = {item: row for row, item in enumerate(caption_ids)}
    wanted = {image_ids.index(query): [rows[one] for one in ids] for query, ids in content["i2t"].items()}
    back = {rows[query]: [image_ids.index(one) for one in ids] for query, ids in content["t2i"].items()}
    for key, expected in (
        (("i2t", None), by_formula(images, captions, wanted, ties)),
        (("i2t", "swap:seed=7"), by_formula(images, np.concatenate([captions, fakes]), wanted, ties)),
        (("t2i", None), by_formula(captions, images, back, ties)),
    ):
        assert {name: found[key].metrics[name] for name in expected} == pytest.approx(expected)
        assert set(expected) <= set(found[key].intervals)
        assert found[key].positives_file is not None
        assert found[key].positives_file.startswith("more.json (")


def test_one_mapping_alone_is_of_the_direction_its_queries_are_of(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    caption_ids, image_ids = embeddings(store_file, "captions")[0], embeddings(store_file, "images")[0]
    (tmp_path / "flat.json").write_text(json.dumps({caption_ids[3]: [image_ids[1], image_ids[4]]}))
    assert run(["evaluate", str(store_file), "--positives", str(tmp_path / "flat.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("mAP@R") == 2  # a column of t2i, and how to read it
    assert "i2t" in shown


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[]", "expected {"),
        ("{}", "expected {"),
        ('{"i2t": []}', "i2t: found list, expected a mapping"),
        ('{"i2t": {"a": []}}', "i2t: query 'a': expected a list of at least one id"),
        ('{"i2t": {"a": [1.5]}}', "query 'a': found 1.5, expected ids"),
        ('{"i2t": {"a": [true]}}', "query 'a': found True, expected ids"),
        ('{"i2t": {"a": ["b", "b"]}}', "query 'a': an id stands twice"),
        ('{"i2t": {"a": ["b"], "a": ["c"]}}', "the key 'a' stands twice"),
        ('{"i2t": {"a": ["b"]', "not valid JSON"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: str, line: str) -> None:
    (tmp_path / "more.json").write_text(content)
    with pytest.raises(InputError, match=r"more\.json: ") as caught:
        read_positives(tmp_path / "more.json")
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda images, captions: {"i2t": {"nobody": captions[:1]}},
            "1 of 1 queries are not in the store, such",
        ),
        (
            lambda images, captions: {"i2t": {images[0]: ["nothing"]}},
            "has the positive 'nothing', which is not in",
        ),
        (lambda images, captions: {"neither": captions[:1]}, "fits no direction"),
    ],
)
def test_ids_that_the_store_does_not_have_are_named(
    store_file: Path, tmp_path: Path, change: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = embeddings(store_file, "images")[0], embeddings(store_file, "captions")[0]
    (tmp_path / "more.json").write_text(json.dumps(change(*ids)))
    assert run(["evaluate", str(store_file), "--positives", str(tmp_path / "more.json")]) == 2
    assert line in capsys.readouterr().err


def test_average_precision_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6], dtype=np.float32)
    for hits, expected in (([0.9, 0.7, 0.1, 0.2], (1 + 2 / 3) / 4), ([0.1] * 4, 0.0)):
        _, found = Places.of(scores, np.array(hits, dtype=np.float32), 1).dealt(DEALT["expected"])
        assert (found / np.arange(1, 5)).mean() == pytest.approx(expected)


@st.composite
def galleries(draw: st.DrawFn) -> list[tuple[float, bool]]:
    """(score, positive) of up to seven rows with many ties, best first."""
    size = draw(st.integers(1, 7))
    scores = sorted(draw(st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=size, max_size=size)))[::-1]
    positive = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    return list(zip(scores, positive, strict=True))


@settings(max_examples=60, deadline=None)
@given(galleries())
def test_ties_are_valued_over_every_order_of_the_tied(rows: list[tuple[float, bool]]) -> None:
    size = sum(positive for _, positive in rows)
    first = np.array([score for score, _ in rows[:size]], dtype=np.float32)
    end = sum(score == rows[size - 1][0] for score, _ in rows)
    places = Places.of(first, np.array([score for score, fits in rows if fits], dtype=np.float32), end)
    values = []
    for order in permutations(rows):
        if all(a[0] >= b[0] for a, b in pairwise(order)):
            fits = [positive for _, positive in order[:size]]
            average = sum(sum(fits[: i + 1]) / (i + 1) for i in range(size) if fits[i]) / size
            values.append((fits[0], sum(fits) / size, average))
    expected = {
        "expected": np.mean(values, 0),
        "optimistic": np.max(values, 0),
        "pessimistic": np.min(values, 0),
    }
    for policy, deal in DEALT.items():
        fits, found = places.dealt(deal)
        average = (found / np.arange(1, size + 1)).mean()
        assert (fits[0], fits.mean(), average) == pytest.approx(tuple(expected[policy])), policy


@pytest.mark.parametrize(
    ("ties", "values"),
    [
        ("optimistic", (100.0, 100.0, 100.0)),
        ("pessimistic", (0.0, 0.0, 0.0)),
        ("expected", (100 / 3, 100 / 3, 100 / 3)),
    ],
)
def test_a_run_values_ties_by_its_policy(
    world_parts: Any, tmp_path: Path, ties: str, values: tuple[float, ...]
) -> None:
    """A caption that is listed twice and whose fake is unchanged: three rows share the first score."""
    world_type, variant_type, store_type = world_parts
    images = np.eye(3, dtype=np.float32)
    captions = images[[0, 0, 1, 2]]
    fakes = variant_type("words", "captions", [0], captions[:1], [True])
    store = store_type(world_type(images, captions, [0, 0, 1, 2], [fakes]))
    queries, gallery = (store.load(one, "original").ids for one in ("images", "captions"))
    (tmp_path / "more.json").write_text(json.dumps({"i2t": {queries[0]: [gallery[1]]}}))
    positives = read_positives(tmp_path / "more.json")
    found = evaluate_store(store, ["words"], ["i2t"], ties, positives=positives).runs[1].metrics
    assert tuple(found[name] for name in ("extended_recall@1", "r_precision", "map@r")) == pytest.approx(
        values
    )
