"""What is written is there whole or not at all, whatever ends the writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.outputs import atomic


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text("old")

    def no_space(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"results.json: cannot be written \(No space left on device\)"):
        atomic.write_atomically(file, no_space)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("results.json", "old")]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InputError])
def test_an_output_folder_that_fails_is_not_there(tmp_path: Path, failure: type[BaseException]) -> None:
    def fill() -> None:
        with atomic.output_folder(tmp_path / "out", "results.json", force=False) as folder:
            (folder / "one.parquet").write_text("half")
            raise failure

    with pytest.raises(failure):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_force_replaces_results_and_leaves_other_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("results.json", "mine.txt", "a.parquet"):
        (out / name).write_text("old")
    with atomic.output_folder(out, "results.json", force=True) as folder:
        for name in ("results.json", "a.parquet"):
            (folder / name).write_text("new")
    texts = {file.name: file.read_text() for file in out.iterdir()}
    assert texts == {"results.json": "new", "mine.txt": "old", "a.parquet": "new"}
    assert list(tmp_path.iterdir()) == [out]


def killed_while(folder: Path, statement: str) -> None:
    """Run a statement in another process that kills itself in it."""
    lines = ("import os", "from pathlib import Path", "from engine.outputs.atomic import *", statement)
    code = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, check=False).returncode
    assert code == -signal.SIGKILL


def test_what_a_killed_process_left_is_gone_after_the_next_write(tmp_path: Path) -> None:
    killed_while(
        tmp_path,
        "write_atomically(Path('a.txt'), lambda to: (to.write_text('half'), os.kill(os.getpid(), 9)))",
    )
    killed_while(
        tmp_path,
        "with output_folder(Path('out'), 'last', force=False) as to:\n"
        "    (to / 'stale').write_text('half')\n    os.kill(os.getpid(), 9)",
    )
    assert {file.name[0] for file in tmp_path.rglob("*") if file.is_file()} == {".", "s"}
    assert [file.name for file in (tmp_path / "out").glob("[!.]*")] == []
    atomic.write_atomically(tmp_path / "a.txt", lambda to: to.write_text("whole"))
    with atomic.output_folder(tmp_path / "out", "last", force=False) as folder:
        (folder / "last").write_text("whole")
    names = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")}
    assert names == {"a.txt", "out", "out/last"}


def test_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append("fsync"), fsync(file)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append("replace"), replace(self, to))[1])
    atomic.write_atomically(tmp_path / "a.txt", lambda to: to.write_text("whole"))
    assert steps == ["fsync", "replace", "fsync"]


def test_one_process_writes_a_target_at_a_time(tmp_path: Path) -> None:
    with (
        atomic.output_folder(tmp_path / "out", "last", force=False),
        pytest.raises(InputError, match=r"out is being written by another process"),
        atomic.output_folder(tmp_path / "out", "last", force=False),
    ):
        raise AssertionError("entered twice")
