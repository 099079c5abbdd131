"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import InputError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    On any failure, an interrupt included, the temporary file is removed and what was at `path` stays. Raises
    `InputError` when the system does not let it be written (no space, no permission).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise not_writable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def output_folder(out: Path, last: str, *, force: bool) -> Iterator[Path]:
    """A temporary folder to fill, whose files are moved to `out` when the block ends without an error.

    The file named `last` says that the rest is there: it is moved last, and an older one is removed first.
    With `force`, files of the same names in `out` are replaced and all others are left alone. Raises
    `InputError` before anything is written when `out` is a file, or a folder that is not empty and `force` is
    not given.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: a file, expected a folder; name another one")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise InputError(
            f"--out {out}: the folder is not empty; name another one, or replace its results with --force"
        )
    staging = out.parent / f".{out.name}.{os.getpid()}.partial"
    try:
        make_folder(staging)
        yield staging
        publish(staging, out, last)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def publish(staging: Path, out: Path, last: str) -> None:
    """Move the files of one folder into another, `last` at the end. Raises `InputError` when it cannot be."""
    files = sorted(staging.iterdir(), key=lambda file: (file.name == last, file.name))
    make_folder(out)
    try:
        (out / last).unlink(missing_ok=True)
        for file in files:
            file.replace(out / file.name)
    except OSError as error:
        raise not_writable(out, error) from error


def make_folder(folder: Path) -> None:
    """Make the folder and its parents. Raises `InputError` when it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error


def not_writable(path: Path, error: OSError) -> InputError:
    """The error for a path that the system does not let us write."""
    return InputError(
        f"{path}: cannot be written ({error.strerror or error}); make room or name another place"
    )
