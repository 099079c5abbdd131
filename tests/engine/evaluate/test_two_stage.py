"""Reranked runs against the full matrix, one query at a time; stopped and resumed; what is scored again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.evaluate.direction import DirectionSearch
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.ranking import Ranker
from engine.evaluate.stages import pair_scores
from engine.evaluate.stages.pair_scores import PairScores
from engine.evaluate.stages.reranking import Reranking
from engine.evaluate.ties import POLICIES, Standing, Top
from engine.stopwatch import Stopwatch
from engine.store.kept_states import KeptStates
from engine.store.pair_file import PairFile, content_key
from indexes.exact import exact_scores

POOL = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0], [0.8, 0, 0.6], [-0.6, 0, 0.8]], dtype=np.float32
)
NOBODY = float("-inf")


def logit(image: float, text: str) -> np.float32:
    """One of five values, so that scores tie."""
    digest = hashlib.sha256(f"{image} {text}".encode()).digest()
    return np.float32(digest[0] % 5 - 2)


class FakeReranker:
    """Remembers what it was asked; an image's state is its number, a text's its bytes.

    With `noise` a score also depends, in its last digits, on what the text's state was computed with, as in
    a real model.
    """

    spec, fingerprint, shortlist = "fake:reranker", "r" * 64, {"coco": 256}

    def __init__(self, join: str = "add", fail_after: int = 10**9, noise: float = 0.0) -> None:
        self.join, self.left, self.noise = join, fail_after, noise
        self.pairs: list[tuple[float, str]] = []
        self.states = 0
        self.texts: list[str] = []

    def prepare_image(self, image: float) -> float:
        return image

    def image_states(self, images: Sequence[float]) -> list[NDArray[np.float32]]:
        self.states += len(images)
        return [np.full((2, 3), image, dtype=np.float32) for image in images]

    def text_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        self.texts += texts
        beside = content_key(" ".join(texts)) % 97 * self.noise
        return [np.array([[byte, beside] for byte in text.encode()], dtype=np.float32) for text in texts]

    def score_pairs(
        self, state: NDArray[np.float32], words: Sequence[NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        assert state.shape == (2, 3)
        texts = [bytes(word[:, 0].astype(np.uint8)).decode() for word in words]
        self.pairs += [(float(state[0, 0]), text) for text in texts]
        scores = [logit(float(state[0, 0]), text) for text in texts]
        return np.array([score + word[0, 1] for score, word in zip(scores, words, strict=True)])


@dataclass
class NumberedImages:
    """Stands for `StoredImages`: an image is its row, 100 more for each further set."""

    store: Any

    def keys(self, name: str, rows: Sequence[int]) -> NDArray[np.uint64]:
        return np.array([content_key(str(self.draw(name, row))) for row in rows], dtype=np.uint64)

    def draw(self, name: str, row: int) -> float:
        return float(row) + (0.0 if name == "original" else 100.0)


@contextmanager
def reranked(
    world: Any, folder: Path, reranker: Any, k_test: int, memory_store: Any, limit: int = 1 << 20
) -> Iterator[Reranking]:
    store = memory_store(world)
    with (
        PairFile(folder / "scores.pairs", reranker.fingerprint) as file,
        KeptStates(limit, folder) as states,
    ):
        yield Reranking(PairScores(reranker, NumberedImages(store), file, states, 2, 2), k_test)


def search(world: Any, memory_store: Any, direction: Any, rerank: Reranking, policy: str) -> DirectionSearch:
    return DirectionSearch(memory_store(world), direction, policy, "numpy", rerank=rerank)


# ---------------------------------------------------------------- the oracle: full rows, plain loops


@dataclass
class Row:
    """A gallery item as an oracle sees it."""

    cosine: float
    logit: float
    image: int
    fake: bool
    number: int
    text: str


def gallery_rows(world: Any, direction: str, part: Any, query: tuple[Any, int, float, str]) -> list[Row]:
    vector, _, image_number, text = query
    owner = list(world.image_of_caption)

    def row(vectors: Any, i: int, image: int, fake: bool) -> Row:
        cosine = float(exact_scores(vector[None], vectors[i][None])[0])
        if direction == "i2t":
            words = f"content {i}" if fake else f"text {i}"
            return Row(cosine, float(logit(image_number, words)), image, fake, i, words)
        pixels = float(i) + (100.0 if fake else 0.0)
        return Row(cosine, float(logit(pixels, text)), image, fake, i, "")

    if direction == "i2t":
        rows = [row(world.captions, i, owner[i], False) for i in range(len(owner))]
    else:
        usable = [i for i in range(len(world.images)) if i not in world.skipped_images]
        rows = [row(world.images, i, i, False) for i in usable]
    if part is not None:
        origin = owner if part.modality == "captions" else list(range(len(world.images)))
        rows += [row(part.vectors, i, origin[s], True) for i, s in enumerate(part.source)]
    return rows


def final_scores(rows: list[Row], k_test: int, join: str) -> list[float]:
    """``-inf`` outside of the first `k_test` by cosine, originals first among equals, then by row."""
    order = sorted(range(len(rows)), key=lambda i: (-rows[i].cosine, rows[i].fake, rows[i].number))
    scores = [NOBODY] * len(rows)
    for i in order[:k_test]:
        base = np.float32(rows[i].cosine) if join == "add" else np.float32(0)
        scores[i] = float(np.float32(rows[i].logit) + base)
    return scores


def expected_outcome(rows: list[Row], scores: list[float], image: int, policy: Any) -> dict[str, Any]:
    positives = [s for r, s in zip(rows, scores, strict=True) if r.image == image and not r.fake]
    best, first = max(positives), max(scores)
    top = [r for r, s in zip(rows, scores, strict=True) if s == first]
    fakes = [(s, r) for r, s in zip(rows, scores, strict=True) if r.fake and s > NOBODY]
    own = [(s, r) for s, r in fakes if r.image == image]
    genuine = [(s, r) for r, s in zip(rows, scores, strict=True) if not r.fake]
    standing = Standing(
        *(
            np.array([count])
            for count in (sum(s > best for s in scores), scores.count(best), positives.count(best))
        )
    )
    leaders = Top(
        *(
            np.array([count])
            for count in (
                sum(not r.fake for r in top),
                sum(r.fake for r in top),
                sum(r.fake and r.image == image for r in top),
            )
        )
    )
    return {
        "above": int(standing.above[0]),
        "tied": int(standing.tied[0]),
        "tied_positives": int(standing.tied_positives[0]),
        "rank": float(policy.ranks(standing)[0]),
        "top_genuine": int(leaders.genuine[0]),
        "top_adversarial": int(leaders.adversarial[0]),
        "top_own_fakes": int(leaders.own[0]),
        "fooled": float(policy.fooled(leaders)[0]),
        "positive_score": best,
        "top_score": first,
        "top_origin": "original" if any(not r.fake for r in top) else "adversarial",
        "fake_score": max((s for s, _ in fakes), default=None),
        "own_fake_score": max((s for s, _ in own), default=None),
        "positive_id": first_id([(s, r) for s, r in genuine if r.image == image]),
        "top_id": first_id(genuine if any(not r.fake for r in top) else fakes),
        "fake_id": first_id(fakes),
        "own_fake_id": first_id(own),
    }


def first_id(scored: list[tuple[float, Row]]) -> str | None:
    """The id of the lowest row of those with the highest score."""
    if not scored:
        return None
    row = min(scored, key=lambda one: (-one[0], one[1].number))[1]
    sets = ("words", "caption") if row.text else ("mix", "image")
    return f"{sets[0] if row.fake else sets[1]} {row.number}"


def check_table(
    table: Any, world: Any, direction: str, part: Any, k_test: int, join: str, policy: str
) -> None:
    owner = list(world.image_of_caption)
    usable = [i for i in range(len(world.images)) if i not in world.skipped_images]
    if direction == "i2t":
        queries = [(world.images[i], i, float(i), "") for i in usable if i in owner]
    else:
        queries = [(world.captions[i], o, 0.0, f"text {i}") for i, o in enumerate(owner) if o in usable]
    found = table.to_pylist()
    assert len(found) == len(queries)
    for row, query in zip(found, queries, strict=True):
        for variant, names in ((None, ("base_above", "base_tied", "base_tied_positives")), (part, None)):
            rows = gallery_rows(world, direction, variant, query)
            wanted = expected_outcome(rows, final_scores(rows, k_test, join), query[1], POLICIES[policy])
            if names:
                assert [row[name] for name in names] == [wanted[name.removeprefix("base_")] for name in names]
            else:
                assert {name: row[name] for name in wanted} == pytest.approx(wanted)


# ---------------------------------------------------------------- worlds with many ties


@st.composite
def worlds(draw: st.DrawFn, world_parts: Any) -> Any:
    world_type, variant_type, _ = world_parts
    count = draw(st.integers(2, 5))
    owner = draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=9))
    picks = st.integers(0, len(POOL) - 1)

    def vectors(n: int) -> Any:
        return POOL[draw(st.lists(picks, min_size=n, max_size=n))]

    def variant(name: str, modality: str, originals: int) -> Any:
        source = draw(st.lists(st.integers(0, originals - 1), min_size=1, max_size=6))
        return variant_type(name, modality, source, vectors(len(source)), [True] * len(source))

    skipped = [i for i in range(count) if i not in owner][:1]
    variants = [variant("words", "captions", len(owner)), variant("mix", "images", count)]
    return world_type(vectors(count), vectors(len(owner)), owner, variants, skipped)


@pytest.mark.parametrize("join", ["add", "replace"])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_reranked_run_is_the_full_matrix_with_nothing_outside_of_the_shortlist(
    world_parts: Any, tmp_path_factory: pytest.TempPathFactory, direction: str, join: str, data: st.DataObject
) -> None:
    world = data.draw(worlds(world_parts))
    k_test = data.draw(st.sampled_from([1, 2, 3, 5, 100]))
    policy = data.draw(st.sampled_from(sorted(POLICIES)))
    folder = tmp_path_factory.mktemp("pairs")
    with reranked(
        world, folder, FakeReranker(join), k_test, world_parts[2], data.draw(st.sampled_from([0, 50, 999]))
    ) as on:
        searched = search(world, world_parts[2], direction, on, policy)
        part = world.variants[0 if direction == "i2t" else 1]
        for chosen in (None, part):
            run, table = searched.run(None if chosen is None else chosen.name, Stopwatch())
            check_table(table, world, direction, chosen, k_test, join, policy)
            assert run.stage is not None
            assert (run.stage.kind, run.stage.k_test, run.stage.join) == ("two-stage", k_test, join)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_perturbed_queries_are_reranked_by_their_own_text(
    world_parts: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    world = data.draw(worlds(world_parts))
    owner = list(world.image_of_caption)
    picks = st.lists(st.integers(0, len(POOL) - 1), min_size=len(owner), max_size=len(owner))
    numbers = list(range(len(owner)))
    typos = world_parts[1](
        "typos", "captions", numbers, POOL[data.draw(picks)], [True] * len(owner), side="query"
    )
    world = replace(world, variants=[typos])
    k_test = data.draw(st.sampled_from([1, 2, 100]))
    folder = tmp_path_factory.mktemp("typos")
    with reranked(world, folder, FakeReranker("replace"), k_test, world_parts[2]) as on:
        table = search(world, world_parts[2], "t2i", on, "expected").run("typos", Stopwatch())[1]
    asked = [number for number in numbers if owner[number] not in world.skipped_images]
    for row, number in zip(table.to_pylist(), asked, strict=True):
        for text, vectors, prefix in (
            (f"content {number}", typos.vectors, ""),
            (f"text {number}", world.captions, "base_"),
        ):
            rows = gallery_rows(world, "t2i", None, (vectors[number], owner[number], 0.0, text))
            scores = final_scores(rows, k_test, "replace")
            wanted = expected_outcome(rows, scores, owner[number], POLICIES["expected"])
            for name in ("above", "tied", "tied_positives", "rank"):
                assert row[prefix + name] == pytest.approx(wanted[name])


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_lists_are_the_rows_in_order_of_their_final_scores(
    world_parts: Any, tmp_path_factory: pytest.TempPathFactory, direction: str, data: st.DataObject
) -> None:
    world, k_test = data.draw(worlds(world_parts)), data.draw(st.sampled_from([1, 2, 3, 100]))
    owner = list(world.image_of_caption)
    usable = [i for i in range(len(world.images)) if i not in world.skipped_images]
    if direction == "i2t":
        queries = [(world.images[i], i, float(i), "") for i in usable if i in owner]
    else:
        queries = [(world.captions[i], o, 0.0, f"text {i}") for i, o in enumerate(owner) if o in usable]
    part = world.variants[0 if direction == "i2t" else 1]
    folder = tmp_path_factory.mktemp("lists")
    with reranked(world, folder, FakeReranker(), k_test, world_parts[2]) as on:
        searched = search(world, world_parts[2], direction, on, "expected")
        found = np.concatenate([listed.rows for listed in Ranker.of(searched, part.name).lists(4)])
        metrics = RankedMetrics().columns(searched, part.name)
    for number, query in enumerate(queries):
        rows = gallery_rows(world, direction, part, query)
        scores = np.array(final_scores(rows, k_test, "add"))
        order = np.argsort(-scores, kind="stable")
        assert found[number].tolist() == order[:4].tolist()
        gains = [
            1.0 if rows[i].image == query[1] and not rows[i].fake else rows[i].cosine for i in order[:10]
        ]
        expected = sum(gain / np.log2(place + 2) for place, gain in enumerate(gains))
        assert metrics["dcg"][number] == pytest.approx(expected)


def plain_world(world_parts: Any, seed: int = 0) -> Any:
    world_type, variant_type, _ = world_parts
    rng = np.random.default_rng(seed)

    def vectors(n: int) -> NDArray[np.float32]:
        rows = rng.normal(size=(n, 4))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    owner = [i // 2 for i in range(14)]
    variants = [
        variant_type("words", "captions", list(range(14)), vectors(14), [True] * 14),
        variant_type("mix", "images", list(range(7)), vectors(7), [True] * 7),
        variant_type("typos", "captions", list(range(14)), vectors(14), [True] * 14, side="query"),
    ]
    return world_type(vectors(7), vectors(14), owner, variants)


def all_runs(world: Any, store: Any, on: Reranking) -> list[Any]:
    tables = []
    for direction, variants in (("i2t", (None, "words")), ("t2i", (None, "mix", "typos"))):
        searched = search(world, store, direction, on, "expected")
        tables += [searched.run(variant, Stopwatch())[1] for variant in variants]
    return tables


def test_no_pair_is_scored_twice_and_no_state_computed_twice(world_parts: Any, tmp_path: Path) -> None:
    world, reranker = plain_world(world_parts), FakeReranker()
    with reranked(world, tmp_path, reranker, 4, world_parts[2]) as on:
        first = all_runs(world, world_parts[2], on)
        assert len(set(reranker.pairs)) == len(reranker.pairs) == on.scores.scored
        assert reranker.states <= 7 + 7
        assert len(reranker.texts) == 3 * 14  # of the originals and of two variants
        assert on.scores.reused == 0
    again = FakeReranker()
    with reranked(world, tmp_path, again, 4, world_parts[2]) as on:
        assert all_runs(world, world_parts[2], on) == first
        assert (again.pairs, again.states, again.texts, on.scores.scored) == ([], 0, [], 0)
        assert on.scores.reused == len(reranker.pairs)


@pytest.mark.parametrize(
    ("direction", "variant"), [("i2t", None), ("i2t", "words"), ("t2i", "mix"), ("t2i", "typos")]
)
def test_lists_of_a_run_search_and_score_nothing_again(
    world_parts: Any, tmp_path: Path, direction: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reranked(plain_world(world_parts), tmp_path, FakeReranker(), 4, world_parts[2]) as on:
        searched = search(plain_world(world_parts), world_parts[2], direction, on, "expected")
        searched.run(None, Stopwatch())
        searched.run(variant, Stopwatch())
        monkeypatch.setattr(on.scores, "score", None)
        monkeypatch.setattr(searched.stage, "_list", None)
        assert sum(len(one.rows) for one in Ranker.of(searched, variant).lists(5)) == len(searched.queries)


def test_with_a_variant_only_pairs_with_its_items_are_new(world_parts: Any, tmp_path: Path) -> None:
    world, reranker = plain_world(world_parts), FakeReranker()
    with reranked(world, tmp_path, reranker, 5, world_parts[2]) as on:
        searched = search(world, world_parts[2], "i2t", on, "expected")
        searched.run(None, Stopwatch())
        before = len(reranker.pairs)
        searched.run("words", Stopwatch())
        new = reranker.pairs[before:]
        assert new
        assert all(text.startswith("content") for _, text in new)


def test_equal_texts_of_two_sets_are_each_computed_with_their_neighbours(
    world_parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the state of a text does not depend on which of them was asked for first."""
    monkeypatch.setattr(pair_scores, "BATCHES_A_BLOCK", 2)
    contents = {"one": ["a", "b", "c", "d", "e"], "two": ["e", "a"]}
    parts: Any = [PartOfTexts(name, len(texts)) for name, texts in contents.items()]
    everything = [text for texts in contents.values() for text in texts]
    for asked in ([6, 0, 4], [0, 4, 6], [4], [5, 6]):
        reranker = FakeReranker()
        with reranked(plain_world(world_parts), tmp_path, reranker, 4, world_parts[2]) as on:
            states = on.scores._text_states(parts, everything, np.array(asked))
        assert [bytes(state[:, 0].astype(np.uint8)).decode() for state in states] == [
            everything[number] for number in asked
        ]
        blocks = [("a", "b", "c", "d"), ("e",), ("e", "a")]  # 2 batches of 2 in each set
        wanted = {block for number in asked for block in [blocks[(number > 3) + (number > 4)]]}
        assert sorted(reranker.texts) == sorted(text for block in wanted for text in block)


