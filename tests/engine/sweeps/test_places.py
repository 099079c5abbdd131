"""A sweep replaces no file but those of sweeps: nothing behind a link, nothing of someone else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli.main import run

NAMES = ("results/late/none.t2i.json", "results/late/mix,0.9,seed=5.t2i.parquet", "stores/late.inputs.json")
KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "link to the corpus": (lambda file: file.symlink_to("../../corpus.json"), "is a link"),
    "link to nothing": (lambda file: file.symlink_to("gone"), "is a link"),
    "pipe": (os.mkfifo, "is a pipe"),
    "folder": (Path.mkdir, "is a folder"),
}
FOREIGN = b"my notes\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def swept(folder: Path, *options: str) -> int:
    return run(["sweep", str(folder / "run.yaml"), *options])


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The error of a sweep that changes nothing."""
    before = contents(folder)
    capsys.readouterr()
    assert swept(folder, *options) == 2
    assert contents(folder) == before
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["--force", "--dry-run"])
def test_what_is_no_file_of_a_sweep_is_refused(
    folder: Path,
    encoded: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
    option: str,
) -> None:
    make, said = KINDS[kind]
    assert swept(folder) == 0
    (folder / name).unlink()
    make(folder / name)
    for options in ((), (option,)):
        assert refused(folder, capsys, *options).startswith(f"error: {folder / name}: {said}")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_someone_else_is_replaced_by_force_only(
    folder: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert swept(folder) == 0
    (folder / name).write_bytes(FOREIGN)
    said = f"error: {folder / name}: not written by itrstress, which writes a file of that name; remove it"
    assert refused(folder, capsys).startswith(said)
    assert swept(folder, "--force") == 0
    assert not (folder / name).read_bytes().startswith(FOREIGN)


def test_edited_results_are_not_adopted(
    folder: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "results/late/none.t2i.json"
    assert swept(folder) == 0
    document = json.loads(file.read_text())
    document["runs"][0]["metrics"]["recall@1"] = 99.0
    file.write_text(json.dumps(document, indent=2))
    assert f"{file}: changed since it was written" in refused(folder, capsys)
    file.write_text(json.dumps({name: document[name] for name in document if name != "sha256"}, indent=2))
    assert swept(folder) == 0  # nothing shows that it was not edited: done again
    assert f"{file}: holds no sha256" in capsys.readouterr().err
    assert json.loads(file.read_text())["runs"][0]["metrics"]["recall@1"] != 99.0
