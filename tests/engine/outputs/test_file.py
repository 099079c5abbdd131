"""A file that an option names: checked before the work, written after it, streams straight into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.outputs.file import OutputFile


def test_a_file_is_written_and_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    OutputFile.at(path, "--json", force=False).write(b"first")
    assert path.read_bytes() == b"first"
    with pytest.raises(InputError) as caught:
        OutputFile.at(path, "--json", force=False)
    assert str(caught.value) == f"--json {path}: there already; name another file, or --force replaces it"
    OutputFile.at(path, "--json", force=True).write(b"second")
    assert path.read_bytes() == b"second"


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    place = OutputFile.at(path, "--json", force=False)
    path.write_text("of somebody else")
    with pytest.raises(InputError, match="there already"):
        place.write(b"ours")
    assert path.read_text() == "of somebody else"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="is a pipe"):
        OutputFile(path, "--json", force=True).write(b"ours")
    assert path.is_fifo()


def test_a_device_takes_the_bytes_and_stays() -> None:
    before = Path("/dev/null").stat()
    OutputFile.at(Path("/dev/null"), "--json", force=False).write(b"x")
    assert Path("/dev/null").stat().st_rdev == before.st_rdev
    with pytest.raises(InputError, match=r"^--json /dev/full: cannot be written \(No space left on device\)"):
        OutputFile.at(Path("/dev/full"), "--json", force=True).write(b"x")
    assert Path("/dev/full").is_char_device()


WRITE = (
    "from pathlib import Path; from engine.outputs.file import OutputFile; print('before');"
    "OutputFile.at(Path('/dev/stdout'), '--json', force=False).write(b'the bytes')"
)


def test_standard_output_may_be_a_pipe() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    written = subprocess.run(
        [sys.executable, "-c", WRITE], check=True, capture_output=True, env=buffered
    ).stdout
    assert written == b"before\nthe bytes"
