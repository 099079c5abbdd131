"""The demo's folder: what is in the way is named before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.main import run


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
