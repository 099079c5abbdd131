"""Attribution: labels from change records, wins counted one by one, intervals by their definitions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.attribution import (
    HIT_LOST,
    LOST_HIT,
    LOST_TO_FAKE,
    OWN_FAKE_FIRST,
    Trials,
    agree,
    overall,
    tally,
    wilson,
)
from engine.evaluate.changes import DIMENSIONS, labels_of
from engine.evaluate.results import write_results
from engine.evaluate.run import evaluate_store
from engine.store.reader import open_store
from engine.variants.concepts import ConceptGroup, Concepts

CONCEPTS = Concepts(
    (
        ConceptGroup("animal", ("dog", "fox")),
        ConceptGroup("pet", ("dog",)),
        ConceptGroup("fruit", ("cherry",)),
    )
)


def labels(record: Any, original: str | None = "A dog sits.") -> dict[str, tuple[str, ...]]:
    found = labels_of(record if isinstance(record, str) else json.dumps(record), original, CONCEPTS)
    assert set(found) == set(DIMENSIONS)
    return {name: some for name, some in found.items() if some}


def test_a_substitution_is_labelled_by_its_record() -> None:
    record = {"word": "Dogs", "target": "Iron", "position": 1, "groups": ["animal"], "target_groups": []}
    assert labels({**record, "part_of_speech": "noun"}) == {
        "replaced word": ("dogs",),
        "target word": ("iron",),
        "replacement": ("dogs > iron",),
        "concept of the replaced": ("animal",),
        "concept of the target": ("(none)",),
        "concepts": ("animal > (none)",),
        "part of speech": ("noun",),
        "word position": ("2",),
        "caption length": ("3",),
    }


def test_published_replacements_take_their_groups_from_the_word_or_its_singular() -> None:
    several = [
        {"source": "dogs", "target": "cherries", "position": 0},
        {"source": "dogs", "target": "foxes", "position": 4},
    ]
    found = labels({"policy": "published", "replaced": several})
    assert found["replaced word"] == ("dogs",)
    assert found["concept of the replaced"] == ("animal", "pet")
    assert found["concept of the target"] == ("fruit", "animal")
    assert found["concepts"] == ("animal > fruit", "pet > fruit", "animal > animal", "pet > animal")
    assert found["word position"] == ("1", "5")


@pytest.mark.parametrize(
    "record",
    ["{", "[" * 100_000, "[]", "{}", '{"word": 3, "position": -1}', '{"replaced": [3]}', '{"kind": "mix"}'],
)
def test_records_of_something_else_have_no_word(record: str) -> None:
    assert labels(record) == {"caption length": ("3",)}
    assert labels(record, None) == {}


def test_wilson_bounds_solve_their_equation() -> None:
    rate, trials = np.array([0.0, 0.1, 0.5, 1.0]), np.array([3.0, 40.5, 7.0, 9.0])
    for bound in wilson(rate, trials):
        inside = (bound > 0) & (bound < 1)
        assert inside.sum() >= 3
        gap = np.abs(rate - bound)[inside]
        assert gap == pytest.approx(1.959964 * np.sqrt(bound * (1 - bound) / trials)[inside], rel=1e-6)
    low, high = wilson(np.array([0.0, 1.0]), np.array([10.0, 10.0]))
    assert (low[0], high[1]) == (0.0, 1.0)


def slow_tally(trials: Trials, dimension: str) -> dict[str, tuple[int, float, int, float]]:
    """label -> trials, wins, images, effective trials; by loops."""
    cells: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for won, image, item in zip(trials.won, trials.image, trials.item, strict=True):
        for label in trials.labels[dimension][item]:
            cells[label][int(image)].append(float(won))
    found = {}
    for label, by_image in cells.items():
        n = sum(map(len, by_image.values()))
        wins = sum(map(sum, by_image.values()))
        m, p = len(by_image), wins / n
        if m == 1 or p in (0, 1):
            effective: float = m
        else:
            spread = sum((sum(some) - p * len(some)) ** 2 for some in by_image.values())
            effective = n / max(1.0, m / (m - 1) * spread / n**2 / (p * (1 - p) / n))
        found[label] = n, wins, m, effective
    return found


@st.composite
def some_trials(draw: st.DrawFn) -> Trials:
    items = draw(st.integers(1, 6))
    words = st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple)
    named = {"word": draw(st.lists(words, min_size=items, max_size=items))}
    count = draw(st.integers(1, 20))

    def column(values: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)))

    won, image = column(st.sampled_from([0.0, 1.0])), column(st.integers(0, 4))
    return Trials(won, image, column(st.integers(0, items - 1)), named)


@settings(max_examples=100, deadline=None)
@given(trials=some_trials())
def test_tallies_equal_those_of_a_loop(trials: Trials) -> None:
    expected = slow_tally(trials, "word")
    found = {one.label: one for one in tally(trials, "word")}
    assert set(found) == set(expected)
    for label, (n, wins, images, effective) in expected.items():
        one = found[label]
        assert (one.trials, one.wins, one.images) == (n, wins, images)
        assert one.rate == pytest.approx(100 * wins / n)
        low, high = wilson(np.array([wins / n]), np.array([effective]))
        assert (one.low, one.high) == (pytest.approx(100 * low[0]), pytest.approx(100 * high[0]))
    assert overall(trials).trials == len(trials.won)


def test_the_same_images_again_say_nothing_new() -> None:
    generator = np.random.default_rng(0)
    won = generator.integers(0, 2, 50).astype(float)
    once = Trials(won, np.arange(50), np.zeros(50, dtype=int), {"word": [("a",)]})
    twice = replace(once, won=np.tile(won, 2), image=np.tile(np.arange(50), 2), item=np.zeros(100, dtype=int))
    (one,), (two,) = tally(once, "word"), tally(twice, "word")
    assert (one.trials, two.trials) == (50, 100)
    assert two.high - two.low == pytest.approx(one.high - one.low, rel=0.02)


def test_agreement_counts_originals_by_how_many_lose_them() -> None:
    ids = ("a", "b", "c", "d")
    found = agree({"x": (ids, np.array([1.0, 1, 0, 0])), "y": (ids, np.array([1.0, 0.5, 0, 0.2]))})
    assert found.counts.tolist() == [2, 0, 2]
    assert (found.lost_to(0), found.lost_to(2)) == (["c", "d"], ["a", "b"])
    assert found.expected == pytest.approx([1.0, 2.0, 1.0])
    with pytest.raises(InputError, match="not asked the same queries"):
        agree({"x": (ids, np.zeros(4)), "y": (ids[::-1], np.zeros(4))})


WORDS = ("dog", "cat", "tree")


@pytest.fixture
def attacked(world_parts: Any, make_world: Any, store_writer: Any, tmp_path: Path, monkeypatch: Any) -> Path:
    """A store whose `swap` items replace one of three words, and two checkpoints' results."""
    world = make_world(images=40)
    plans = type(world).plans

    def with_changes(self: Any) -> Any:
        def change(plan: Any) -> Any:
            if not plan.name.startswith("swap"):
                return plan
            records = [
                json.dumps({"word": WORDS[row % 3], "target": "x", "position": row % 3})
                for row in range(plan.rows)
            ]
            return replace(plan, change=records)

        return [(change(plan), vectors) for plan, vectors in plans(self)]

    monkeypatch.setattr(type(world), "plans", with_changes)
    store_writer(world, tmp_path / "s.h5")
    with open_store(tmp_path / "s.h5") as store:
        for name in ("one", "two"):
            folder = tmp_path / "results" / name
            folder.mkdir(parents=True)
            results = evaluate_store(store, outcomes=folder, checkpoint=name)
            write_results(results, folder / "results.json")
    return tmp_path


