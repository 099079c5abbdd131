"""`itrstress variants`: which perturbations there are, from their own docstrings."""

from __future__ import annotations

import click


@click.group("variants")
def command() -> None:
    """List the perturbations that --variant takes."""


@command.command("list")
@click.option("--long", "show_all", is_flag=True, help="Show what each one does, in full.")
def list_variants(show_all: bool) -> None:
    """List every family of variants and how its spec is written."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from engine.variants.registry import variant_families

    console = Console()
    members = variant_families().values()
    if show_all:
        for member in members:
            console.print(f"[bold]{escape(member.usage)}[/bold]")
            click.echo("\n".join(f"    {line}" if line else "" for line in member.doc.splitlines()) + "\n")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variant", no_wrap=True)
    table.add_column("what it does")
    for member in members:
        table.add_row(escape(member.usage), member.summary)
    console.print(table)
