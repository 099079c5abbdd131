"""What a model library says is wrong, in one line of ours."""

from __future__ import annotations

MOST_CHARACTERS = 160


def first_line(error: Exception) -> str:
    """The first line of a library's message that says something, cut to `MOST_CHARACTERS`."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)[:MOST_CHARACTERS]
