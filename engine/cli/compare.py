"""`itrstress compare`: a leaderboard over results folders, and own values beside published ones."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH
from engine.errors import InputError


@click.command("compare")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option("--sort", metavar="METRIC", help="Best first under each variant: drop_rate, recall@1, ...")
@click.option("--intervals", is_flag=True, help="Show the 95% intervals of single runs.")
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    help="table, markdown, csv, json, latex or parquet. Default: by the ending of FILE, else table.",
)
@click.option("--out", type=PATH, metavar="FILE", help="Write there instead.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option("--against", metavar="PAPER", help="rococo or brittleness: published figures side by side.")
@click.option(
    "--as",
    "models",
    multiple=True,
    metavar="CHECKPOINT=MODEL",
    help="Which published model a checkpoint is, by the beginning of its name; repeatable. Some are known by "
    "their spec.",
)
@click.option("--dataset", metavar="NAME", help="Of the paper's data sets, the one that was evaluated.")
def command(
    paths: tuple[Path, ...],
    sort: str | None,
    intervals: bool,
    format_name: str | None,
    out: Path | None,
    force: bool,
    against: str | None,
    models: tuple[str, ...],
    dataset: str | None,
) -> None:
    """Put everything that results folders hold side by side.

    Runs that differ in their seed only are averaged, their standard deviation is shown. CSV and Parquet hold
    every metric with its deviation and interval. All results must be of one corpus and one tie policy; only
    the same file with its texts raw and normalised may stand side by side, as a control.
    """
    from engine.cli.output import deliver, files_of, output_file
    from engine.evaluate.collection import collect_runs
    from engine.evaluate.normalisations import Collected, collect_with_control
    from engine.report.entries import entries_of
    from engine.report.grid import Report, choose_format
    from engine.report.leaderboard import Leaderboard
    from engine.report.published import SideBySide

    name = choose_format(format_name, out)
    if against is None and (models or dataset is not None):
        raise InputError("--as and --dataset belong to --against; add it or leave them out")
    if against is not None and (sort is not None or intervals):
        raise InputError("--sort and --intervals belong to the leaderboard; leave them out or --against")
    found = collect_with_control(paths) if against is None else Collected(collect_runs(paths))
    place = output_file(out, force=force, inputs=files_of((*found.runs, *found.control)))
    report: Report = (
        Leaderboard.of(found.runs, found.control, sort=sort, with_intervals=intervals)
        if against is None
        else SideBySide.of(entries_of(found.runs), against, dict(map(parse_model, models)), dataset)
    )
    deliver(report, name, place)


def parse_model(text: str) -> tuple[str, str]:
    """``CHECKPOINT=MODEL``. Raises `InputError` for anything else."""
    checkpoint, equals, model = text.rpartition("=")  # no model's name holds one, a checkpoint's may
    if not (checkpoint and equals and model):
        raise InputError(
            f"--as {text!r}: expected CHECKPOINT=MODEL, such as --as 'last=CLIP ViT-B/32 (zero-shot)'"
        )
    return checkpoint, model
