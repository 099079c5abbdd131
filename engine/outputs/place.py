"""Whether a path is a place for an output: asked before any work, and again when the output is put there.

An output goes to a regular file or to none; never onto a device, a pipe or a socket, which would be gone, and
never over what the command reads. Links are followed, so that what they lead to is written, not they.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.errors import InputError
from engine.inputs import kind_of_file

TEMPORARY = "." * 20  # what the name of a temporary file beside an output may be longer


def check_output_folder(folder: Path, option: str = "") -> Path:
    """The folder that outputs go to, links followed; it need not be there, and is not made.

    `option` is what the path was given with, for the error line, such as ``--out``. Raises `InputError` when
    it is no folder, or when nothing can be written in it (found out by writing).
    """
    target = follow(folder, option)
    status = status_of(target, folder, option)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        kind = "a file" if stat.S_ISREG(status.st_mode) else kind_of_file(status.st_mode)
        raise InputError(f"{as_given(folder, option)}: {kind}, expected a folder; name another one")
    probe(target, folder, option)
    return target


def check_output_file(path: Path, option: str = "", inputs: Iterable[Path] = ()) -> Path:
    """The file that an output goes to, links followed; it need not be there, nor its folder.

    Raises `InputError` when something else than a regular file is there, when it is one of the `inputs`, or
    when nothing can be written in its folder (found out by writing).
    """
    target = place_of(path, option)
    check_not_an_input(target, path, inputs, option)
    probe(target.parent, path, option)
    return target


def place_of(path: Path, option: str = "") -> Path:
    """The file that a path leads to, there or not. Raises `InputError` for all that is no regular file."""
    target = follow(path, option)
    status = status_of(target, path, option)
    status_of(Path(f"{target}{TEMPORARY}"), path, option)
    if status is not None and not stat.S_ISREG(status.st_mode):
        kind = kind_of_file(status.st_mode)
        raise InputError(f"{as_given(path, option)}: is {kind}, expected a file to write; name another one")
    return target


def check_not_an_input(target: Path, path: Path, inputs: Iterable[Path], option: str = "") -> None:
    """Raise `InputError` when the target of an output is, under any name, one of the files read for it."""
    if not target.exists():
        return
    for one in inputs:
        if is_same(target, one):
            called = "" if one == path else f" as {one}"
            raise InputError(
                f"{as_given(path, option)}: the command reads it{called} and would destroy it; "
                "name another file"
            )


def is_same(a: Path, b: Path) -> bool:
    """Whether two paths lead to one file that is there."""
    with suppress(OSError, ValueError):
        return a.samefile(b)
    return False


def follow(path: Path, option: str = "") -> Path:
    """What a link leads to, through all links, also where nothing is at its end; any other path as it is.

    Raises `InputError` for links that lead in a circle and for a path that the system does not take.
    """
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        if target.is_symlink():
            raise InputError(f"{as_given(path, option)}: its links lead in a circle; name another place")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise not_writable(path, error, option) from error
    return target


def status_of(target: Path, path: Path, option: str = "") -> os.stat_result | None:
    """What is at a path; None when nothing is. Raises `InputError` when that cannot be known."""
    try:
        return target.lstat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise not_writable(path, error, option) from error


def probe(folder: Path, path: Path, option: str = "") -> None:
    """Write in the folder, or in the nearest one above that is there. Raises `InputError` when that fails."""
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise not_writable(path, error, option) from error


def as_given(path: Path, option: str) -> str:
    """A path for an error line, behind the option that it was given with."""
    return f"{option} {path}".lstrip()


def not_writable(path: Path, error: OSError | ValueError, option: str = "") -> InputError:
    """The error for a path that the system does not let us write."""
    reason = getattr(error, "strerror", None) or error
    return InputError(
        f"{as_given(path, option)}: cannot be written ({reason}); make room or name another place"
    )
