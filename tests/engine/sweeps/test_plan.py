"""The plan of a sweep: it does nothing, says what then happens, and invents no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.report.sweep_plan import size_text
from engine.sweeps.plan import CheckpointPlan, Cost, Search, estimate, plan_sweep
from engine.sweeps.run_file.load import load_run_file
from engine.sweeps.stamp import Measured
from engine.sweeps.sweep import Sweep, run_sweep

PROBES = 1  # an image and a text a new store


def everything(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def planned(folder: Path) -> tuple[CheckpointPlan, ...]:
    return plan_sweep(Sweep(load_run_file(folder / "run.yaml")))


def states(plan: CheckpointPlan) -> dict[str, int]:
    return dict(Counter(one.state for one in plan.runs))


def test_a_dry_run_does_nothing_and_knows_no_time(
    folder: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(folder)
    assert run(["sweep", str(folder / "run.yaml"), "--dry-run"]) == 0
    assert everything(folder) == before
    assert {file.name for file in folder.iterdir()} == {"pictures", "corpus.json", "run.yaml"}
    assert encoded == {"images": 0, "texts": 0}
    shown = capsys.readouterr().out
    assert f"{folder / 'stores/early.h5'} (new): to embed: 8 images, 40 distinct texts; 48 rows" in shown
    assert "to search: (none), rococo:corpus\n" in shown
    assert "in all: 2 stores to embed, 8 runs to search" in shown
    assert shown.count("unknown, nothing like it was measured here yet") == 2
    assert shown.endswith("nothing was done, this was a dry run\n")


def test_what_is_planned_is_what_then_happens(folder: Path, run_text: str, encoded: dict[str, int]) -> None:
    (folder / "run.yaml").write_text(
        run_text.replace('"mix:0.9"', '"mix:0.9", {name: "mix:0.8", seeds: [1, 2]}')
    )
    plans = planned(folder)
    run_sweep(load_run_file(folder / "run.yaml"))
    assert encoded == {
        "images": sum(one.store.images + PROBES for one in plans),
        "texts": sum(one.store.texts + PROBES for one in plans),
    }
    assert [states(one) for one in plans] == [{"search": 6}] * 2
    assert [states(one) for one in planned(folder)] == [{"finished": 6}] * 2
    assert all(one.store.is_complete and not one.store.checked for one in planned(folder))


def swapped(folder: Path) -> None:
    for extension in ("json", "parquet"):
        other = folder / f"results/late/none.t2i.{extension}"
        (folder / f"results/early/none.t2i.{extension}").write_bytes(other.read_bytes())


def rewrite(folder: Path, old: str, new: str) -> None:
    file = folder / "run.yaml"
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (lambda folder: None, {"finished": 4}),
        (lambda folder: (folder / "results/early/none.t2i.json").unlink(), {"finished": 3, "search": 1}),
        (lambda folder: (folder / "results/early/none.t2i.parquet").unlink(), {"finished": 3, "search": 1}),
        (lambda folder: rewrite(folder, "seed: 5", "seed: 5\nresamples: 30"), {"intervals": 4}),
        (lambda folder: rewrite(folder, "seed: 5", "seed: 5\nranked: true"), {"search": 4}),
        (lambda folder: rewrite(folder, '"mix:0.9"', '"mix:0.7"'), {"finished": 3, "search": 1}),
        (lambda folder: rewrite(folder, "seed: 5", "seed: 5\ndistractors: [0, 5]"), {"refused": 8}),
        (lambda folder: (folder / "stores/early.h5").unlink(), {"later": 4}),
        (swapped, {"finished": 3, "refused": 1}),
    ],
)
def test_every_run_has_its_state(
    folder: Path, encoded: dict[str, int], happens: Callable[[Path], Any], expected: dict[str, int]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    happens(folder)
    before = everything(folder)
    assert states(planned(folder)[0]) == expected
    assert everything(folder) == before


@pytest.mark.parametrize(
    ("file", "old", "new", "difference"),
    [
        ("corpus.json", "red square, view 0", "red cube, view 0", "is of the corpus corpus ("),
        ("corpus.json", "red circle , view 1", "red cube , view 1", "captions/rococo:corpus is there with"),
        ("run.yaml", "space: one\n", "", "is of the space 'one', none is declared now"),
        ("run.yaml", "space: one\n", "space: two\n", "is of the space 'one', not 'two'"),
    ],
)
def test_a_store_that_the_sweep_refuses_is_refused_by_the_plan(
    folder: Path,
    run_text: str,
    encoded: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    file: str,
    old: str,
    new: str,
    difference: str,
) -> None:
    (folder / "run.yaml").write_text(run_text + "space: one\n")
    run_sweep(load_run_file(folder / "run.yaml"))
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    plan = planned(folder)[0]
    assert states(plan) == {"refused": 4}
    assert plan.store.problem.startswith(difference)
    assert (plan.store.rows, plan.store.images, plan.store.texts) == (0, 0, 0)
    capsys.readouterr()
    assert run(["sweep", str(folder / "run.yaml"), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    size = size_text((folder / "stores/early.h5").stat().st_size)
    assert f"early.h5 ({size} there): refused: {difference}" in shown
    assert "in all: 0 stores to embed, 0 runs to search, 2 stores refused" in shown
    assert run(["sweep", str(folder / "run.yaml")]) == 2
    assert difference in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("red square, view 0", "red cube, view 0"),  # the corpus: the whole store is replaced
        ("red circle , view 1", "red cube , view 1"),  # a variant: its set is
    ],
)
def test_what_force_replaces_is_planned(folder: Path, encoded: dict[str, int], old: str, new: str) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    text = (folder / "corpus.json").read_text()
    (folder / "corpus.json").write_text(text.replace(old, new))
    encoded.update(images=0, texts=0)
    run_file = load_run_file(folder / "run.yaml")
    plans = plan_sweep(Sweep(run_file, force=True))
    assert {one.store.problem for one in plans} == {""}
    run_sweep(run_file, force=True)
    assert encoded["texts"] == sum(one.store.texts for one in plans)
    assert encoded["images"] == sum(one.store.images for one in plans)


def test_times_come_from_measurements_of_this_sweep(
    folder: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    (folder / "stores/late.h5").unlink()
    (folder / "results/late/mix,0.9,seed=5.t2i.json").unlink()
    late = planned(folder)[1]
    assert late.store.measured == "late"
    assert late.store.seconds is not None
    assert late.store.seconds > 0
    (folder / "stores/late.inputs.json").unlink()
    assert planned(folder)[1].store.measured == "early"
    (found,) = [one for one in late.runs if one.state == "search"]
    assert found.seconds is not None
    capsys.readouterr()
    assert run(["sweep", str(folder / "run.yaml"), "--dry-run"]) == 0
    assert "measured with early" in capsys.readouterr().out
    rewrite(folder, "batch_size: 3", "batch_size: 3\nprecision: bf16")
    assert planned(folder)[1].store.measured == ""


def test_a_measured_rate_is_scaled() -> None:
    assert Measured(images=10, image_seconds=5.0, texts=100, text_seconds=1.0).seconds(20, 50) == 10.5


def test_a_search_is_scaled_from_those_of_its_kind() -> None:
    done = [
        Search(Cost("i2t", "", "", False, 1000), 8, 2.0),
        Search(Cost("i2t", "", "", False, 3000), 8, 6.0),
        Search(Cost("i2t", "gallery", "", False, 1000), 8, 50.0),
        Search(Cost("t2i", "", "", False, 1000), 8, 70.0),
    ]
    assert estimate(Cost("i2t", "", "", False, 500), done, 8) == 1.0
    assert estimate(Cost("i2t", "", "", False, 500), done, 16) == 2.0
    assert estimate(Cost("i2t", "", "", False, 500), done, None) == 1.0
    assert estimate(Cost("i2t", "query", "", False, 500), done, 8) is None
    assert estimate(Cost("i2t", "", "", True, 500), done, 8) is None
    assert estimate(Cost("i2t", "", "two-stage", False, 500), done, 8) is None
