"""Files under names of our own, such as the results of a sweep: the user named no more than their folder.

So whatever else is found under such a name was not meant for us. A link is not followed there, and a file
that we have not written stays.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from engine.errors import InputError
from engine.inputs import kind_of_file
from engine.outputs.atomic import write_atomically
from engine.outputs.place import not_writable, status_of

ADVICE = "remove it, or name another folder"


def check_own_place(path: Path, head: bytes = b"") -> None:
    """Raise `InputError` for what may not be replaced under a name of our own: a link, anything but a regular
    file, and a file that does not begin with `head`, as all of ours of its kind do (where it was cut off,
    with less of it or nothing).
    """
    status = status_of(path, path)
    if status is None:
        return
    if stat.S_ISLNK(status.st_mode):
        raise InputError(f"{path}: is a link where itrstress writes a file of its own; {ADVICE}")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is {kind_of_file(status.st_mode)}, expected a file to write; {ADVICE}")
    try:
        with path.open("rb") as file:
            found = file.read(len(head))
    except OSError as error:
        raise not_writable(path, error) from error
    if not head.startswith(found):
        raise InputError(
            f"{path}: not written by itrstress, which writes a file of that name; remove it, name "
            "another folder, or --force replaces it"
        )


def write_own(path: Path, write: Callable[[Path], object]) -> None:
    """`write_atomically` under a name of our own. Raises `InputError` as it does, and for a link."""
    check_own_place(path)
    write_atomically(path, write)
