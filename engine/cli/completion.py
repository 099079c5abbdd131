"""`itrstress completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; for bash: `eval "$(itrstress completion bash)"`."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    completion = completion_class(ctx.find_root().command, {}, "itrstress", "_ITRSTRESS_COMPLETE")
    click.echo(completion.source())
