"""Text files of the user's that a variant is made with: read whole, and named by their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.inputs import check_regular_file

BYTE_ORDER_MARK = "\ufeff"
"""Some editors begin a file with it; it is no part of the text."""


@dataclass(frozen=True)
class UserFile:
    """A text, the path it was read from, and the SHA-256 (hex) of its bytes."""

    path: Path
    text: str
    sha256: str

    @property
    def record(self) -> Mapping[str, Any]:
        """JSON-ready: what the file is called, wherever it lies, and its digest."""
        return {"file": self.path.name, "sha256": self.sha256}


def read_user_file(path: Path, expected: str, largest: int) -> UserFile:
    """Read a UTF-8 file of at most `largest` bytes; `expected` says what it should be, as in ``a word list``.

    Raises `InputError` (one line: file, place, what was expected) when it cannot be read, is larger, or is
    not UTF-8. What was read is what the digest is of, also when somebody writes the file meanwhile.
    """
    check_regular_file(path, expected)
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); expected {expected}") from None
    if len(data) > largest:
        raise InputError(f"{path}: more than {largest:,} bytes; expected {expected}, no larger than that")
    try:
        text = data.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; expected {expected}, in UTF-8") from None
    return UserFile(path, text, hashlib.sha256(data).hexdigest())
