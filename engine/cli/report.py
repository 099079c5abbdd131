"""`itrstress report`: everything that results folders hold, as one file of HTML."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber

DEFAULT_OUT = Path("report.html")
MISSING_SHOWN = 5


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option(
    "--out",
    type=PATH,
    default=DEFAULT_OUT,
    show_default=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    type=PATH,
    metavar="STORE.h5",
    help="A store with the captions and variants; repeatable. Default: those that a sweep recorded.",
)
@click.option(
    "--images",
    type=PATH,
    metavar="DIR",
    help="Folder of the corpus' images. Default: the one that a sweep recorded.",
)
@click.option(
    "--bench",
    "benchmarks",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Measurements that `itrstress bench --json` wrote; repeatable.",
)
@click.option(
    "--worst",
    type=WholeNumber(0),
    default=8,
    show_default=True,
    metavar="N",
    help="Lost queries shown of every run.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
def command(
    paths: tuple[Path, ...],
    out: Path,
    stores: tuple[Path, ...],
    images: Path | None,
    benchmarks: tuple[Path, ...],
    worst: int,
    force: bool,
) -> None:
    """Write one HTML file with everything that results folders hold; it opens from disk, without a network.

    Headlines, R@1 before and after every attack with intervals, curves, all numbers, what fools the
    checkpoints, and the worst queries with their images. What is not at hand (a store, images, per-query
    outcomes) is said on the page. All results must be of one corpus and one tie policy; only the same file
    with its texts raw and normalised may stand side by side, as a control.
    """
    from engine.cli.output import files_of, output_file, write_file
    from engine.evaluate.normalisations import collect_with_control
    from engine.report.console import ConsoleProgress
    from engine.report.html.benchmark import read_benchmark
    from engine.report.html.page import Page
    from engine.report.html.render import render
    from engine.report.html.sources import Sources

    progress = ConsoleProgress()
    collected = collect_with_control(paths)
    found = collected.runs
    place = output_file(out, force=force, inputs=files_of((*found, *collected.control)))
    assert place is not None  # it has a default
    measured = [read_benchmark(path) for path in benchmarks]
    with Sources.find(found, stores, images) as sources:
        page = Page.of(
            found,
            sources,
            control=collected.control,
            benchmarks=measured,
            worst=worst,
            progress=progress,
        )
    for line in page.missing[:MISSING_SHOWN]:
        progress.note(f"missing: {line}")
    if len(page.missing) > MISSING_SHOWN:
        progress.note(f"missing: {len(page.missing) - MISSING_SHOWN} more, listed in the report")
    write_file(place, render(page))
