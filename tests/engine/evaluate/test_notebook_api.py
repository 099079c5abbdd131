"""What notebooks call does what the commands do, and shows itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import api
from engine.cli.evaluate import command
from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.job import Job, SecondStage
from engine.evaluate.results import RESULTS_FILE, read_results


def test_importing_it_costs_nothing() -> None:
    code = "import sys, engine; engine.evaluate; print({'torch', 'pydantic', 'h5py'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_a_type_checker_of_a_user_knows_what_it_takes(tmp_path: Path) -> None:
    """Mypy called it a module that cannot be called."""
    file = tmp_path / "user.py"
    file.write_text(
        'import engine\nengine.evaluate("a.h5", resamples=0).table()\nengine.evaluate(1, tie="x")\n'
    )
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", str(file)]
    shown = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(api.__file__).parents[1]
    )
    lines = [line for line in shown.stdout.splitlines() if ": error: " in line]
    assert lines
    assert all(f"{file.name}:3: " in line for line in lines), shown.stdout


def test_evaluate_is_the_command(
    store_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = engine.evaluate(store_file, out=tmp_path / "api", resamples=50, ranked=True)
    assert capsys.readouterr().out == ""
    assert (
        run(["evaluate", str(store_file), "--out", str(tmp_path / "cli"), "--resamples", "50", "--ranked"])
        == 0
    )
    ours, theirs = (
        read_results(tmp_path / "api" / RESULTS_FILE),
        read_results(tmp_path / "cli" / RESULTS_FILE),
    )
    assert found.results == (ours,)
    for mine, other in zip(ours.runs, theirs.runs, strict=True):
        assert mine.model_dump(exclude={"timings", "outcomes_sha256"}) == other.model_dump(
            exclude={"timings", "outcomes_sha256"}
        )
    assert repr(engine.load(tmp_path / "api")) == repr(found)
    assert found.run("i2t", "swap:seed=7").metrics["drop_rate"] is not None
    assert found.table().num_rows == len(found.runs)


def test_results_record_every_option_whoever_asked(store_file: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "resamples": 5,
        "seed": 3,
        "ties": "optimistic",
        "variants": ["swap:seed=7"],
        "ranked": True,
    }
    (found,) = engine.evaluate(store_file, out=tmp_path / "api", **asked).results
    words = ["--resamples", "5", "--seed", "3", "--ties", "optimistic", "--variant", "swap:seed=7"]
    assert run(["evaluate", str(store_file), "--out", str(tmp_path / "cli"), *words, "--ranked"]) == 0
    (other,) = engine.load(tmp_path / "cli").results
    mine, theirs = ({**one.provenance.config, "out": None} for one in (found, other))
    assert mine == theirs
    assert {name: mine[name] for name in asked} == asked
    assert set(mine) >= {field.name for field in fields(Job)} - {"second"}
    assert found.provenance.seeds == {"run": 3, "swap:seed=7": 7}


def test_a_second_stage_records_the_options_that_held() -> None:
    assert Job(Path("s.h5"), index=Path("i")).options()["index"] == "i"
    second = SecondStage("fake:reranker", images=Path("photos"), batch_size=4)
    found = Job(Path("s.h5"), second=second).options()
    assert {name: found[name] for name in ("rerank", "images", "batch_size", "device", "precision")} == {
        **{"rerank": "fake:reranker", "images": "photos", "batch_size": 4},
        **{"device": "auto", "precision": "fp32"},
    }
    assert set(found) >= {field.name for field in fields(SecondStage)}


def test_it_takes_every_option_of_the_command() -> None:
    options = {one.name for one in command.params}
    own = {"store_file": "store", "index_folder": "index", "direction": "directions"}
    shown_only = {"intervals", "help"}
    wanted = {own.get(str(name), str(name)) for name in options - shown_only}
    assert set(inspect.signature(api.evaluate).parameters) == wanted | {"progress"}
    job = {field.name for field in fields(Job)} - {"second"} | {field.name for field in fields(SecondStage)}
    assert job == wanted


def test_notebooks_find_what_there_is_and_what_it_takes() -> None:
    assert {"evaluate", "sweep", "load", "Evaluation"} <= set(dir(engine))
    assert inspect.signature(engine.evaluate) == inspect.signature(api.evaluate)


def test_a_checkpoint_is_called_what_it_is_named(store_file: Path, tmp_path: Path) -> None:
    given = [
        "evaluate",
        str(store_file),
        "--out",
        str(tmp_path / "r"),
        "--resamples",
        "0",
        "--name",
        "epoch 9",
    ]
    assert run(given) == 0
    found = engine.evaluate(store_file, resamples=0, name="epoch 9")
    for one in (*engine.load(tmp_path / "r").results, *found.results):
        assert one.provenance.checkpoint == "epoch 9"
    for bad in ("", " ", "a\x1b[2J"):
        with pytest.raises(InputError, match="expected a name that can be printed"):
            engine.evaluate(store_file, name=bad)


def test_loaded_results_have_everything_that_sweeping_gave(store_file: Path, tmp_path: Path) -> None:
    for name, variant in (("a", "swap:seed=7"), ("b", "mix:0.9:seed=1")):
        engine.evaluate(store_file, variants=[variant], out=tmp_path / "r" / name, resamples=0)
    (loaded,) = engine.load(tmp_path / "r").results
    assert loaded.provenance.seeds.keys() >= {"swap:seed=7", "mix:0.9:seed=1"}
    assert {one.name for one in loaded.provenance.sets} >= {"swap:seed=7", "mix:0.9:seed=1"}
    assert loaded.timings["total"] > 0


def test_what_is_not_there_is_said(store_file: Path) -> None:
    found = engine.evaluate(store_file, resamples=0)
    with pytest.raises(InputError, match=r"0 runs of i2t with variant 'x'.*the variants None, swap:seed=7"):
        found.run("i2t", "x")
    for bad in ([], ["i2t", "i2t"], ["x"]):
        with pytest.raises(InputError, match="expected one or both of i2t, t2i"):
            engine.evaluate(store_file, directions=bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="belongs to --ranked"):
        engine.evaluate(store_file, relevance=store_file)
    with pytest.raises(AttributeError, match="no attribute 'evaluates'"):
        engine.evaluates  # noqa: B018


def test_it_shows_itself_as_text_and_as_escaped_html(
    make_world: Any, store_writer: Any, tmp_path: Path
) -> None:
    for name in ("one", "<script>two"):
        store = store_writer(make_world(encoder=name), tmp_path / f"{len(name)}.h5")
        engine.evaluate(store, out=tmp_path / "results" / str(len(name)), resamples=20)
    alone, both = engine.load(tmp_path / "results" / "3"), engine.load(tmp_path / "results")
    assert "images ask for captions" in repr(alone)
    assert "<script>two" in repr(both)
    shown = both._repr_html_()
    assert "&lt;script&gt;two" in shown
    assert "<script" not in shown
    assert shown.count("<table>") == shown.count("</table>") == 2
    assert "R@1" in shown
