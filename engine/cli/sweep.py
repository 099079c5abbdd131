"""`itrstress sweep`: run checkpoints x variants x directions from a YAML file."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH

if TYPE_CHECKING:
    from engine.evaluate.results import Results


@click.command("sweep")
@click.argument("run_file", type=PATH, metavar="RUN.yaml")
@click.option("--force", is_flag=True, help="Replace stores and results that are of something else.")
@click.option(
    "--check",
    is_flag=True,
    help="Open every encoder and read every image again, also where no file has changed.",
)
@click.option("--intervals", is_flag=True, help="Show the 95% intervals in the table, however narrow.")
@click.pass_context
def command(ctx: click.Context, run_file: Path, force: bool, check: bool, intervals: bool) -> None:
    """Embed what is missing, evaluate what is not finished, and print all checkpoints side by side.

    Finished runs are not repeated; a sweep that was interrupted or killed goes on where it was. Where no
    file of weights, images or variants has changed (size and times), a complete store is taken as it is. A
    checkpoint that fails does not stop the others; it is named at the end, with exit code 1.

    \b
    RUN.yaml, paths relative to it:
      checkpoints: ["open_clip:ViT-B-32:openai", {model: "open_clip:local-dir:last", name: last}]
      corpus: {path: dataset_coco.json, images: val2014}
      variants: ["mix:0.9:seed=1"]
      directions: [i2t, t2i]
      stores: stores
      out: results
    """
    from engine.evaluate.run_file import load_run_file
    from engine.evaluate.sweep import SweepError, run_sweep
    from engine.report.console import ConsoleProgress

    sweep = load_run_file(run_file)
    try:
        results = run_sweep(
            sweep, progress=ConsoleProgress(), force=force, check=check, command=command_line(ctx)
        )
    except SweepError as error:
        show(error.results, intervals)
        if ctx.find_root().params.get("debug"):
            for failure in list(error.failures.values())[:-1]:  # the last one is the cause of the error
                traceback.print_exception(failure)
        raise
    show(results, intervals)
    click.echo(f"written: {sweep.out}")


def show(results: list[Results], intervals: bool) -> None:
    """Print the table of all checkpoints, if there is any."""
    from engine.report.console import table_console
    from engine.report.table import checkpoints_table

    if results:
        table_console().print(checkpoints_table(results, intervals=intervals))
