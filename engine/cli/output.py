"""Where a report goes: the terminal, or a file that is there whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.errors import InputError

if TYPE_CHECKING:
    from engine.report.grid import Report


def deliver(report: Report, format_name: str, out: Path | None, *, force: bool) -> None:
    """Print a report in a format, or write it to a file. Raises `InputError` for a file that is there."""
    from engine.report.console import table_console
    from engine.report.grid import DEFAULT_FORMAT, FORMATS, print_report

    if out is not None:
        write_file(out, FORMATS[format_name].write(report), force=force)
    elif format_name == DEFAULT_FORMAT:
        print_report(report, table_console())
    else:
        click.echo(FORMATS[format_name].write(report).decode(), nl=False)


def write_file(out: Path, data: bytes, *, force: bool) -> None:
    """Write a file and say so. Raises `InputError` when it is there and `force` is not given."""
    from engine.outputs.atomic import write_atomically

    if out.is_dir() or (out.exists() and not force):
        what = "a folder" if out.is_dir() else "there already"
        raise InputError(
            f"--out {out}: {what}; name another file{'' if out.is_dir() else ', or --force replaces it'}"
        )
    write_atomically(out, lambda temporary: temporary.write_bytes(data))
    click.echo(f"written: {out}")
