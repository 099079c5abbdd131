"""The command that a result can be repeated with."""

from __future__ import annotations

import click
from click.core import ParameterSource

from engine.path_text import path_text


def command_line(ctx: click.Context) -> list[str]:
    """The command with its arguments and the options that were given, as words, not quoted for a shell.

    Bytes that are no UTF-8 are escaped, so that every kind of result can hold the words.
    """
    words = ["itrstress", *names(ctx)]
    for parameter in ctx.command.params:
        name = parameter.name
        if name is None or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[name]
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            words += [str(one) for one in values]
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            words.append(parameter.opts[0])
        else:
            words += [word for one in values for word in (parameter.opts[0], str(one))]
    return [path_text(word) for word in words]


def names(ctx: click.Context) -> list[str]:
    """The names of the command and of the groups it is in, without that of the program."""
    return [] if ctx.parent is None else [*names(ctx.parent), str(ctx.info_name)]
