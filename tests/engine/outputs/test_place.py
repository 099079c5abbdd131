"""An output goes to a regular file or to none, never onto a device, a pipe or an input."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.outputs.atomic import output_folder, write_atomically
from engine.outputs.place import check_output_file, check_output_folder


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # a socket's path may have 107 bytes only
        made.bind(path.name)


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (Path.mkdir, "a folder"),
    "pipe": (os.mkfifo, "a pipe"),
    "socket": (make_socket, "a socket"),
    "link to a device": (lambda path: path.symlink_to("/dev/full"), "a device"),
    "link to a pipe": (lambda path: (os.mkfifo(path.with_name("p")), path.symlink_to("p")), "a pipe"),
}


@pytest.fixture(params=SPECIAL)
def special(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """A path with something that is no regular file, and what it is called."""
    monkeypatch.chdir(tmp_path)
    make, kind = SPECIAL[request.param]
    make(tmp_path / "out")
    return tmp_path / "out", kind


def test_what_is_no_regular_file_is_refused_and_stays(special: tuple[Path, str]) -> None:
    path, kind = special
    before = path.lstat()
    line = f"--json {path}: is {kind}, expected a file to write; name another one"
    with pytest.raises(InputError) as caught:
        check_output_file(path, "--json")
    assert str(caught.value) == line
    with pytest.raises(InputError, match=f"out: is {kind}"):
        write_atomically(path, lambda to: to.write_text("new"))
    assert path.lstat() == before


def test_a_device_is_refused() -> None:
    with pytest.raises(InputError, match=r"^/dev/full: is a device"):
        write_atomically(Path("/dev/full"), lambda to: to.write_text("new"))


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_a_folder_that_is_none_is_refused_and_stays(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "out"
    make(path)
    before = path.lstat()
    for force in (False, True):
        with (
            pytest.raises(InputError, match=r"^--out .*out: a .*, expected a folder; name another one$"),
            output_folder(path, "last", force=force),
        ):
            raise AssertionError("entered")
    assert path.lstat() == before


@pytest.mark.parametrize("target", ["there.txt", "not-there.txt", "sub/deep.txt"])
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path, target: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "there.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("second")
    (tmp_path / "second").symlink_to(target)
    write_atomically(link, lambda to: to.write_text("new"))
    assert str(link.readlink()) == "second"
    assert (tmp_path / target).read_text() == "new"
    assert not list(tmp_path.rglob(".*"))


def test_a_link_to_a_file_counts_as_that_file(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("there.txt")
    with pytest.raises(InputError, match=r"link.txt: there already; name another file, or --force"):
        write_atomically(tmp_path / "link.txt", lambda to: to.write_text("new"), force=False)
    assert (tmp_path / "there.txt").read_text() == "old"


def test_a_linked_folder_and_a_link_in_it_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link leads to another disk, where nothing can be moved to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere.json").write_text("old")
    (tmp_path / "real" / "last").symlink_to(tmp_path / "elsewhere.json")
    (tmp_path / "out").symlink_to("real")
    replace = Path.replace

    def within_a_disk(self: Path, to: Path) -> Path:
        if self.parent != tmp_path and to.parent == tmp_path:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", within_a_disk)
    with output_folder(tmp_path / "out", "last", force=True) as folder:
        (folder / "last").write_text("new")
        (folder / "more").write_text("more")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "last").is_symlink()
    assert (tmp_path / "elsewhere.json").read_text() == "new"
    assert sorted(file.name for file in (tmp_path / "real").iterdir()) == ["last", "more"]


@pytest.mark.parametrize("check", [check_output_file, check_output_folder])
def test_links_in_a_circle_are_named(tmp_path: Path, check: Callable[[Path], Path]) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match=r"a: its links lead in a circle; name another place"):
        check(tmp_path / "a")
    with pytest.raises(InputError, match=r"a/x: cannot be written \(Too many levels of symbolic links\)"):
        check(tmp_path / "a" / "x")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/proc/x", "No such file or directory"),
        ("file/x", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte|stat: embedded null character in path"),  # as Python 3.13 says it
    ],
)
@pytest.mark.parametrize("check", [check_output_file, check_output_folder])
def test_where_nothing_can_be_written_is_said_before_any_work(
    tmp_path: Path, check: Callable[[Path, str], Path], name: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        check(tmp_path / name, "--out")
    place = f"--out {tmp_path / name}: cannot be written"
    lines = [f"{place} ({one}); make room or name another place" for one in reason.split("|")]
    assert str(caught.value) in lines


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
@pytest.mark.parametrize("check", [check_output_file, check_output_folder])
def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, check: Callable[[Path], Path]) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(InputError, match=r"new/x: cannot be written \(Permission denied\)"):
        check(tmp_path / "closed" / "new" / "x")


def test_there_must_be_room_for_the_names_of_temporary_files(tmp_path: Path) -> None:
    check_output_file(tmp_path / ("x" * 230))
    with pytest.raises(InputError, match=r"x: cannot be written \(File name too long\)"):
        check_output_file(tmp_path / ("x" * 250))


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    check_output_file(tmp_path / "a" / "b" / "c.json")
    check_output_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_an_input_is_never_an_output_under_any_name(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    read = tmp_path / "corpus.json"
    read.write_text("[]")
    make(tmp_path / "other.json", read)
    for path in (read, tmp_path / "other.json", tmp_path / ".." / tmp_path.name / "corpus.json"):
        with pytest.raises(
            InputError, match=r"^--out .*: the command reads it( as .*corpus.json)? and would"
        ):
            check_output_file(path, "--out", [tmp_path / "not-there", read])
    check_output_file(tmp_path / "new.json", "--out", [read])


def test_a_folder_never_replaces_an_input_in_it(tmp_path: Path) -> None:
    read = tmp_path / "out" / "a.parquet"
    read.parent.mkdir()
    for name in ("a.parquet", "last"):
        (tmp_path / "out" / name).write_text("old")

    def fill() -> None:
        with output_folder(tmp_path / "out", "last", force=True, inputs=[read]) as folder:
            for name in ("a.parquet", "last"):
                (folder / name).write_text("new")

    with pytest.raises(InputError, match=r"a.parquet: the command reads it"):
        fill()
    assert {file.name: file.read_text() for file in read.parent.iterdir()} == {
        "a.parquet": "old",
        "last": "old",
    }
