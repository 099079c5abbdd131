"""Every option that names a path: never empty; every output: not over an input, wherever that is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from engine.cli.main import COMMANDS, itrstress, run
from engine.cli.paths import GivenPath, spans


def commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*words, name))


def test_every_path_of_every_command_is_one_that_is_not_empty() -> None:
    paths = {
        (words, parameter.name): parameter.type
        for words, command in commands(itrstress)
        for parameter in command.params
        if isinstance(parameter.type, click.Path)
    }
    assert len({words[0] for words, _ in paths}) >= len(COMMANDS) // 2
    assert {where for where, kind in paths.items() if not isinstance(kind, GivenPath)} == set()


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", ""],
        ["evaluate", "s.h5", "--out", ""],
        ["demo", "--out", ""],
        ["corpus", "inspect", "c.json", "--json", ""],
        ["compare", "r", "--out", ""],
    ],
)
def test_an_empty_path_is_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert "the path is empty; name a file or a folder" in shown
    assert shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_spans_of_a_spec_hold_the_paths_in_it() -> None:
    assert set(spans("rococo:a=b.json=c.npy")) >= {Path("a=b.json"), Path("c.npy")}
    assert set(spans("vsrn:a.pth+b.pth:vocab=v.json,dim=3")) >= {Path("a.pth"), Path("b.pth"), Path("v.json")}
    assert set(spans("plain")) == {Path("plain")}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of an import in the working folder: name -> bytes."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"image": f"{row}.jpg", "caption": f"Caption {row}."}) for row in range(3)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("i.npy", "c.npy", "v.npy"):
        np.save(name, np.eye(3, dtype="f4"))
    return {file.name: file.read_bytes() for file in tmp_path.iterdir()}


@pytest.mark.parametrize("out", ["corpus.jsonl", "i.npy", "c.npy", "v.npy", "link.h5"])
def test_an_import_never_replaces_what_it_reads(
    inputs: dict[str, bytes], out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if out == "link.h5":
        Path(out).symlink_to("i.npy")
    given = [
        "--images",
        "i.npy",
        "--captions",
        "c.npy",
        "--corpus",
        "corpus.jsonl",
        "--variant",
        "char_swap:seed=1=v.npy",
    ]
    assert run(["import", *given, "--model", "m", "--out", out, "--force"]) == 2
    assert f"error: --out {out}: the command reads it" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in Path().iterdir() if not file.is_symlink()} == inputs


def test_an_inspection_never_replaces_the_corpus(
    inputs: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["corpus", "inspect", "corpus.jsonl", "--json", "corpus.jsonl", "--force"]) == 2
    assert "error: --json corpus.jsonl: the command reads it" in capsys.readouterr().err
    assert Path("corpus.jsonl").read_bytes() == inputs["corpus.jsonl"]


def test_an_inspection_never_replaces_an_image(
    inputs: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("images").mkdir()
    Path("images/1.jpg").write_bytes(b"an image")
    inspect = ["corpus", "inspect", "corpus.jsonl", "--images", "images", "--force"]
    assert run([*inspect, "--json", "images/1.jpg"]) == 2
    assert "error: --json images/1.jpg: the command reads it" in capsys.readouterr().err
    assert Path("images/1.jpg").read_bytes() == b"an image"
    assert run([*inspect, "--json", "images/report.json"]) == 0
