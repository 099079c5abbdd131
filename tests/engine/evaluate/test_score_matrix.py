"""Runs of a store of scores against the full matrix, one query at a time, in blocks of any size."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate import ranking
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.distractors import DistractorChoice
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.ranking import Ranker
from engine.evaluate.run import evaluate_store
from engine.evaluate.stages import matrix
from engine.evaluate.ties import POLICIES, Standing, Top
from engine.report.table import results_table
from engine.stopwatch import Stopwatch
from engine.store import scratch
from engine.store.reader import StoredRows, check_embeddings, open_store
from engine.store.schema import SetPlan, StoreHeader, VariantRecord
from engine.store.writer import open_writer

Scores = NDArray[np.float32]
STEPS = np.linspace(-1, 1, 7, dtype=np.float32)  # few values, so that scores tie


@dataclass(frozen=True)
class Pairs:
    """Scores [captions, images] of originals and of two caption variants, [items, captions] of images."""

    owner: list[int]
    original: Scores
    words: Scores
    words_source: list[int]
    typos: Scores
    mix: Scores
    mix_source: list[int]
    occluded: Scores
    occluded_source: list[int]


@st.composite
def pairs(draw: st.DrawFn) -> Pairs:
    images = draw(st.integers(1, 5))
    owner = draw(st.lists(st.integers(0, images - 1), min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    words = draw(st.lists(st.integers(0, len(owner) - 1), min_size=1, max_size=6))
    mix = draw(st.lists(st.integers(0, images - 1), min_size=1, max_size=6))
    asking = st.sampled_from(sorted(set(owner)))
    occluded = draw(st.sets(asking, min_size=1).map(sorted))  # of some images there may be none
    return Pairs(
        owner,
        rng.choice(STEPS, (len(owner), images)),
        rng.choice(STEPS, (len(words), images)),
        words,
        rng.choice(STEPS, (len(owner), images)),
        rng.choice(STEPS, (len(mix), len(owner))),
        mix,
        rng.choice(STEPS, (len(occluded), len(owner))),
        occluded,
    )


def write(world: Pairs, path: Path) -> Path:
    captions, images = world.original.shape
    header = StoreHeader("fake:pairs", "a" * 64, images, "toy", "c" * 64, "raw", rows="scores")

    def variant(name: str, side: Any, modality: Any, source: list[int], width: int | None = None) -> SetPlan:
        rows = len(source)
        return SetPlan(
            modality,
            name,
            [f"{name} {i}" for i in range(rows)],
            np.array(source, dtype=np.int64),
            [f"content {i}" for i in range(rows)],
            variant=VariantRecord(name, side, modality, 1.0),
            change=["{}"] * rows,
            changed=np.ones(rows, dtype=np.bool_),
            width=width,
        )

    numbers = [np.arange(images), np.arange(captions)]
    plans = [
        SetPlan(
            "images", "original", [f"image {i}" for i in numbers[0]], numbers[0], ["x"] * images, width=0
        ),
        SetPlan(
            "captions",
            "original",
            [f"caption {i}" for i in numbers[1]],
            numbers[1],
            ["t"] * captions,
            image=np.array(world.owner),
        ),
        variant("words", "gallery", "captions", world.words_source),
        variant("typos", "query", "captions", list(range(captions))),
        variant("mix", "gallery", "images", world.mix_source, captions),
        variant("occlude", "query", "images", world.occluded_source, captions),
    ]
    nothing = np.empty((images, 0), np.float32)
    tables = [nothing, world.original, world.words, world.typos, world.mix, world.occluded]
    with open_writer(path, header, plans) as writer:
        for plan, table in zip(plans, tables, strict=True):
            writer.write(plan.modality, plan.name, np.arange(plan.rows), table)
    return path


def oracle(
    scores: list[float], images: list[int], fakes: list[bool], names: list[str], image: int, policy: Any
) -> dict[str, Any]:
    rows = list(zip(scores, images, fakes, strict=True))
    positives = [s for s, i, fake in rows if i == image and not fake]
    best, first = max(positives), max(scores)
    top = [(i, fake) for s, i, fake in rows if s == first]
    own = [s for s, i, fake in rows if fake and i == image]
    counts = sum(s > best for s in scores), scores.count(best), positives.count(best)
    standing = Standing(*(np.array([count]) for count in counts))
    genuine = sum(not fake for _, fake in top)
    leaders = genuine, len(top) - genuine, sum(fake and i == image for i, fake in top)
    return {
        "above": counts[0],
        "tied": counts[1],
        "tied_positives": counts[2],
        "rank": policy.ranks(standing)[0],
        "fooled": policy.fooled(Top(*(np.array([count]) for count in leaders)))[0],
        "top_genuine": leaders[0],
        "top_adversarial": leaders[1],
        "top_own_fakes": leaders[2],
        "positive_score": best,
        "top_score": first,
        "fake_score": max((s for s, _, fake in rows if fake), default=None),
        "own_fake_score": max(own, default=None),
        "positive_id": first_name(rows, names, lambda i, fake: i == image and not fake),
        "top_id": first_name(rows, names, lambda i, fake: fake == all(one for _, one in top)),
        "fake_id": first_name(rows, names, lambda i, fake: fake),
        "own_fake_id": first_name(rows, names, lambda i, fake: fake and i == image),
    }


def first_name(
    rows: list[tuple[float, int, bool]], names: list[str], wanted: Callable[[int, bool], bool]
) -> str | None:
    """The lowest of the rows with the highest score, of those that are wanted."""
    found = [(-s, place) for place, (s, i, fake) in enumerate(rows) if wanted(i, fake)]
    return names[min(found)[1]] if found else None


def expected_rows(world: Pairs, direction: str, variant: str | None, policy: Any) -> list[dict[str, Any]]:
    captions, images = world.original.shape
    found = []
    if direction == "i2t":
        extra, source = (world.words, world.words_source) if variant == "words" else (world.words[:0], [])
        owners = [*world.owner, *(world.owner[s] for s in source)]
        fakes = [False] * captions + [True] * len(source)
        names = [f"caption {i}" for i in range(captions)] + [f"words {i}" for i in range(len(source))]
        for image, asked in asking_images(world, variant):
            scores = [*asked.tolist(), *extra[:, image].tolist()]
            found.append(oracle(scores, owners, fakes, names, image, policy))
        return found
    asked = world.typos if variant == "typos" else world.original
    extra, source = (world.mix, world.mix_source) if variant == "mix" else (world.mix[:0], [])
    for caption in range(captions):
        scores = [*asked[caption].tolist(), *extra[:, caption].tolist()]
        fakes = [False] * images + [True] * len(source)
        names = [f"image {i}" for i in range(images)] + [f"mix {i}" for i in range(len(source))]
        found.append(oracle(scores, [*range(images), *source], fakes, names, world.owner[caption], policy))
    return found


def asking_images(world: Pairs, variant: str | None) -> list[tuple[int, Scores]]:
    """The images that ask, or their occluded forms, each with its scores with the original captions."""
    if variant == "occlude":
        return list(zip(world.occluded_source, world.occluded, strict=True))
    return [(image, world.original[:, image]) for image in sorted(set(world.owner))]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=30, deadline=None)
@given(world=pairs(), block=st.sampled_from([1, 3, 7, 1 << 20]))
def test_blocks_give_what_the_full_matrix_gives(
    tmp_path_factory: pytest.TempPathFactory, policy: str, world: Pairs, block: int
) -> None:
    path = write(world, tmp_path_factory.mktemp("scores") / "s.h5")
    with pytest.MonkeyPatch.context() as patch, open_store(path) as store:
        patch.setattr(matrix, "BLOCK_SCORES", block)
        for direction, variants in (("i2t", (None, "words", "occlude")), ("t2i", (None, "mix", "typos"))):
            search = DirectionSearch(store, direction, policy)  # type: ignore[arg-type]
            for variant in variants:
                result, table = search.run(variant, Stopwatch())
                wanted = expected_rows(world, direction, variant, POLICIES[policy])
                rows = table.to_pylist()
                assert len(rows) == len(wanted)
                for row, one in zip(rows, wanted, strict=True):
                    assert {name: row[name] for name in one} == pytest.approx(one)
                assert result.stage is not None
                assert result.stage.kind == "pairs"


def plain(seed: int = 0) -> Pairs:
    rng = np.random.default_rng(seed)
    owner = [i // 2 for i in range(8)]
    tables = [rng.random(shape, dtype=np.float32) for shape in ((8, 4), (8, 4), (8, 4), (4, 8), (4, 8))]
    numbers, images = list(range(8)), list(range(4))
    return Pairs(owner, tables[0], tables[1], numbers, tables[2], tables[3], images, tables[4], images)


@settings(max_examples=30, deadline=None)
@given(world=pairs(), block=st.sampled_from([1, 3, 1 << 20]))
def test_lists_are_the_rows_in_order_of_their_scores(
    tmp_path_factory: pytest.TempPathFactory, world: Pairs, block: int
) -> None:
    path = write(world, tmp_path_factory.mktemp("scores") / "s.h5")
    with pytest.MonkeyPatch.context() as patch, open_store(path) as store:
        patch.setattr(matrix, "BLOCK_SCORES", block)
        patch.setattr(ranking, "MOST_CELLS", block)
        for direction, variants in (("i2t", (None, "words", "occlude")), ("t2i", (None, "mix", "typos"))):
            for variant in variants:
                ranker = Ranker.of(DirectionSearch(store, direction), variant)  # type: ignore[arg-type]
                full = full_rows(world, direction, variant)
                found = np.concatenate([listed.rows for listed in ranker.lists(4)])
                np.testing.assert_array_equal(found, np.argsort(-full, axis=1, kind="stable")[:, :4])


def test_lists_of_images_read_the_matrix_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def counted(rows: StoredRows, start: int, stop: int) -> Any:
        nonlocal read
        read += stop - start
        return as_it_was(rows, start, stop)

    as_it_was = StoredRows.read
    monkeypatch.setattr(ranking, "MOST_CELLS", 1)  # a block of lists is a query
    with open_store(write(plain(), tmp_path / "s.h5")) as store:
        search = DirectionSearch(store, "i2t")
        monkeypatch.setattr(StoredRows, "read", counted)
        for variant, new in ((None, 8), (None, 0), ("words", 8), ("occlude", 4)):
            before = read
            assert len(list(Ranker.of(search, variant).lists(4))) == 4
            assert read - before == new


def test_a_turned_matrix_without_room_says_where_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ranking, "MOST_CELLS", 1)
    monkeypatch.setattr(scratch, "write_rows", full)
    with open_store(write(plain(), tmp_path / "s.h5")) as store:
        ranker = Ranker.of(DirectionSearch(store, "i2t"), None)
        with pytest.raises(InputError, match=r"\(scores\).*set TMPDIR to a folder with room"):
            list(ranker.lists(4))


def full_rows(world: Pairs, direction: str, variant: str | None) -> Scores:
    """The scores of every query with its whole gallery."""
    if direction == "i2t":
        asked = asking_images(world, variant)
        extra = world.words if variant == "words" else world.words[:0]
        return np.stack([np.concatenate([scores, extra[:, image]]) for image, scores in asked])
    asking = world.typos if variant == "typos" else world.original
    return np.concatenate([asking, (world.mix if variant == "mix" else world.mix[:0]).T], axis=1)


def test_set_recall_is_that_of_the_full_matrix_and_dcg_needs_cosines(tmp_path: Path) -> None:
    world = plain()
    with open_store(write(world, tmp_path / "s.h5")) as store:
        results = evaluate_store(store, ranked=RankedMetrics())
    for one in results.runs:
        order = np.argsort(-full_rows(world, one.direction, one.variant), axis=1)
        owner = np.array(world.owner)
        related = owner[None] == np.arange(4)[:, None]
        related = related if one.direction == "i2t" else related.T
        related = np.pad(related, ((0, 0), (0, order.shape[1] - related.shape[1])))
        for k in (1, 5):
            within = np.take_along_axis(related, order, axis=1)[:, :k].sum(axis=1)
            expected = 100 * np.mean(within / np.minimum(related.sum(axis=1), k))
            assert one.metrics[f"set_recall@{k}"] == pytest.approx(expected)
        assert "dcg@10" not in one.metrics


def test_the_first_rows_listed_are_named(tmp_path: Path) -> None:
    world = plain()
    with open_store(write(world, tmp_path / "s.h5")) as store:
        rows = DirectionSearch(store, "i2t").run("words", Stopwatch())[1].to_pylist()
    for image, row in enumerate(rows):
        both = np.concatenate([world.original[:, image], world.words[:, image]])
        names = [f"caption {i}" for i in range(8)] + [f"words {i}" for i in range(8)]
        assert row["top_id"] == names[int(both.argmax())]
        assert row["fake_id"] == f"words {int(world.words[:, image].argmax())}"
        mine = [2 * image, 2 * image + 1]
        assert row["positive_id"] == f"caption {max(mine, key=lambda i: world.original[i, image])}"
        assert row["own_fake_id"] == f"words {max(mine, key=lambda i: world.words[i, image])}"


def test_what_needs_vectors_says_that_there_are_none(tmp_path: Path) -> None:
    with open_store(write(plain(), tmp_path / "s.h5")) as store:
        with pytest.raises(InputError, match="holds scores of pairs by fake:pairs, no embeddings"):
            check_embeddings(store)
        with pytest.raises(InputError, match="no embeddings"):
            _ = DirectionSearch(store, "i2t").base_backend
        with pytest.raises(InputError, match="no embeddings"):
            evaluate_store(store, distractors=DistractorChoice((0, 10)))
        results = evaluate_store(store)
    assert {one.stage.kind for one in results.runs if one.stage} == {"pairs"}
    console = Console(width=120)
    with console.capture() as shown:
        console.print(results_table(results))
    assert "Scores of pairs by fake:pairs." in shown.get()


@pytest.mark.parametrize(
    "options",
    [
        ["distractors", "synthesize", "s.h5", "--rows", "9", "--like", "captions/original"],
        ["distractors", "add", "s.h5", "--from", "other.npy", "--modality", "captions"],
        ["evaluate", "s.h5", "--rerank", "blip:none.pth", "--images", "."],
    ],
)
def test_commands_that_need_vectors_are_refused_in_one_line(
    tmp_path: Path,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(plain(), tmp_path / "s.h5")
    np.save(tmp_path / "other.npy", np.eye(4, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    assert run(options) == 2
    assert "s.h5 holds scores of pairs by fake:pairs, no embeddings" in capsys.readouterr().err


def test_a_score_that_is_no_number_is_never_kept(tmp_path: Path) -> None:
    world = plain()
    original = world.original.copy()
    original[3, 2] = np.nan
    with pytest.raises(InputError, match="captions/original row 3: the score in column 2 is nan"):
        write(replace(world, original=original), tmp_path / "s.h5")
