"""Checks of untrusted values: each returns the value in its type or says which entry and field is wrong."""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from engine.errors import InputError

_SHOWN = 40


def expect_object(value: object, place: str) -> dict[str, Any]:
    """`value` as a JSON object; `place` names the file and the entry in the error."""
    if not isinstance(value, dict):
        raise InputError(f"{place}: found {describe(value)}; expected an object")
    return value


def expect_list(entry: dict[str, Any], field: str, place: str) -> list[Any]:
    """The list in `field` of `entry`."""
    value = expect_field(entry, field, place)
    if not isinstance(value, list):
        raise InputError(f"{place}: field '{field}' is {describe(value)}; expected a list")
    return value


def expect_field(entry: dict[str, Any], field: str, place: str) -> Any:
    """What `field` of `entry` holds."""
    if field not in entry:
        raise InputError(f"{place}: field '{field}' is missing; found {_names(entry)}")
    return entry[field]


def expect_text(value: object, place: str) -> str:
    """`value` as text that can be stored and encoded: a string of valid Unicode without NUL."""
    if not isinstance(value, str):
        raise InputError(f"{place} is {describe(value)}; expected text")
    if "\0" in value or not (value.isascii() or _encodes(value)):
        raise InputError(
            f"{place} holds a NUL or half a surrogate pair: {shorten(ascii(value))}; expected valid text"
        )
    return value


def expect_id(value: object, place: str) -> str:
    """`value` as an id: a whole number or a text that is not empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return expect_text(value, place)
    raise InputError(f"{place} is {describe(value)}; expected a whole number or a text that is not empty")


def expect_image_file(value: object, place: str) -> str:
    """`value` as a file inside an image folder, in normal form (``./a//b.jpg`` is ``a/b.jpg``).

    Raises `InputError` for an absolute path and for one with ``..``: it could lead out of the folder.
    """
    text = expect_text(value, place)
    file = PurePosixPath(text)
    if file.is_absolute() or PureWindowsPath(text).is_absolute() or ".." in re.split(r"[/\\]", text):
        raise InputError(
            f"{place} leads out of the image folder: {shorten(repr(text))}; "
            "expected a path relative to the folder, without '..'"
        )
    if not file.parts:
        raise InputError(f"{place} is empty; expected the file of an image")
    return str(file)


def describe(value: object) -> str:
    """A JSON value in a few words, for an error."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"a number ({shorten(_digits(value))})"
    if isinstance(value, str):
        return f"text ({shorten(repr(value))})"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return f"an object with {_names(value)}"
    return type(value).__name__


def shorten(text: str, limit: int = _SHOWN) -> str:
    """`text`, its end replaced by ``...`` when it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _names(entry: dict[str, Any], shown: int = 5) -> str:
    if not entry:
        return "no fields"
    names = ", ".join(shorten(repr(str(name))) for name in list(entry)[:shown])
    return f"the fields {names}" + (f" and {len(entry) - shown} more" if len(entry) > shown else "")


def _digits(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of thousands of digits
        return "an enormous integer"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
