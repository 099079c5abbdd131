"""Whether a path is a place for a store: nothing there, or what may be replaced by one.

That is a store, whole or damaged, any other HDF5 file, and an empty file. Everything else is somebody's data
under a wrong name and stays, with `--force` too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.errors import InputError
from engine.outputs.place import as_given, check_output_file
from engine.store.structure import METADATA_BLOCK_BYTES

HDF5 = b"\x89HDF\r\n\x1a\n"
OWN_MARK = b"encoder_fingerprint\0"  # the name of an attribute, in stores and distractor sets
BEGINNINGS = {
    b"\x93NUMPY": "a NumPy array",
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive or a checkpoint of torch",
    b"\x80": "a pickle",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x89PNG": "a PNG image",
}


def check_store_place(path: Path, option: str = "", inputs: Iterable[Path] = ()) -> Path:
    """The file that a store is written to, links followed. The folder it is in must be there.

    Raises `InputError` as `engine.outputs.place.check_output_file` does, and for a file that no store may
    replace.
    """
    target = check_output_file(path, option, inputs)
    if not target.parent.is_dir():
        raise InputError(f"{as_given(path, option)}: the folder {path.parent} is not there; create it first")
    if target.exists() and (content := foreign_content(target)) is not None:
        raise InputError(
            f"{as_given(path, option)}: {content}, not an HDF5 file, and so never replaced by a store; "
            "name another file"
        )
    return target


def foreign_content(file: Path) -> str | None:
    """What a file holds, in words; None for what a store may replace. Raises `InputError` if unreadable."""
    try:
        with file.open("rb") as opened:
            head = opened.read(METADATA_BLOCK_BYTES)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); name another file") from error
    if head.startswith(HDF5) or HDF5.startswith(head) or OWN_MARK in head:
        return None
    known = (words for beginning, words in BEGINNINGS.items() if head.startswith(beginning))
    return next(known, "data of another kind" if b"\0" in head else "text")
