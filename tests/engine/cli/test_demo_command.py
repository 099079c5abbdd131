"""The demo's folder: what is in the way is named before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.cli.demo import write_report
from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate import collection
from engine.progress import Silent
from engine.report.html.page import Page


@pytest.mark.parametrize("content", [b"\xff", b"checkpoints: []\n"])
def test_a_run_file_of_something_else_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / "run.yaml").write_bytes(content)
    assert run(["demo", "--out", str(out)]) == 2
    said = f"{out}/run.yaml: of a demo with other options; remove the folder {out} or name another --out"
    assert capsys.readouterr().err == f"error: {said}\n"
    assert (out / "run.yaml").read_bytes() == content


def test_a_pipe_as_the_run_file_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "run.yaml")
    assert run(["demo", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/run.yaml is a pipe; expected the run file")


def test_a_report_is_not_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis.html").write_text("precious")
    (tmp_path / "report.html").symlink_to("thesis.html")
    monkeypatch.setattr(collection, "collect_runs", lambda paths: ())
    monkeypatch.setattr(Page, "of", lambda *found, **options: None)
    monkeypatch.setattr("engine.report.html.render.render", lambda page: b"page")
    with pytest.raises(InputError, match=r"report.html: is a link where itrstress writes"):
        write_report(tmp_path, Silent())
    assert (tmp_path / "thesis.html").read_text() == "precious"
