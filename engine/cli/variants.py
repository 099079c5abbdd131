"""`itrstress variants`: which perturbations there are, from their own docstrings; making them."""

from __future__ import annotations

import click

from engine.cli import variants_audit, variants_make, variants_preview

WIDTH = 80


@click.group("variants")
def command() -> None:
    """List the perturbations, write them to files, look at them and judge them."""


command.add_command(variants_make.command)
command.add_command(variants_preview.command)
command.add_command(variants_audit.command)


@command.command("list")
@click.option("--long", "show_all", is_flag=True, help="Show what each one does, in full.")
def list_variants(show_all: bool) -> None:
    """List every family of variants and how its spec is written."""
    from engine.variants.registry import variant_families

    for member in variant_families().values():
        click.secho(member.usage, bold=True)
        if show_all:
            click.echo("\n".join(f"    {line}" if line else "" for line in member.doc.splitlines()) + "\n")
        else:
            click.echo(
                click.wrap_text(member.summary, width=WIDTH, initial_indent="    ", subsequent_indent="    ")
            )