def test_the_command_counts_what_the_full_matrix_says(attacked: Path, make_world: Any, capsys: Any) -> None:
    out = attacked / "a.json"
    arguments = ["attribute", str(attacked / "results"), "--store", str(attacked / "s.h5"), "--at-least", "1"]
    assert run([*arguments, "--originals", "--out", str(out)]) == 0
    records = json.loads(out.read_text())
    world = make_world(images=40)
    part = world.variants[0]
    scores = (
        world.images.astype(np.float64) @ np.concatenate([world.captions, part.vectors]).astype(np.float64).T
    )
    best = scores.astype(np.float32).argmax(axis=1)
    wins = defaultdict(int)
    originals = len(world.captions)
    for image, row in enumerate(best.tolist()):
        if row >= originals and world.image_of_caption[row - originals] == image:
            wins[WORDS[(row - originals) % 3]] += 2  # two checkpoints, alike
    found = {one["label"]: one for one in records if one["dimension"] == "replaced word"}
    assert {word: one["won"] for word, one in found.items()} == {word: wins[word] for word in WORDS}
    assert sum(wins.values()) > 0
    assert sorted(one["trials"] for one in found.values()) == [52, 54, 54]
    ids = [one for one in records if one["dimension"] == "original" and one["variant"] == "swap:seed=7"]
    assert {one["label"]: one["won"] for one in ids} == {
        f"image {image}": 2.0 * (row >= originals) for image, row in enumerate(best.tolist())
    }
    variants = {(one["direction"], one["variant"]) for one in records}
    assert variants == {("i2t", "swap:seed=7"), ("t2i", "mix:0.9:seed=1"), ("t2i", "typo:seed=3")}
    assert run([*arguments, "--by", "replaced word", "--variant", "swap:seed=7"]) == 0
    assert "i2t swap:seed=7: replaced word" in capsys.readouterr().out


