"""`itrstress compare` and `itrstress significance` as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from engine.cli.main import run
from engine.evaluate.results import write_results
from engine.evaluate.run import evaluate_store


@pytest.fixture
def folder(world_parts: Any, make_world: Any, tmp_path: Path) -> Path:
    """Two checkpoints: the second one's captions are nearer to their images."""
    world_type, _, store_type = world_parts
    world = make_world(images=30)
    owner = world.images[world.image_of_caption]
    closer = world.captions + owner
    closer /= np.linalg.norm(closer, axis=1, keepdims=True)
    better = world_type(world.images, closer, world.image_of_caption, world.variants)
    for name, one in (("first", world), ("second", better)):
        out = tmp_path / "results" / name
        out.mkdir(parents=True)
        write_results(evaluate_store(store_type(one), outcomes=out, checkpoint=name), out / "results.json")
    return tmp_path / "results"


def test_the_leaderboard_is_printed_and_written(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert run(["compare", str(folder), "--sort", "recall@1", "--intervals"]) == 0
    printed = capsys.readouterr().out
    clean = printed[printed.index("t2i: 60 queries") :]
    assert clean.index("second") < clean.index("first")
    assert "…" not in printed
    assert "i2t: 30 queries, 60 originals" in printed
    for ending in ("md", "csv", "tex", "parquet", "txt"):
        out = tmp_path / f"board.{ending}"
        assert run(["compare", str(folder), "--out", str(out)]) == 0
        assert out.stat().st_size > 0
    table = pq.read_table(tmp_path / "board.parquet").to_pylist()
    assert {(one["checkpoint"], one["variant"]) for one in table} >= {("first", None), ("second", "mix:0.9")}
    capsys.readouterr()
    assert run(["compare", str(folder), "--out", str(out)]) == 2
    assert "board.txt: there already" in capsys.readouterr().err
    assert run(["compare", str(folder), "--out", str(out), "--force"]) == 0


def test_published_figures_stand_beside(folder: Path, capsys: Any) -> None:
    assert run(["compare", str(folder), "--against", "rococo", "--as", "first=ALBEF", "--format", "csv"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("table,dataset,direction,model,checkpoint,setting,variant,metric,own,published")
    assert any(row.startswith("RoCOCO Table 2,,t2i,ALBEF,first,mix_0.9,mix:0.9,recall@1,") for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sort", "drop"], "unknown metric 'drop'; did you mean 'drop_rate'"),
        (["--against", "rococo"], "none of the checkpoints first, second is known as a model of rococo"),
        (["--against", "rococo", "--as", "first"], "--as 'first': expected CHECKPOINT=MODEL"),
        (["--as", "first=ALBEF"], "--as and --dataset belong to --against"),
        (["--against", "rococo", "--sort", "rsum"], "--sort and --intervals belong to the leaderboard"),
        (["--format", "parquet"], "name a file with --out FILE.parquet"),
    ],
)
def test_wrong_options_are_one_line(folder: Path, capsys: Any, options: list[str], message: str) -> None:
    assert run(["compare", str(folder), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_differences_are_tested_and_corrected(folder: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "d.parquet"
    arguments = ["significance", str(folder), "--flips", "200", "--resamples", "100", "--out", str(out)]
    assert run(arguments) == 0
    rows = pq.read_table(out).to_pylist()
    assert {(one["direction"], one["variant"], one["metric"]) for one in rows} == {
        ("i2t", None, "recall@1"),
        ("i2t", "swap:seed=7", "recall@1"),
        ("i2t", "swap:seed=7", "drop_rate"),
        ("i2t", "swap:seed=7", "incorrect_recall@1"),
        ("t2i", None, "recall@1"),
        ("t2i", "mix:0.9:seed=1", "recall@1"),
        ("t2i", "mix:0.9:seed=1", "drop_rate"),
        ("t2i", "mix:0.9:seed=1", "incorrect_recall@1"),
        ("t2i", "typo:seed=3", "recall@1"),
        ("t2i", "typo:seed=3", "drop_rate"),
    }
    for one in rows:
        assert one["difference"] == pytest.approx(one["second_value"] - one["first_value"])
        assert one["p_value"] <= one["p_value_holm"] <= 1
    assert run(["significance", str(folder), "--reference", "second", "--metric", "median_rank"]) == 0
    assert "t2i typo:seed=3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reference", "secnd"], "unknown checkpoint 'secnd'; did you mean 'second'"),
        (["--metric", "recall"], "unknown metric 'recall'; did you mean"),
        (["--metric", "recall@1", "--metric", "recal@5"], "unknown metric 'recal@5'; did you mean"),
        (["--format", "xml"], "unknown format 'xml'"),
    ],
)
def test_differences_name_what_is_wrong(folder: Path, capsys: Any, options: list[str], message: str) -> None:
    assert run(["significance", str(folder), *options]) == 2
    assert message in capsys.readouterr().err


def test_one_checkpoint_has_no_difference(folder: Path, capsys: Any) -> None:
    assert run(["significance", str(folder / "first")]) == 2
    assert "no two checkpoints share a variant and direction; there are: first" in capsys.readouterr().err