@dataclass
class PartOfTexts:
    """Stands for the items of a set."""

    name: str
    count: int

    def __len__(self) -> int:
        return self.count


@pytest.mark.parametrize("calls", range(0, 30, 3))
def test_a_run_that_was_stopped_anywhere_ends_with_the_same_bytes(
    world_parts: Any, tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, noise = plain_world(world_parts), 1e-5
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    monkeypatch.setattr(pair_scores, "BATCHES_A_BLOCK", 2)
    with reranked(world, tmp_path / "whole", FakeReranker(noise=noise), 4, world_parts[2]) as on:
        whole = all_runs(world, world_parts[2], on)
    file = tmp_path / "cut" / "scores.pairs"
    stopping = FakeReranker(fail_after=calls, noise=noise)
    with (
        contextlib.suppress(KeyboardInterrupt),
        reranked(world, tmp_path / "cut", stopping, 4, world_parts[2]) as on,
    ):
        all_runs(world, world_parts[2], on)
    assert stopping.left < 0
    file.write_bytes(file.read_bytes()[: max(0, file.stat().st_size - 7)])  # a write that was cut off
    with reranked(world, tmp_path / "cut", FakeReranker(noise=noise), 4, world_parts[2], limit=0) as on:
        assert all_runs(world, world_parts[2], on) == whole
    assert file.read_bytes() == (tmp_path / "whole" / "scores.pairs").read_bytes()
