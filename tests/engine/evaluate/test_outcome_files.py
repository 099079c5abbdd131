"""A file of outcomes and its run belong together: another one, or a changed one, is named and not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.cli.main import run as command
from engine.errors import InputError
from engine.evaluate.outcome_files import file_sha256, outcomes_problem, read_outcomes
from engine.evaluate.results import Run, read_results, write_results
from engine.evaluate.run import evaluate_store


@pytest.fixture
def runs(world_parts: Any, make_world: Any, tmp_path: Path) -> dict[str, Run]:
    """The runs of a store by the names of their files, which lie in the temporary folder."""
    found = evaluate_store(world_parts[2](make_world()), outcomes=tmp_path)
    return {str(run.outcomes): run for run in found.runs}


BASE, SWAPPED, OTHER_WAY = "none.i2t.parquet", "swap,seed=7.i2t.parquet", "none.t2i.parquet"


def test_a_run_and_its_file_name_each_other(runs: dict[str, Run], tmp_path: Path) -> None:
    for name, run in runs.items():
        assert run.outcomes_sha256 == file_sha256(tmp_path / name)
        assert outcomes_problem(tmp_path / name, run) is None
        said = json.loads((pq.read_schema(tmp_path / name).metadata)[b"itrstress.run"])
        assert said == {"variant's name": run.variant, "number of distractors": 0, **run.key}
        assert read_outcomes(tmp_path / name, run).num_rows == run.queries


@pytest.mark.parametrize(
    ("other", "difference"),
    [(SWAPPED, "its variant's name is 'swap:seed=7', expected None"), (OTHER_WAY, "direction is 't2i'")],
)
def test_the_file_of_another_run_is_named(
    runs: dict[str, Run], tmp_path: Path, other: str, difference: str
) -> None:
    (tmp_path / BASE).write_bytes((tmp_path / other).read_bytes())
    with pytest.raises(InputError, match=rf"none.i2t.parquet: of another run \(.*{difference}"):
        read_outcomes(tmp_path / BASE, runs[BASE])


def test_another_file_under_the_digest_of_the_results_is_named_too(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    forged = runs[BASE].model_copy(update={"outcomes_sha256": runs[SWAPPED].outcomes_sha256})
    assert "of another run" in str(outcomes_problem(tmp_path / SWAPPED, forged))


def rewritten(file: Path) -> None:
    """Other values under the same metadata."""
    table = pq.read_table(file)
    place = table.schema.get_field_index("above")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array([0] * table.num_rows)), file)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (rewritten, "changed since the results were written"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "cut off or damaged"),
        (lambda file: file.write_bytes(b""), "cut off or damaged"),
        (lambda file: pq.write_table(pa.table({"query_id": ["a"]}), file), "of another run"),
        (lambda file: file.unlink(), "not there"),
    ],
)
def test_a_changed_file_is_named(runs: dict[str, Run], tmp_path: Path, damage: Any, message: str) -> None:
    damage(tmp_path / BASE)
    with pytest.raises(InputError, match=f"none.i2t.parquet: {message}.*; evaluate again"):
        read_outcomes(tmp_path / BASE, runs[BASE])


def test_results_that_do_not_say_which_file_is_theirs_are_not_read(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    unbound = runs[BASE].model_copy(update={"outcomes_sha256": None})
    with pytest.raises(InputError, match=r"none.i2t.parquet: the results do not say which file is theirs"):
        read_outcomes(tmp_path / BASE, unbound)


def test_a_table_with_other_columns_is_named(runs: dict[str, Run], tmp_path: Path) -> None:
    table = pq.read_table(tmp_path / BASE).drop_columns(["above"])
    pq.write_table(table, tmp_path / BASE)
    run = runs[BASE].model_copy(update={"outcomes_sha256": file_sha256(tmp_path / BASE)})
    with pytest.raises(InputError, match=r"none.i2t.parquet: .*columns that differ: above"):
        read_outcomes(tmp_path / BASE, run)


@pytest.mark.parametrize("reader", ["significance", "attribute"])
def test_commands_that_read_outcomes_refuse_those_of_another_checkpoint(
    make_world: Any, store_writer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        store_writer(make_world(seed=seed, encoder=f"fake:{name}"), tmp_path / f"{name}.h5")
        assert command(["evaluate", str(tmp_path / f"{name}.h5"), "--out", str(tmp_path / name)]) == 0
    results = read_results(tmp_path / "two")
    there = results.provenance.model_copy(update={"encoder_fingerprint": "f" * 64})
    write_results(results.model_copy(update={"provenance": there}), tmp_path / "two" / "results.json")
    for file in (tmp_path / "one").glob("*.parquet"):
        (tmp_path / "two" / file.name).write_bytes(file.read_bytes())
    capsys.readouterr()
    words = {"significance": [], "attribute": ["--store", str(tmp_path / "two.h5")]}[reader]
    assert command([reader, str(tmp_path / "one"), str(tmp_path / "two"), *words]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith(f"error: {tmp_path}/two/")
    assert "of another run" in line or "changed since" in line
