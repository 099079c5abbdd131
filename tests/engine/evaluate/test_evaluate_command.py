"""`itrstress evaluate`: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cli import main
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, MOST_RESAMPLES
from engine.evaluate.results import read_results
from engine.evaluate.stages import embedded
from engine.evaluate.ties import POLICIES
from indexes.registry import BACKENDS

Evaluate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str]) -> Evaluate:
    """Runs the command; gives exit code, output, errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main.run(["evaluate", *map(str, arguments)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_it_writes_results_and_outcomes_and_prints_a_row_a_variant(
    evaluate: Evaluate, store_file: Path, tmp_path: Path
) -> None:
    code, out, _ = evaluate(store_file, "--out", tmp_path / "out")
    assert code == 0
    results = read_results(tmp_path / "out")
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "results.json",
        *(run.outcomes for run in results.runs),
    }
    assert results.provenance.command == (
        "itrstress",
        "evaluate",
        str(store_file),
        "--out",
        str(tmp_path / "out"),
    )
    for run in results.runs:
        assert re.search(rf"^{re.escape(run.variant or '(none)')} .*{run.metrics['recall@1']:.1f}", out, re.M)
    assert "R@k: % of queries" in out
    assert "search base" in out


def test_without_out_nothing_is_written(evaluate: Evaluate, store_file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    code, out, _ = evaluate(store_file, "--direction", "i2t", "--variant", "swap:seed=7")
    assert code == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert "captions ask for images" not in out


def test_backends_and_ties_reach_the_results(evaluate: Evaluate, store_file: Path, tmp_path: Path) -> None:
    for backend in ("numpy", "faiss"):
        options = ("--backend", backend, "--ties", "pessimistic", "--out", tmp_path / backend)
        assert evaluate(store_file, *options)[0] == 0
    first, second = (read_results(tmp_path / backend) for backend in ("numpy", "faiss"))
    assert (first.provenance.backend, second.provenance.backend) == ("numpy", "faiss")
    assert {run.ties for run in first.runs} == {"pessimistic"}
    assert [run.metrics for run in first.runs] == [run.metrics for run in second.runs]
    for run in first.runs:
        tables = [(tmp_path / backend / str(run.outcomes)).read_bytes() for backend in ("numpy", "faiss")]
        assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--variant", "swap:seed=8"],
            "unknown variant 'swap:seed=8'; did you mean 'swap:seed=7'? known: mix:0.9",
        ),
        (["--variant", "original"], "unknown variant 'original'"),
        (["--direction", "t2i", "--variant", "swap:seed=7"], "'swap:seed=7' only changes direction i2t"),
        (["--direction", "i2tt"], "unknown direction 'i2tt'; did you mean 'i2t'"),
        (["--ties", "expect"], "unknown tie policy 'expect'; did you mean 'expected'"),
        (["--backend", "fais"], "unknown search backend 'fais'; did you mean 'faiss'"),
    ],
)
def test_a_wrong_option_is_named_with_the_nearest_valid_one(
    evaluate: Evaluate, store_file: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    code, out, err = evaluate(store_file, "--out", tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1 + err.count(" queries in ")
    assert list(tmp_path.iterdir()) == [store_file]


def test_a_folder_that_is_not_empty_is_an_error_without_force(
    evaluate: Evaluate, store_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    code, _, err = evaluate(store_file, "--out", tmp_path / "out")
    assert code == 2
    assert "the folder is not empty" in err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]
    assert evaluate(store_file, "--out", tmp_path / "out", "--force")[0] == 0
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"
    assert evaluate(store_file, "--out", tmp_path / "out" / "mine.txt", "--force")[0] == 2


def test_an_interrupt_leaves_nothing(
    evaluate: Evaluate, store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "search_variant", interrupted)
    code, _, err = evaluate(store_file, "--out", tmp_path / "out")
    assert code == 130
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == [store_file]


def test_a_store_without_variants_says_so(
    evaluate: Evaluate, make_world: Any, world_parts: Any, store_writer: Any, tmp_path: Path
) -> None:
    world = make_world()
    plain = world_parts[0](world.images, world.captions, world.image_of_caption)
    store = store_writer(plain, tmp_path / "plain.h5")
    assert evaluate(store)[0] == 0
    code, _, err = evaluate(store, "--variant", "mix:0.9")
    assert code == 2
    assert "holds no variant 'mix:0.9:seed=0', it holds none; add it with `itrstress embed --variant" in err


def test_a_variant_that_changes_nothing_is_an_error(
    evaluate: Evaluate, make_world: Any, world_parts: Any, store_writer: Any, tmp_path: Path
) -> None:
    world_type, part_type, _ = world_parts
    world = make_world()
    same = part_type("same", "images", range(12), world.images, [False] * 12)
    store = store_writer(
        world_type(world.images, world.captions, world.image_of_caption, [same]), tmp_path / "same.h5"
    )
    code, _, err = evaluate(store)
    assert code == 2
    assert "variant 'same' changes nothing" in err


def test_skipped_images_and_half_precision(
    evaluate: Evaluate, make_world: Any, world_parts: Any, store_writer: Any, tmp_path: Path
) -> None:
    world = make_world()
    fields = (world.images, world.captions, world.image_of_caption, world.variants, [0, 5])
    store = store_writer(world_parts[0](*fields, dtype="float16"), tmp_path / "half.h5")
    assert evaluate(store, "--out", tmp_path / "out")[0] == 0
    base = {run.direction: run for run in read_results(tmp_path / "out").runs if run.variant is None}
    assert (base["i2t"].queries, base["i2t"].gallery) == (10, {"original": 24})
    assert (base["t2i"].queries, base["t2i"].gallery) == (20, {"original": 10})
    assert base["t2i"].left_out == {
        "queries_skipped": 0,
        "queries_without_positive": 4,
        "gallery_skipped": 2,
    }


def test_a_base_without_a_hit_has_no_drop_rate(
    evaluate: Evaluate, world_parts: Any, store_writer: Any, tmp_path: Path
) -> None:
    world_type, part_type, _ = world_parts
    axes = np.eye(3, dtype=np.float32)
    world = world_type(axes[:2], axes[[1, 0]], [0, 1], [part_type("x", "captions", [0], axes[2:], [True])])
    store = store_writer(world, tmp_path / "none.h5")
    assert evaluate(store, "--direction", "i2t", "--out", tmp_path / "out")[0] == 0
    run = read_results(tmp_path / "out").runs[1]
    assert run.metrics["drop_rate"] is None
    assert run.undefined == {"drop_rate": "recall@1 without the variant is 0"}


def test_variants_come_in_the_order_asked_for_each_once(
    evaluate: Evaluate, store_file: Path, tmp_path: Path
) -> None:
    names = ["typo:seed=3", "mix:0.9:seed=1", "typo:seed=3"]
    options = [word for name in names for word in ("--variant", name)]
    assert evaluate(store_file, "--direction", "t2i", *options, "--out", tmp_path / "out")[0] == 0
    runs = read_results(tmp_path / "out").runs
    assert [one.variant for one in runs] == [None, "typo:seed=3", "mix:0.9:seed=1"]


def test_the_help_names_every_policy_and_backend(evaluate: Evaluate) -> None:
    code, out, _ = evaluate("--help")
    words = " ".join(out.split())
    assert code == 0
    assert ", ".join(POLICIES) in words
    assert ", ".join(BACKENDS) in words.replace("- ", "-")
    assert f"[default: {DEFAULT_RESAMPLES}; 0<=x<={MOST_RESAMPLES}]" in words


def test_more_resamples_than_can_matter_are_refused(tmp_path: Path, evaluate: Evaluate) -> None:
    code, _, error = evaluate(tmp_path / "s.h5", "--resamples", 10**12)
    assert code == 2
    assert f"{10**12}: expected a whole number from 0 to 100,000" in error
