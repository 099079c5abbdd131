"""A pipe, a device or a folder where a file is expected ends in one line at once, never in a wait."""

from __future__ import annotations

import os

import pytest

from engine.cli.main import run
from engine.errors import InputError
from engine.inputs import check_regular_file
from indexes.errors import SearchInputError
from indexes.files import open_fbin, open_npy


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_what_is_no_regular_file_is_named(tmp_path, pipe):
    plain = tmp_path / "plain"
    plain.write_text("x")
    link = tmp_path / "link"
    link.symlink_to(plain)
    assert check_regular_file(link, "a file").st_size == 1
    looped = tmp_path / "loop"
    looped.symlink_to(looped)
    for path, line in (
        (tmp_path, "is a folder; expected a file$"),
        (pipe, "is a pipe; expected a file; write its content to a file first"),
        ("/dev/zero", "/dev/zero is a device"),
        (tmp_path / "none", "no such file; expected a file"),
        (plain / "below", "cannot be read"),
        ("a\0b", "cannot be read"),
        (looped, "cannot be read"),
    ):
        with pytest.raises(InputError, match=line):
            check_regular_file(path, "a file")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "command",
    [
        "corpus inspect {}",
        "store inspect {}",
        "evaluate {}",
        "sweep {}",
        "import --images {} --captions {} --corpus {} --model m --out s.h5",
        "compare {}",
        "distractors list {}",
        "variants preview --corpus corpus.jsonl --variant char_swap --items 1 --font {} --out x.png",
    ],
)
@pytest.mark.parametrize("device", [False, True])
def test_no_command_waits_for_a_pipe(command, device, pipe, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.jsonl").write_text('{"image": "a.png", "caption": "two dogs"}\n')
    given = "/dev/zero" if device else str(pipe)
    assert run(command.replace("{}", given).split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert given in said
    assert said.count("\n") == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("open_rows", [open_npy, open_fbin])
def test_row_files_are_regular_files(open_rows, pipe):
    with pytest.raises(SearchInputError, match="no regular file"):
        open_rows(pipe)
