"""Files a user gives: regular files only, told apart before they are opened.

Opening a pipe waits for a writer that may never come, and a device may never end; input files are also read
more than once (digests, resuming), which neither of them can be.
"""

from __future__ import annotations

import os
import stat
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from engine.errors import InputError

# what numpy raises for a file that is no array: its header is read as a Python literal
NO_ARRAY = (
    ValueError,
    TypeError,
    EOFError,
    OverflowError,
    SyntaxError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def check_regular_file(path: str | Path, expected: str) -> os.stat_result:
    """The status of a file, links followed; `expected` says what is looked for, such as ``a corpus file``.

    Raises `InputError` when it is not there, not reachable, or anything but a regular file.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected {expected}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read ({reason}); expected {expected}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = kind_of_file(status.st_mode)
        copy = "" if kind == "a folder" else "; write its content to a file first"
        raise InputError(f"{path} is {kind}; expected {expected}{copy}")
    return status


def kind_of_file(mode: int) -> str:
    """What something that is no regular file is, from its `st_mode`, for an error line."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")


def read_array_head(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns lie together, and dtype of a ``.npy``, before any of its values. Raises one of
    `NO_ARRAY`."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return shape, fortran, dtype
