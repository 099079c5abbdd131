"""Paths, and other words of the command line, as text that every file format takes."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any


def path_text(path: str | PurePath) -> str:
    """`path` as valid Unicode; bytes of a file name that are no UTF-8 are written as escapes, ``\\xff``.

    Python keeps such bytes as halves of surrogate pairs, which JSON, HDF5 and Parquet refuse. In the plain C
    locale every byte above 127 is kept so; what is UTF-8 among them is read as UTF-8.
    """
    text = str(path)
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a pair that no file name made, as in "\\ud800" of a YAML file
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def storable(value: Any) -> Any:
    """A JSON-ready value with every text in it, keys included, as `path_text` gives it."""
    if isinstance(value, str):
        return path_text(value)
    if isinstance(value, dict):
        return {path_text(key): storable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(one) for one in value]
    return value
