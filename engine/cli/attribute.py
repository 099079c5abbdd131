"""`itrstress attribute`: which words, concepts and places fool the checkpoints."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber


@click.command("attribute")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option(
    "--store",
    "store_file",
    required=True,
    type=PATH,
    metavar="STORE.h5",
    help="A store that holds the variants; any checkpoint's.",
)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Repeatable. Default: all.")
@click.option(
    "--by", "dimensions", multiple=True, metavar="NAME", help="Such as 'replaced word'; repeatable."
)
@click.option("--top", type=WholeNumber(1), default=10, show_default=True, help="Rows shown of names.")
@click.option(
    "--at-least",
    type=WholeNumber(1),
    default=5,
    show_default=True,
    metavar="N",
    help="Leave out what was tried less often.",
)
@click.option("--originals", is_flag=True, help="In data formats, a record for every original as well.")
@click.option("--format", "format_name", metavar="NAME", help="table, markdown, csv, json, latex or parquet.")
@click.option("--out", type=PATH, metavar="FILE", help="Write there instead.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def command(
    paths: tuple[Path, ...],
    store_file: Path,
    variants: tuple[str, ...],
    dimensions: tuple[str, ...],
    top: int,
    at_least: int,
    originals: bool,
    format_name: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Count what wins against originals, over all checkpoints in results folders.

    By replaced word, target word, their concepts, position and caption length, with intervals; and how many
    queries are lost to none, some or all of the checkpoints. Names are ranked by the lower bound of their
    interval, so that rare ones do not lead by chance.
    """
    from engine.cli.output import deliver, files_of, output_file
    from engine.evaluate.collection import collect_runs
    from engine.report.attribution import Attribution
    from engine.report.console import ConsoleProgress
    from engine.report.grid import choose_format
    from engine.store.reader import open_store

    name = choose_format(format_name, out)
    found = collect_runs(paths)
    place = output_file(out, force=force, inputs=files_of(found))
    with open_store(store_file) as store:
        report = Attribution.of(
            found,
            store,
            variants=variants,
            dimensions=dimensions,
            top=top,
            least=at_least,
            originals=originals,
            progress=ConsoleProgress(),
        )
    deliver(report, name, place)
