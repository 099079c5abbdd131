"""Exports: other tools find the same numbers, and every table says what the runs say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from engine.cli.main import run
from engine.evaluate.results import read_results, write_results
from engine.evaluate.run import evaluate_store
from engine.evaluate.trec import trec_id

ir_measures = pytest.importorskip("ir_measures")


@pytest.fixture
def exported(world_parts: Any, make_world: Any, store_writer: Any, tmp_path: Path) -> Path:
    """A store without tied rows, its results, and its rankings."""
    world = make_world(images=40)
    world_type, part_type, _ = world_parts
    generator = np.random.default_rng(9)
    moved = world.captions + 0.1 * generator.normal(size=world.captions.shape)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    count = len(world.captions)
    fakes = part_type("swap", "captions", list(range(count)), moved.astype(np.float32), [True] * count)
    untied = world_type(world.images, world.captions, world.image_of_caption, [fakes, *world.variants[1:]])
    store_writer(untied, tmp_path / "s.h5")
    assert run(["evaluate", str(tmp_path / "s.h5"), "--out", str(tmp_path / "results"), "--ranked"]) == 0
    variants = ["--variant", "swap", "--variant", "mix:0.9:seed=1", "--variant", "typo:seed=3"]
    arguments = ["export", "trec", str(tmp_path / "s.h5"), "--out", str(tmp_path / "trec"), "--depth", "all"]
    assert run([*arguments, *variants]) == 0
    return tmp_path


FILES = {
    (None, "i2t"): "none.i2t",
    ("swap", "i2t"): "swap.i2t",
    (None, "t2i"): "none.t2i",
    ("mix:0.9:seed=1", "t2i"): "mix,0.9,seed=1.t2i",
    ("typo:seed=3", "t2i"): "typo,seed=3.t2i",
}


def test_ir_measures_finds_our_numbers(exported: Path) -> None:
    names = {f"Success@{k}": f"recall@{k}" for k in (1, 5, 10)}
    for one in read_results(exported / "results").runs:
        name = FILES[one.variant, one.direction]
        qrels = ir_measures.read_trec_qrels(str(exported / "trec" / f"{name}.qrels"))
        ranking = ir_measures.read_trec_run(str(exported / "trec" / f"{name}.run"))
        measures = [ir_measures.parse_measure(measure) for measure in (*names, "P@1", "R@10")]
        found = {
            str(m): v for m, v in ir_measures.calc_aggregate(measures, list(qrels), list(ranking)).items()
        }
        for theirs, ours in names.items():
            assert 100 * found[theirs] == pytest.approx(one.metrics[ours]), (name, theirs)
        assert 100 * found["P@1"] == pytest.approx(one.metrics["set_recall@1"])
        assert 100 * found["R@10"] == pytest.approx(one.metrics["set_recall@10"])  # two positives at most


def test_a_full_ranking_lists_every_row_once_in_order(exported: Path) -> None:
    assert {file.stem for file in (exported / "trec").iterdir()} == set(FILES.values())
    lines = [line.split() for line in (exported / "trec" / "swap.i2t.run").read_text().splitlines()]
    assert len(lines) == 40 * 160
    for query in range(40):
        part = [line for line in lines if line[0] == f"image:image%20{query}"]
        assert [int(line[3]) for line in part] == list(range(1, 161))
        assert len({line[2] for line in part}) == 160
        scores = [float(line[4]) for line in part]
        assert scores == sorted(scores, reverse=True)
        assert {line[2].split(":")[0] for line in part} == {"caption", "adversarial"}


def test_ties_keep_the_listed_order_by_rank(store_file: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = ["export", "trec", str(store_file), "--variant", "swap:seed=7", "--direction", "i2t"]
    for name, options in (("score", []), ("rank", ["--by-rank"])):
        out = tmp_path / name
        assert run([*arguments, "--out", str(out), "--depth", "7", *options]) == 0
    by_score, by_rank = (
        [line.split() for line in (tmp_path / name / "swap,seed=7.i2t.run").read_text().splitlines()]
        for name in ("score", "rank")
    )
    assert [line[:4] for line in by_score] == [line[:4] for line in by_rank]
    assert [int(line[4]) for line in by_rank] == [-int(line[3]) for line in by_rank]
    assert len({(line[0], line[4]) for line in by_score}) < len(by_score)  # this store has ties
    for options, message in (
        (["--depth", "0"], "--depth '0': expected a whole number from 1 to 999,999,999,999,999,999, or all"),
        (["--depth", "9" * 5000], "9...: expected a whole number from 1 to"),
        (["--direction", "i2i"], "unknown direction 'i2i'"),
        (["--variant", "swap"], "unknown variant 'swap'"),
        ([], "the folder is not empty"),
    ):
        assert run(["export", "trec", str(store_file), "--out", str(tmp_path / "rank"), *options]) == 2
        assert message in capsys.readouterr().err


def test_ids_are_one_word_and_differ() -> None:
    ids = ["a b", "a%20b", "a\tb", "a\nb", "é", "a:b", ""]
    found = [trec_id("caption", one) for one in ids]
    assert len(set(found)) == len(ids)
    assert all(len(one.split()) == 1 and one.isascii() for one in found)


def test_all_runs_are_one_flat_table(exported: Path, capsys: Any) -> None:
    for ending in ("parquet", "csv", "json"):
        out = exported / f"runs.{ending}"
        assert run(["export", "runs", str(exported / "results"), "--out", str(out)]) == 0
    rows = pq.read_table(exported / "runs.parquet").to_pylist()
    assert rows == json.loads((exported / "runs.json").read_text())
    runs = read_results(exported / "results").runs
    assert len(rows) == len(runs) == 5
    for row, one in zip(rows, runs, strict=True):
        assert (row["variant"], row["direction"], row["queries"]) == (one.variant, one.direction, one.queries)
        for name, value in one.metrics.items():
            assert row[name] == value
        assert (row["recall@1_low"], row["recall@1_high"]) == one.intervals["recall@1"]
        assert row["base_recall@1"] == (None if one.base is None else one.base["recall@1"])
    assert [row["seed"] for row in rows] == [None, None, None, 1, 3]
    assert run(["export", "runs", str(exported / "results"), "--out", str(exported / "runs.xlsx")]) == 2
    assert "ends in '.xlsx', expected one of .parquet, .csv, .json" in capsys.readouterr().err


def test_clip_benchmark_reads_clean_retrieval(
    world_parts: Any, make_world: Any, exported: Path, tmp_path: Path, capsys: Any
) -> None:
    world = make_world(images=40, encoder="open_clip:ViT-B-32:laion2b")
    write_results(
        evaluate_store(world_parts[2](world), checkpoint="my/b32"), tmp_path / "other" / "results.json"
    )
    for name in ("results", "other"):
        assert (
            run(["export", "clip-benchmark", str(exported / name), "--out", str(tmp_path / f"cb-{name}")])
            == 0
        )
    (file,) = (tmp_path / "cb-other").iterdir()
    found = json.loads(file.read_text())
    assert {key: found[key] for key in ("dataset", "model", "pretrained", "task", "language")} == {
        "dataset": "toy",
        "model": "ViT-B-32",
        "pretrained": "laion2b",
        "task": "zeroshot_retrieval",
        "language": "en",
    }
    (file,) = (tmp_path / "cb-results").iterdir()
    found = json.loads(file.read_text())
    results = read_results(exported / "results")
    for direction, theirs in (("i2t", "text_retrieval"), ("t2i", "image_retrieval")):
        one = results.find(None, direction)  # type: ignore[arg-type]
        assert one is not None
        for k in (1, 5, 10):
            assert 100 * found["metrics"][f"{theirs}_recall@{k}"] == pytest.approx(one.metrics[f"recall@{k}"])
    assert (found["model"], found["pretrained"]) == ("fake:encoder", "fake:encoder")
    attacked = results.model_copy(update={"runs": results.runs[1:2]})
    write_results(attacked, tmp_path / "attacked" / "results.json")
    assert run(["export", "clip-benchmark", str(tmp_path / "attacked"), "--out", str(tmp_path / "x")]) == 2
    assert "there is no run without variant" in capsys.readouterr().err


def test_ir_measures_finds_our_numbers_in_a_fixed_index(
    make_world: Any, store_writer: Any, tmp_path: Path, capsys: Any
) -> None:
    """The galleries and fakes are the index's, the queries the store's."""
    store = store_writer(make_world(images=40, seed=1), tmp_path / "new.h5")
    old = store_writer(make_world(images=40, seed=0), tmp_path / "old.h5")
    index = tmp_path / "old.index"
    assert run(["index", "build", str(old), "--out", str(index)]) == 0
    against = ["--index", str(index), "--variant", "swap:seed=7", "--variant", "typo:seed=3"]
    first = ["--ties", "optimistic"]  # as listed: an original stands before a fake that is its copy
    assert run(["evaluate", str(store), "--out", str(tmp_path / "results"), *against, *first]) == 0
    out = tmp_path / "trec"
    arguments = ["export", "trec", str(store), "--out", str(out), "--depth", "all", "--by-rank", *against]
    assert run(arguments) == 0
    runs = {(one.variant, one.direction): one for one in read_results(tmp_path / "results").runs}
    names = {"swap,seed=7.i2t": ("swap:seed=7", "i2t"), "typo,seed=3.t2i": ("typo:seed=3", "t2i")}
    for name, key in names.items():
        qrels = ir_measures.read_trec_qrels(str(out / f"{name}.qrels"))
        ranking = list(ir_measures.read_trec_run(str(out / f"{name}.run")))
        measures = [ir_measures.parse_measure(f"Success@{k}") for k in (1, 5, 10)]
        found = ir_measures.calc_aggregate(measures, list(qrels), ranking)
        for k, measure in zip((1, 5, 10), measures, strict=True):
            assert 100 * found[measure] == pytest.approx(runs[key].metrics[f"recall@{k}"])
            assert 0 < found[measure] < 1
    line = (out / "swap,seed=7.i2t.run").read_text().splitlines()[0].split()
    assert line[5] == "itrstress%20@%20old.index"
    without = ["export", "trec", str(store), "--out", str(tmp_path / "own"), "--variant", "swap:seed=7"]
    assert run([*without, "--depth", "all", "--by-rank"]) == 0
    assert (tmp_path / "own" / "none.i2t.run").read_text() != (out / "none.i2t.run").read_text()
    capsys.readouterr()
    assert run([*without, "--allow-space-mismatch"]) == 2
    assert "--allow-space-mismatch belongs to --index" in capsys.readouterr().err


def test_a_run_in_an_index_of_another_space_says_so(
    make_world: Any, store_writer: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    store = store_writer(make_world(), tmp_path / "new.h5")
    world = make_world()
    monkeypatch.setattr(type(world), "header", replace(world.header, encoder_fingerprint="f" * 64))
    old = store_writer(world, tmp_path / "old.h5")
    index = tmp_path / "old.index"
    assert run(["index", "build", str(old), "--out", str(index)]) == 0
    arguments = ["export", "trec", str(store), "--out", str(tmp_path / "trec"), "--index", str(index)]
    assert run(arguments) == 2
    assert "the index is of the space" in capsys.readouterr().err
    assert not (tmp_path / "trec").exists()
    assert run([*arguments, "--allow-space-mismatch"]) == 0
    line = (tmp_path / "trec" / "none.t2i.run").read_text().splitlines()[0].split()
    assert line[5:] == ["itrstress%20@%20old.index%20(another%20space)"]
