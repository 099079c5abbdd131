"""Paths, and other words of the command line, as text that every file format takes."""

from __future__ import annotations

from pathlib import PurePath


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
