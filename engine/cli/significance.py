"""`itrstress significance`: which differences of checkpoints are real."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber


@click.command("significance")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option(
    "--metric",
    "names",
    multiple=True,
    metavar="NAME",
    help="A metric; repeatable. Default: recall@1, drop_rate and incorrect_recall@1.",
)
@click.option("--reference", metavar="CHECKPOINT", help="Compare the others with it. Default: every pair.")
@click.option("--resamples", type=WholeNumber(0), default=1000, show_default=True, metavar="N")
@click.option(
    "--flips",
    type=WholeNumber(1),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Sign flips of the randomisation test; the smallest p-value is about 1 / N.",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True)
@click.option("--format", "format_name", metavar="NAME", help="table, markdown, csv, json, latex or parquet.")
@click.option("--out", type=PATH, metavar="FILE", help="Write there instead.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def command(
    paths: tuple[Path, ...],
    names: tuple[str, ...],
    reference: str | None,
    resamples: int,
    flips: int,
    seed: int,
    format_name: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Compare checkpoints on the same queries, from the per-query outcomes in results folders.

    Intervals and tests treat an image with all its captions as one unit; p-values are corrected by Holm's
    method over all rows.
    """
    from engine.cli.output import deliver, files_of, output_file
    from engine.evaluate.bootstrap import Resampling
    from engine.evaluate.collection import collect_runs
    from engine.report.console import ConsoleProgress
    from engine.report.differences import Differences
    from engine.report.grid import choose_format

    name = choose_format(format_name, out)
    found = collect_runs(paths)
    place = output_file(out, force=force, inputs=files_of(found))
    report = Differences.of(
        found,
        names,
        reference,
        Resampling(resamples, seed),
        flips,
        ConsoleProgress(),
    )
    deliver(report, name, place)
