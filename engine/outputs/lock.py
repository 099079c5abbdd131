"""One writer a target: an advisory lock that a killed process cannot leave behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from engine.errors import InputError


class WriterLock:
    """The lock of a file or folder that is written, held from construction to `release`.

    It is `flock` on the file `path` beside the target (which may be replaced meanwhile); the system drops it
    when its process ends in whatever way, so a lock file that lies there means nothing. Raises `InputError`,
    with the target named as `shown`, when another process (or another writer of this one) holds it.
    """

    def __init__(self, target: Path, shown: Path | None = None) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._file = self._acquire(shown or target)

    def _acquire(self, shown: Path) -> int:
        while True:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise InputError(f"cannot write {shown}: {error.strerror} ({self.path.parent})") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(file)
                raise InputError(
                    f"{shown} is being written by another process; wait for it, or name another place"
                ) from error
            if self._is_current(file):
                return file
            os.close(file)

    def _is_current(self, file: int) -> bool:
        """Whether the name still leads to the locked file: its last holder may have removed it in between."""
        try:
            return os.path.samestat(os.fstat(file), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file and let go."""
        self.path.unlink(missing_ok=True)
        os.close(self._file)
