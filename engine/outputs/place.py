"""Whether a path is a place for an output: asked once, before any work, and again under the target's lock."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from engine.errors import InputError


def check_output_folder(folder: Path, option: str = "") -> Path:
    """The folder that outputs go to, links followed; it need not be there, and is not made.

    `option` is what the path was given with, for the error line, such as ``--out``. Raises `InputError` when
    it is no folder, or when nothing can be written in it (found out by writing).
    """
    target = follow(folder, option)
    status = status_of(target, option)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise InputError(f"{shown(folder, option)}: a file, expected a folder; name another one")
    if not target.name:
        raise InputError(f"{shown(folder, option)}: the root of all files; name a folder in it")
    probe(target, folder, option)
    return target


def follow(path: Path, option: str = "") -> Path:
    """Where a path leads, absolute, links followed, the last one too where nothing is at its end.

    Raises `InputError` for links that lead in a circle and for a path that the system does not take.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise InputError(f"{shown(path, option)}: its links lead in a circle; name another place")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise not_writable(path, error, option) from error
    return target


def status_of(target: Path, option: str = "") -> os.stat_result | None:
    """What is at a path whose links were followed; None when nothing is. Raises `InputError`."""
    try:
        return os.lstat(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise not_writable(target, error, option) from error


def probe(folder: Path, given: Path, option: str = "") -> None:
    """Write in the folder, or in the nearest one above that is there. Raises `InputError` when that fails."""
    there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise not_writable(given, error, option) from error


def shown(path: Path, option: str) -> str:
    """A path for an error line, behind the option that it was given with."""
    return f"{option} {path}".lstrip()


def not_writable(path: Path, error: OSError | ValueError, option: str = "") -> InputError:
    """The error for a path that the system does not let us write."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{shown(path, option)}: cannot be written ({reason}); make room or name another place")