def test_fakes_of_images_win_by_their_own_queries_too(
    attacked: Path, make_world: Any, world_parts: Any, store_writer: Any, capsys: Any
) -> None:
    """In t2i as in i2t: a fake of another image is no trial won, an image without a fake no trial."""
    world = make_world(images=40)
    mixed = world.variants[1]
    kept = list(range(30))
    captions = [world.image_of_caption.index(image) for image in kept]
    vectors = mixed.vectors[kept]
    vectors[0] = world.captions[captions[0]]  # liked best by a query of its own image
    vectors[1] = world.captions[captions[2]]  # and by one of another image
    half = replace(mixed, source=kept, vectors=vectors, changed=[True] * len(kept))
    part = replace(world, variants=[half])
    store_writer(part, attacked / "half.h5")
    folder = attacked / "half"
    folder.mkdir()
    with open_store(attacked / "half.h5") as store:
        write_results(evaluate_store(store, outcomes=folder, checkpoint="one"), folder / "results.json")
    out = attacked / "half.json"
    arguments = ["attribute", str(folder), "--store", str(attacked / "half.h5"), "--out", str(out)]
    assert run([*arguments, "--by", "caption length", "--at-least", "1"]) == 0
    (everything,) = (one for one in json.loads(out.read_text()) if one["dimension"] == "(all)")
    gallery = np.concatenate([world.images, half.vectors]).astype(np.float64)
    best = (world.captions.astype(np.float64) @ gallery.T).astype(np.float32).argmax(axis=1)
    owner = np.array(world.image_of_caption)
    fake_of = np.concatenate([np.full(40, -1), kept])[best]
    asked = np.isin(owner, kept)
    assert everything["trials"] == asked.sum() == 60
    assert everything["won"] == (fake_of == owner).sum() > 0
    assert (fake_of[asked] >= 0).sum() > everything["won"]
    (attack,) = (
        one
        for one in json.loads((folder / "results.json").read_text())["runs"]
        if one["variant"] == "mix:0.9:seed=1"
    )
    own = attack["metrics"]["incorrect_recall@1/own"]
    assert 100 * everything["won"] / len(owner) == pytest.approx(own)


def test_every_variant_says_what_its_trials_are(attacked: Path, capsys: Any) -> None:
    arguments = ["attribute", str(attacked / "results"), "--store", str(attacked / "s.h5"), "--at-least", "1"]
    assert run([*arguments, "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    parts = {
        name: "".join(one for one in text.split("### ") if one.startswith(name))
        for name in ("i2t swap", "t2i mix", "t2i typo")
    }
    for name, won, lost in (
        ("i2t swap", OWN_FAKE_FIRST, LOST_TO_FAKE),
        ("t2i mix", OWN_FAKE_FIRST, LOST_TO_FAKE),
        ("t2i typo", HIT_LOST, LOST_HIT),
    ):
        assert parts[name].count(won) == 1, name
        assert parts[name].count(lost) == parts[name].count("if independent: ") == 1, name
        assert "queries are lost to none of 2 checkpoints" in parts[name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "replaced"], "unknown dimension 'replaced'; did you mean 'replaced word'"),
        (["--variant", "swap"], "unknown variant 'swap'; did you mean 'swap:seed=7'"),
    ],
)
def test_unknown_names_are_one_line(attacked: Path, capsys: Any, options: list[str], message: str) -> None:
    arguments = ["attribute", str(attacked / "results"), "--store", str(attacked / "s.h5"), *options]
    assert run(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_store_of_something_else_is_refused(
    attacked: Path, make_world: Any, store_writer: Any, monkeypatch: Any, capsys: Any
) -> None:
    bare = replace(make_world(), variants=())
    store_writer(bare, attacked / "bare.h5")
    arguments = ["attribute", str(attacked / "results"), "--store"]
    assert run([*arguments, str(attacked / "bare.h5")]) == 2
    assert "holds none of the variants of these results" in capsys.readouterr().err
    header = bare.header
    monkeypatch.setattr(type(bare), "header", replace(header, corpus_fingerprint="d" * 64))
    store_writer(bare, attacked / "other.h5")
    assert run([*arguments, str(attacked / "other.h5")]) == 2
    assert "of the corpus 'toy' (dddddddd), the results are of 'toy' (cccccccc)" in capsys.readouterr().err
