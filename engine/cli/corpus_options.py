"""The options that say how a corpus file is read, shared by the commands that read one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from engine.corpus.normalise import NORMALISATIONS
from engine.corpus.read import DEFAULT_SPLIT
from engine.corpus.registry import READERS

Command = TypeVar("Command", bound=Callable[..., Any])


def reading_options(*, texts: str | None = "is done to every text first") -> Callable[[Command], Command]:
    """``--reader``, ``--split`` and, unless `texts` is None, ``--normalisation``: What `texts`."""
    options = [
        click.option(
            "--reader",
            metavar="NAME",
            help=f"Layout of the corpus file, from its content if left out: {', '.join(READERS)}.",
        ),
        click.option(
            "--split", default=DEFAULT_SPLIT, show_default=True, help="Part of a Karpathy file, or all."
        ),
    ]
    if texts is not None:
        options.append(
            click.option(
                "--normalisation",
                metavar="NAME",
                default="raw",
                show_default=True,
                help=f"What {texts}: {', '.join(NORMALISATIONS)}.",
            )
        )
    return lambda command: with_options(options, command)


def with_options(options: Sequence[Callable[[Any], Any]], command: Command) -> Command:
    """The command with the options, in their order on the help page."""
    for option in reversed(options):
        command = option(command)
    return command
