"""A corpus file as it was found: its text, and its JSON value when it is JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.inputs import check_regular_file


@dataclass(frozen=True)
class Document:
    """What a reader looks at. `value` is the parsed JSON and only means something when `fault` is None.

    `fault` says why the text is no JSON (line and column), in words for an error.
    """

    path: Path
    text: str
    value: Any = None
    fault: str | None = None

    @property
    def is_json(self) -> bool:
        """Whether the whole text is one JSON value."""
        return self.fault is None


def load_document(path: str | Path) -> Document:
    """Read a UTF-8 text file (a byte order mark is dropped) and parse it when it is JSON.

    Raises `InputError` when it is missing, a folder, unreadable, empty or not UTF-8. Text that is no JSON is
    no error here.
    """
    path = Path(path)
    text = _decode(path, _read_bytes(path))
    if not text.strip():
        raise InputError(f"{path}: the file is empty; expected a captioned image set")
    if text.lstrip()[0] not in "[{":
        return Document(path, text, fault="does not begin with [ or {")
    try:
        return Document(path, text, value=parse_json(text))
    except JSONFault as fault:
        return Document(path, text, fault=str(fault))


class JSONFault(ValueError):
    """Why a text cannot be taken as JSON, in words for an error."""


def parse_json(text: str) -> Any:
    """The JSON value that `text` is. Raises `JSONFault`, also for an object with one key twice.

    Python would quietly keep the last of two; a caption or a split would be lost.
    """
    try:
        return json.loads(text, object_pairs_hook=_object_of)
    except json.JSONDecodeError as error:
        raise JSONFault(describe_json_error(error)) from None
    except RecursionError:
        raise JSONFault("lists or objects are nested too deeply") from None
    except JSONFault:
        raise
    except ValueError:  # the one other: an integer of thousands of digits
        raise JSONFault("a number in it has thousands of digits") from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise JSONFault(f"the key {twice!r} stands twice in one object; keep one of them")
    return value


def parse_object(line: str) -> dict[str, Any] | None:
    """The JSON object that `line` is, or None; for recognition, `parse_json` is the one that judges."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def describe_json_error(error: json.JSONDecodeError) -> str:
    """Line, column and cause in words, and whether the text ends too early."""
    cut_off = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
    hint = "; the file ends in the middle (cut off?), get it again" if cut_off else ""
    return f"line {error.lineno} column {error.colno}: {error.msg}{hint}"


def _read_bytes(path: Path) -> bytes:
    check_regular_file(path, "a corpus file (images are given with --images)")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8; "
            "expected a text file in UTF-8, convert it first"
        ) from None
