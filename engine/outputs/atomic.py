"""Files and folders that are there whole or not at all.

What is being written has one temporary name a target, under a lock that ends with its process: what a killed
process left behind is replaced by the next one that writes the same target. No error shows that name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from engine.errors import InputError
from engine.outputs.lock import WriterLock
from engine.outputs.place import as_given, check_not_an_input, check_output_folder, not_writable, place_of

PARTIAL = ".partial"
WHOLE = ".whole"  # in an output folder: files that are all there, and not all moved to their places


def write_atomically(
    path: Path, write: Callable[[Path], object], *, option: str = "", force: bool = True
) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    The bytes are on the disk before the name is: not even a power cut leaves a half-written file under it. On
    any failure, an interrupt included, the temporary file is removed and what was at `path` stays. A link is
    followed. Raises `InputError` when it is no place for a file, when the system does not let it be written
    (no space, no permission), when another process is writing it, and without `force` when it is there.
    """
    target = place_of(path, option)
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}{PARTIAL}")
    with locked(target, path), shown_as(temporary, path):
        if target.exists() and not force:
            raise there_already(path, option)
        try:
            clear(temporary)
            write(temporary)
            flush_path(temporary)
            temporary.replace(target)
            flush_path(target.parent)
        except OSError as error:
            raise not_writable(path, error, option) from error
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def output_folder(out: Path, last: str, *, force: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """A temporary folder to fill, whose files are moved to `out` when the block ends without an error.

    It lies in `out`, which may be all that can be written. The file named `last` says that the rest is there:
    it is moved last, and an older one is removed first. With `force`, files of the same names in `out` are
    replaced and all others are left alone. Once the first file is moved all of them will be: an interrupt
    waits for that, and what a kill left unmoved is moved by the next command (which then ends, without
    `force`). Raises `InputError` before anything is written when `out` is no folder, cannot be written, is
    not empty and `force` is not given, or is being written by another process; at the end for a file that is
    one of the `inputs`.
    """
    target = check_output_folder(out, "--out")
    read = list(inputs)
    made = make_folder(target)
    staging = target / PARTIAL
    try:
        with locked(staging, out) as lock, shown_as(staging, out):
            clear(staging)
            if finish_publishing(target, last) and not force:
                raise InputError(
                    f"--out {out}: an earlier command was killed while it put its files there; they are all "
                    "there now; --force makes them again"
                )
            check_content(target, out, {staging.name, lock.path.name}, force=force)
            try:
                make_folder(staging)
                yield staging
                publish(staging, target, last, read)
            finally:
                clear(staging)
    finally:
        remove_empty(made)


def check_content(target: Path, out: Path, own: Collection[str], *, force: bool) -> None:
    """Raise `InputError` when a folder holds more than our `own` names; with `force`, only for what no file
    may replace, such as a pipe: that is better said now than when the work is done.
    """
    for entry in target.iterdir():
        if entry.name in own:
            continue
        if not force:
            raise InputError(
                f"--out {out}: the folder is not empty; name another one, or replace its results with --force"
            )
        if not entry.is_dir():
            place_of(entry, "--out")


def publish(staging: Path, out: Path, last: str, inputs: Sequence[Path]) -> None:
    """Move the files of one folder into another, `last` at the end. Raises `InputError` when it cannot be."""
    try:
        for file in staging.iterdir():
            place = place_of(out / file.name)
            check_not_an_input(place, place, inputs)
            flush_path(file)
        staging.replace(out / WHOLE)
        finish_publishing(out, last)
    except KeyboardInterrupt:
        finish_publishing(out, last)
        raise
    except OSError as error:
        raise not_writable(out, error) from error


def finish_publishing(out: Path, last: str) -> bool:
    """Move what is whole and not yet in its place, `last` at the end; whether there was anything.

    Raises `InputError` when it cannot be moved: it stays there for the next try.
    """
    whole = out / WHOLE
    if not is_own_folder(whole):
        clear(whole)
        return False
    files = sorted(whole.iterdir(), key=lambda file: (file.name == last, file.name))
    try:
        if (whole / last) in files:
            place_of(out / last).unlink(missing_ok=True)
        for file in files:
            place = place_of(out / file.name)
            if place.parent == out:
                file.replace(place)
            else:  # a link, perhaps to another disk
                write_atomically(place, partial(shutil.copyfile, file))
        flush_path(out)
    except OSError as error:
        raise not_writable(out, error) from error
    clear(whole)
    return True


@contextmanager
def locked(target: Path, path: Path) -> Iterator[WriterLock]:
    """Hold the target's lock; `path` is its name in errors. Raises `InputError` when another process does."""
    lock = WriterLock(target, path)
    try:
        yield lock
    finally:
        lock.release()


@contextmanager
def shown_as(temporary: Path, path: Path) -> Iterator[None]:
    """Errors of the block name `path` where they would name the temporary file or folder it is made in."""
    hidden = str(temporary)
    try:
        yield
    except InputError as error:
        if hidden not in str(error):
            raise
        raise InputError(str(error).replace(hidden, str(path))) from error
    except OSError as error:
        if hidden not in str(error):
            raise
        raise not_writable(Path(str(error.filename or hidden).replace(hidden, str(path))), error) from error


def clear(temporary: Path) -> None:
    """Remove what a killed process left at a temporary name; a link there is never followed."""
    if is_own_folder(temporary):
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        temporary.unlink(missing_ok=True)


def is_own_folder(temporary: Path) -> bool:
    """Whether a folder, not a link to one, is at a temporary name."""
    return temporary.is_dir() and not temporary.is_symlink()


def flush_path(path: Path) -> None:
    """Have the system put a file's bytes, or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> list[Path]:
    """Make the folder and its parents; gives those that were made, outermost first.

    Raises `InputError` when it cannot be made.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error
    return missing[::-1]


def remove_empty(folders: list[Path]) -> None:
    """Remove folders, innermost first, up to the first one that holds something."""
    with suppress(OSError):
        for folder in reversed(folders):
            folder.rmdir()


def there_already(path: Path, option: str) -> InputError:
    """The error for an output that would replace a file without being told to."""
    return InputError(f"{as_given(path, option)}: there already; name another file, or --force replaces it")
