"""Results files: what is written is read back, and what is wrong with a file is said in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from engine.evaluate.names import safe_name
from engine.evaluate.results import Results, merge_results, read_results, write_results
from engine.evaluate.run import evaluate_store


@pytest.fixture
def results(world_parts: Any, make_world: Any) -> Results:
    return evaluate_store(world_parts[2](make_world()), command=["itrstress", "evaluate"])


def test_what_is_written_is_read_back(results: Results, tmp_path: Path) -> None:
    write_results(results, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == results
    assert read_results(tmp_path) == results
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_metrics_are_written_by_their_published_keys(results: Results, tmp_path: Path) -> None:
    write_results(results, tmp_path / "results.json")
    run = json.loads((tmp_path / "results.json").read_text())["runs"][1]
    assert set(run["metrics"]) == {
        *(f"recall@{k}" for k in (1, 5, 10)),
        "median_rank",
        "mean_rank",
        "rsum",
        "drop_rate",
        "incorrect_recall@1",
        "incorrect_recall@1/own",
        "incorrect_recall@1/other",
        "incorrect_without_query",
        "tied_queries",
        "changed_rate",
    }
    assert "changed_rate" not in run
    assert run["ties"] == "expected"
    assert set(run["timings"]) >= {"load", "search variant", "metrics", "untracked", "total"}


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not JSON, or cut off"),
        (lambda text: "[]", "results of schema version None, expected 2"),
        (damaged(lambda d: d.update(schema_version=1)), "results of schema version 1, expected 2"),
        (damaged(lambda d: d.update(schema_version=True)), "results of schema version True, expected 2"),
        (
            damaged(lambda d: d["runs"][0].update(queries="12")),
            r"runs.0.queries is text \('12'\); expected a whole number",
        ),
        (damaged(lambda d: d["runs"][0].update(more=1)), "runs.0.more is no known field"),
        (damaged(lambda d: d["provenance"].pop("dim")), "provenance.dim is missing"),
        (damaged(lambda d: d["runs"][1].update(base={"R@1": 1.0})), "runs.1.base is .*recall@1 in it"),
        (damaged(lambda d: d["runs"][0]["metrics"].pop("mean_rank")), "runs.0.metrics is .*mean_rank in it"),
        (damaged(lambda d: d["runs"][0]["metrics"].update({"rsum": None})), "runs.0.metrics is .*for rsum"),
        (damaged(lambda d: d["runs"][0].update(metrics={})), "runs.0.metrics is .*a number for recall@1"),
        (damaged(lambda d: d["runs"][0].update(gallery={})), "runs.0.gallery is .*a number for original"),
        (damaged(lambda d: d["runs"][0].update(tied={})), "runs.0.tied is .*a number for tied_queries"),
        (damaged(lambda d: d["runs"][0].update(queries=-5)), "runs.0.queries is .*-5.*; expected at least 0"),
        (damaged(lambda d: d["runs"][0]["gallery"].update(original=-1)), "gallery.original is .*at least 0"),
        (damaged(lambda d: d.update(runs=[])), "runs is .*; expected at least 1 in the list"),
        (
            lambda text: text.replace('"recall@1": ', '"recall@1": NaN, "x": ', 1),
            "recall@1.* is a number .nan.; expected a finite number",
        ),
        (lambda text: "[" * 100_000, "not JSON, or cut off"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(
    results: Results, tmp_path: Path, damage: Callable[[str], str], message: str
) -> None:
    file = tmp_path / "results.json"
    write_results(results, file)
    file.write_text(damage(file.read_text()))
    with pytest.raises(InputError, match=message) as caught:
        read_results(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"results.json: no such file; expected a results file"):
        read_results(tmp_path)


def test_equal_stores_give_equal_results_but_for_times(world_parts: Any, make_world: Any) -> None:
    def timeless() -> Any:
        document = evaluate_store(world_parts[2](make_world())).model_dump()
        document["provenance"].pop("created")
        document.pop("timings")
        for run in document["runs"]:
            run.pop("timings")
        return document

    assert timeless() == timeless()


def test_merging_the_runs_of_a_checkpoint_gives_the_whole(results: Results) -> None:
    parts = [results.model_copy(update={"runs": (run,), "timings": run.timings}) for run in results.runs]
    merged = merge_results(parts)
    assert (merged.runs, merged.provenance) == (results.runs, results.provenance)
    assert merged.timings == pytest.approx(results.timings)


def test_file_names_are_safe_and_different_for_different_names() -> None:
    names = [
        "mix:0.9:seed=1",
        "mix,0.9,seed=1",
        "mix-0.9-seed=1",
        "../up",
        "up",
        "none",
        "con",
        "",
        "a/b",
        "a\\b",
    ]
    names += ["x" * 300, "x" * 301, "Ünïcode", "ünïcode", ".hidden", "hidden", "a b", "a-b"]
    files = [safe_name(name) for name in names]
    assert len({file.casefold() for file in files}) == len(names)
    assert files[0] == "mix,0.9,seed=1"
    for file in files:
        assert 0 < len(file) <= 100
        assert Path(file).name == file
        assert not file.startswith(".")
        assert file.isascii()


def edited(change: Callable[[dict[str, Any]], object], file: Path) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["runs"][0]["metrics"].update({"recall@1": 99.0}),
        lambda d: d["runs"][1]["base"].update(rsum=299.0),
        lambda d: d["provenance"].update(checkpoint="mine"),
        lambda d: d.update(runs=d["runs"][:1]),
        lambda d: d.update(sha256=None),
    ],
)
def test_a_file_that_was_edited_is_named(
    results: Results, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    file = tmp_path / "results.json"
    write_results(results, file)
    edited(change, file)
    with pytest.raises(InputError, match=r"results.json: changed since it was written .*evaluate again, or"):
        read_results(file)


@pytest.mark.parametrize("change", [lambda d: None, lambda d: d.pop("sha256")])
def test_another_layout_and_a_file_without_a_digest_are_read(
    results: Results, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    file = tmp_path / "results.json"
    write_results(results, file)
    edited(change, file)
    assert read_results(file) == results
