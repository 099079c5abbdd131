"""Files under names of our own: no link is followed, and only what we have written is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InputError
from engine.outputs.own import check_own_place, write_own

HEAD = b'{"made by us"'


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    for target in (other, tmp_path / "gone"):
        link = tmp_path / f"link to {target.name}"
        link.symlink_to(target)
        with pytest.raises(InputError, match="is a link where itrstress writes a file of its own; remove it"):
            write_own(link, lambda to: to.write_text("new"))
    assert other.read_text() == "precious"
    assert not (tmp_path / "gone").exists()


def test_a_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to("disk")
    write_own(tmp_path / "results" / "a.json", lambda to: to.write_text("new"))
    assert (tmp_path / "disk" / "a.json").read_text() == "new"


@pytest.mark.parametrize("kept", [0, 1, len(HEAD) - 1, len(HEAD), None])
def test_our_file_may_be_cut_off_anywhere(tmp_path: Path, kept: int | None) -> None:
    file = tmp_path / "a.json"
    check_own_place(file, HEAD)
    file.write_bytes((HEAD + b": 1}")[:kept])
    check_own_place(file, HEAD)


@pytest.mark.parametrize("found", [b"my notes", b"{}", b"\0" * 100, HEAD[:5] + b"?"])
def test_a_file_that_does_not_begin_as_ours_is_not_ours(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "a.json").write_bytes(found)
    with pytest.raises(InputError, match=r"a.json: not written by itrstress.*--force replaces it"):
        check_own_place(tmp_path / "a.json", HEAD)
