"""Ids beside a file of rows, as JSON Lines: ``{"row": 0, "id": "..."}``, a line a row, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.errors import InputError
from engine.inputs import check_regular_file

LONGEST_LINE = 4096  # bytes


def sidecar_of(file: Path) -> Path:
    """The file of the ids beside a file of rows."""
    return file.with_name(f"{file.name}.ids.jsonl")


def ids_text(ids: Sequence[str]) -> bytes:
    """The file of these ids, UTF-8."""
    return "".join(
        json.dumps({"row": row, "id": one}, ensure_ascii=False) + "\n" for row, one in enumerate(ids)
    ).encode()


def read_ids(file: Path, rows: int, whose: Path) -> list[str]:
    """The ids of a file of `rows` rows. Raises `InputError` (file, line) when they are not as many, when one
    stands twice, or when a line is not as described above; ``row`` may be left out, ids may be numbers."""
    size = check_regular_file(file, "a .jsonl file of ids").st_size
    if size > (rows + 1) * LONGEST_LINE:
        raise InputError(f"{file}: {size:,} bytes are no ids of the {rows:,} rows of {whose}")
    seen: dict[str, int] = {}
    for row, one in enumerate(read_lines(file)):
        if one in seen:
            raise InputError(f"{file}: lines {seen[one] + 1} and {row + 1} have the same id {one!r}")
        seen[one] = row
    if len(seen) != rows:
        raise InputError(f"{file}: {len(seen):,} ids, {whose} has {rows:,} rows; expected a line a row")
    return list(seen)


def read_lines(file: Path) -> Iterator[str]:
    """The id of every line."""
    try:
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # ids may hold other breaks
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text (byte {error.start}); expected JSON Lines") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    for row, line in enumerate(lines):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            told = None
        found = told.get("id") if isinstance(told, dict) else None
        if not isinstance(found, str | int) or isinstance(found, bool):
            raise InputError(f'{file} line {row + 1}: expected {{"row": {row}, "id": "..."}}, a line a row')
        if told.get("row", row) != row:
            raise InputError(
                f"{file} line {row + 1}: is of row {told['row']!r}, expected {row}; sort the lines"
            )
        yield str(found)
