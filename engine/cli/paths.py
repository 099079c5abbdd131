"""Paths on the command line: their type, and which files the arguments of a command name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

_SEPARATOR = re.compile(r"[:=+,]")


class GivenPath(click.Path):
    """A path, given as such: an empty one is an error, not the working folder."""

    def convert(  # noqa: D102
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if not os.fspath(value):
            self.fail("the path is empty; name a file or a folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = GivenPath(path_type=Path)


def named_files(ctx: click.Context, but: str) -> Iterator[Path]:
    """The paths that the arguments and options of a command name, but for the option `but`; there or not.

    In specs, such as ``rococo:FILE`` or ``SPEC=FILE``, it is every span between their separators: it costs
    nothing when a span is no path.
    """
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if but in parameter.opts:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Path):
                yield one
            elif isinstance(one, str):
                yield from spans(one)


def spans(spec: str) -> Iterator[Path]:
    """Every span of a spec from one separator to another."""
    found = list(_SEPARATOR.finditer(spec))
    starts = [0, *(one.end() for one in found)]
    ends = [*(one.start() for one in found), len(spec)]
    for number, start in enumerate(starts):
        yield from (Path(spec[start:end]) for end in ends[number:] if end > start)
