"""Where a report goes: the terminal, or a file that is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.paths import named_files

if TYPE_CHECKING:
    from engine.evaluate.collection import FoundRun
    from engine.outputs.file import OutputFile
    from engine.report.grid import Report


def output_file(
    out: Path | None, *, force: bool, option: str = "--out", inputs: Iterable[Path] = ()
) -> OutputFile | None:
    """The place that an option of the running command names; None when it was not given.

    Raises `InputError` as `OutputFile.at`; what the command reads are the `inputs` and the files that its
    arguments name.
    """
    from engine.outputs.file import OutputFile

    if out is None:
        return None
    read = [*named_files(click.get_current_context(), option), *inputs]
    return OutputFile.at(out, option, force=force, inputs=read)


def files_of(found: Sequence[FoundRun]) -> Iterator[Path]:
    """The files that hold these runs, and those of their outcomes."""
    for one in found:
        yield one.file
        if one.run.outcomes is not None:
            yield one.file.parent / one.run.outcomes


def deliver(report: Report, format_name: str, out: OutputFile | None) -> None:
    """Print a report in a format, or write it to a file. Raises `InputError` when it cannot be written."""
    from engine.report.console import table_console
    from engine.report.grid import DEFAULT_FORMAT, FORMATS, print_report

    if out is not None:
        write_file(out, FORMATS[format_name].write(report))
    elif format_name == DEFAULT_FORMAT:
        print_report(report, table_console())
    else:
        click.echo(FORMATS[format_name].write(report).decode(), nl=False)


def write_file(out: OutputFile, data: bytes) -> None:
    """Write a file and say so. Raises `InputError` when it cannot be written."""
    out.write(data)
    click.echo(f"written: {out.path}", err=out.is_stream)
