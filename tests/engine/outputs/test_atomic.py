"""What is written is there whole or not at all, whatever ends the writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.outputs import atomic
from engine.outputs.lock import WriterLock


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


PUBLISH = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
replace, left = Path.replace, [{step}]
def replace_and_die(self, to):
    replace(self, to)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), {signal})
Path.replace = replace_and_die
with output_folder(Path('out'), 'last', force={force}) as to:
    for name in ('a', 'last', 'z'):
        (to / name).write_text('new')
"""
NEW = {"a": "new", "last": "new", "z": "new"}


def texts_of(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_files_that_a_kill_left_unmoved_are_moved_by_the_next_command(
    tmp_path: Path, step: int, force: bool
) -> None:
    """The first step puts the whole folder aside, the others move its files, `last` at the end."""
    out = tmp_path / "out"
    out.mkdir()
    old = {name: "old" for name in (*NEW, "mine") if force}
    for name, text in old.items():
        (out / name).write_text(text)
    killed_while(tmp_path, PUBLISH.format(step=step, signal=9, force=force))
    assert (out / "last").exists() == (step == 4 or (force and step == 1))
    with (
        pytest.raises(
            InputError, match=r"--out .*out: an earlier command was killed .* all there now; --force"
        ),
        atomic.output_folder(out, "last", force=False),
    ):
        raise AssertionError("entered")
    assert texts_of(out) == {**old, **NEW}
    assert len(list(out.iterdir())) == len({**old, **NEW})
    with atomic.output_folder(out, "last", force=True) as folder:
        (folder / "last").write_text("newer")
    assert texts_of(out) == {**old, **NEW, "last": "newer"}


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_an_interrupt_waits_for_all_files_to_be_moved(tmp_path: Path, step: int) -> None:
    lines = ("import os", "from pathlib import Path", "from engine.outputs.atomic import *")
    code = "\n".join((*lines, PUBLISH.format(step=step, signal="signal.SIGINT", force=False)))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True)
    assert b"KeyboardInterrupt" in done.stderr
    assert texts_of(tmp_path / "out") == NEW
    assert len(list((tmp_path / "out").iterdir())) == len(NEW)


def test_what_was_left_of_files_that_were_never_whole_goes_without_force_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / atomic.PARTIAL).mkdir(parents=True)
    (out / "mine").touch()
    with pytest.raises(InputError, match="not empty"), atomic.output_folder(out, "last", force=False):
        raise AssertionError("entered")
    assert [file.name for file in out.iterdir()] == ["mine"]


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


def test_two_at_once_into_a_new_folder_are_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has come, and gone, between the first look at the folder and the lock."""
    out, locked = tmp_path / "out", atomic.locked

    def fill(text: str) -> None:
        with atomic.output_folder(out, "last", force=False) as folder:
            (folder / "last").write_text(text)

    def overtaken(target: Path, path: Path) -> AbstractContextManager[WriterLock]:
        monkeypatch.setattr(atomic, "locked", locked)
        fill("of the other")
        return locked(target, path)

    monkeypatch.setattr(atomic, "locked", overtaken)
    with pytest.raises(InputError, match=r"--out .*out: the folder is not empty"):
        fill("ours")
    assert [file.read_text() for file in out.iterdir()] == ["of the other"]


def test_an_output_folder_needs_no_more_than_itself(tmp_path: Path) -> None:
    """It may be a mount, in a folder that is not ours."""
    out = tmp_path / "out"
    out.mkdir()
    with atomic.output_folder(out, "last", force=False) as folder:
        assert folder.parent == out
        assert [file.name for file in tmp_path.iterdir()] == ["out"]
        (folder / "last").touch()
    assert [file.name for file in out.iterdir()] == ["last"]


@pytest.mark.parametrize("failure", [InputError, OSError])
def test_no_error_names_the_temporary_file_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    monkeypatch.chdir(tmp_path)

    def fail(path: Path) -> None:
        raise InputError(f"{path}: odd") if failure is InputError else OSError(5, "odd", str(path))

    def fill(out: str) -> None:
        with atomic.output_folder(Path(out), "last", force=True) as folder:
            fail(folder / "a.parquet")

    for out in ("out", "."):
        with pytest.raises(InputError) as caught:
            fill(out)
        assert Path(str(caught.value).split(":")[0]) == Path(out) / "a.parquet"
        assert ".partial" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        atomic.write_atomically(Path("a.txt"), fail)
    assert str(caught.value).startswith("a.txt: ")
    assert list(tmp_path.iterdir()) == []


def test_a_link_at_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / ".a.txt.partial").symlink_to("mine.txt")
    atomic.write_atomically(tmp_path / "a.txt", lambda to: to.write_text("new"))
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "last").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".partial").symlink_to(tmp_path / "safe")
    with atomic.output_folder(tmp_path / "out", "last", force=False) as folder:
        (folder / "last").write_text("new")
    texts = {str(file.relative_to(tmp_path)): file.read_text() for file in tmp_path.rglob("*.*")}
    assert texts == {"mine.txt": "mine", "a.txt": "new"}
    assert (tmp_path / "safe" / "last").read_text() == "mine"
    assert [(file.name, file.read_text()) for file in (tmp_path / "out").iterdir()] == [("last", "new")]


def test_folders_made_for_an_output_that_failed_are_removed(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic.output_folder(tmp_path / "a" / "b" / "out", "last", force=False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_pipe_is_refused_before_the_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / "a.parquet")
    with (
        pytest.raises(InputError, match=r"--out .*a.parquet: is a pipe, expected a file to write"),
        atomic.output_folder(out, "last", force=True),
    ):
        raise AssertionError("entered")
    assert [file.name for file in out.iterdir()] == ["a.parquet"]
