"""`itrstress variants`: which perturbations there are, from their own docstrings; making them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from engine.cli import variants_audit, variants_make, variants_preview

if TYPE_CHECKING:
    from engine.variants.variant import Modality, Side

ACTS_ON: Mapping[tuple[Side, Modality] | None, str] = {
    ("gallery", "captions"): "captions beside the originals: the gallery of i2t",
    ("gallery", "images"): "images beside the originals: the gallery of t2i",
    ("query", "captions"): "captions in place of the originals: the queries of t2i",
    ("query", "images"): "images in place of the originals: the queries of i2t",
    None: "any of them, as the file says",
}


@click.group("variants")
def command() -> None:
    """List the perturbations, write them to files, look at them and judge them."""


command.add_command(variants_make.command)
command.add_command(variants_preview.command)
command.add_command(variants_audit.command)


@command.command("list")
@click.option("--long", "show_all", is_flag=True, help="Show what each one does, in full.")
def list_variants(show_all: bool) -> None:
    """List every family of variants, by what it acts on, and how its spec is written."""
    from engine.report.console import table_console
    from engine.variants.registry import variant_families

    width = table_console().width
    families = variant_families().values()
    for acts_on, heading in ACTS_ON.items():
        click.secho(heading, underline=True)
        for member in (one for one in families if one.acts_on == acts_on):
            click.secho(member.usage, bold=True)
            about = member.doc if show_all else member.summary
            click.echo(
                click.wrap_text(
                    about, width, initial_indent="    ", subsequent_indent="    ", preserve_paragraphs=True
                )
                + ("\n" if show_all else "")
            )
        click.echo()
