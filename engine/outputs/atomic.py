"""Files and folders that are there whole or not at all.

What is being written has one temporary name a target, under a lock that ends with its process: what a killed
process left behind is replaced by the next one that writes the same target.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import InputError
from engine.outputs.lock import WriterLock
from engine.outputs.place import not_writable


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    The bytes are on the disk before the name is: not even a power cut leaves a half-written file under it. On
    any failure, an interrupt included, the temporary file is removed and what was at `path` stays. Raises
    `InputError` when the system does not let it be written (no space, no permission), and when another
    process is writing it.
    """
    make_folder(path.parent)
    temporary = partial(path)
    with locked(path):
        try:
            write(temporary)
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
        except OSError as error:
            raise not_writable(path, error) from error
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def output_folder(out: Path, last: str, *, force: bool) -> Iterator[Path]:
    """A temporary folder to fill, whose files are moved to `out` when the block ends without an error.

    The file named `last` says that the rest is there: it is moved last, and an older one is removed first.
    With `force`, files of the same names in `out` are replaced and all others are left alone. Raises
    `InputError` before anything is written when `out` is a file, a folder that is not empty and `force` is
    not given, or being written by another process.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: a file, expected a folder; name another one")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise InputError(
            f"--out {out}: the folder is not empty; name another one, or replace its results with --force"
        )
    target = out.resolve()  # `.` has no name of its own
    make_folder(target.parent)
    staging = partial(target)
    with locked(target):
        shutil.rmtree(staging, ignore_errors=True)
        try:
            make_folder(staging)
            yield staging
            publish(staging, target, last)
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
        flush(out)
    except OSError as error:
        raise not_writable(out, error) from error


def partial(path: Path) -> Path:
    """Where the target `path` is made: beside it, one name a target."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the target's lock. Raises `InputError` when another process does."""
    lock = WriterLock(path)
    try:
        yield
    finally:
        lock.release()


def flush(path: Path) -> None:
    """Have the system put a file's bytes, or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make the folder and its parents. Raises `InputError` when it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error
