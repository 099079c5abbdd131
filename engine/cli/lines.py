"""Lines that commands print."""

from __future__ import annotations

from collections.abc import Mapping

import click


def one_line(message: object) -> str:
    """The message on one line, control characters shown as escapes."""
    text = " ".join(str(message).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def echo_line(text: str, label: str = "") -> None:
    """One line; control characters of a foreign file are shown, not obeyed."""
    click.echo(f"{label}{one_line(text)}")


def print_facts(facts: Mapping[str, str]) -> None:
    """A line a fact, but for empty ones."""
    for label, value in facts.items():
        if value:
            echo_line(value, f"{label:<11} ")
