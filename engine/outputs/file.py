"""A file that the user asked for, such as ``--json FILE``: checked before the work, written after it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.outputs.atomic import there_already, write_atomically
from engine.outputs.place import check_output_file, follow, not_writable


@dataclass(frozen=True)
class OutputFile:
    """A file that is there whole or not at all; a stream (see `is_stream`) is written straight into."""

    path: Path
    option: str
    force: bool

    @classmethod
    def at(cls, path: Path, option: str, *, force: bool, inputs: Iterable[Path] = ()) -> OutputFile:
        """A place for the output that `option` names. Raises `InputError` as `check_output_file` does, and
        when a file is there and `force` is not given.
        """
        if not is_stream(path):
            target = check_output_file(path, option, inputs)
            if target.exists() and not force:
                raise there_already(path, option)
        return cls(path, option, force)

    @property
    def is_stream(self) -> bool:
        """Whether it is written straight into."""
        return is_stream(self.path)

    def write(self, data: bytes) -> None:
        """Write it. Raises `InputError` when the system does not let it be written, and when something has
        come to be there meanwhile and `force` was not given.
        """
        if self.is_stream:
            write_stream(self.path, data, self.option)
            return
        write_atomically(self.path, lambda to: to.write_bytes(data), option=self.option, force=self.force)


def is_stream(path: Path) -> bool:
    """Whether a path is written to as it goes: a character device such as ``/dev/null``, or a pipe that this
    process was given, such as ``/dev/stdout``. A pipe with a name is not: it would wait for its reader.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or (stat.S_ISFIFO(mode) and not follow(path).exists())


def write_stream(path: Path, data: bytes, option: str) -> None:
    """Write straight into a device or a pipe. Raises `InputError` when it does not take it."""
    sys.stdout.flush()  # it may be the same
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        os.set_blocking(file, True)  # not blocking was for a pipe whose reader has gone
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_writable(path, error, option) from error
