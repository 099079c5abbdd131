"""One writer a store: an advisory lock that a killed process cannot leave behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from engine.errors import InputError


class WriterLock:
    """The lock of a store file, held from construction to `release`.

    It is `flock` on a file beside the store (the store itself may be replaced meanwhile); the system drops it
    when its process ends in whatever way, so a lock file that lies there means nothing. Raises `InputError`
    when another process (or another writer of this one) holds it.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f".{store.name}.lock")
        self._file = self._acquire(store)

    def _acquire(self, store: Path) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise InputError(f"cannot write {store}: {error.strerror} ({self._path.parent})") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(file)
                raise InputError(
                    f"{store} is being written by another process; wait for it, or write another file"
                ) from error
            if self._is_current(file):
                return file
            os.close(file)

    def _is_current(self, file: int) -> bool:
        """Whether the name still leads to the locked file: its last holder may have removed it in between."""
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file and let go."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)
