"""`itrstress sweep`: run checkpoints x variants x directions from a YAML file."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.evaluate.results import Results
    from engine.sweeps.sweep import Sweep


@click.command("sweep")
@click.argument("run_file", required=False, type=PATH, metavar="[RUN.yaml]")
@click.option(
    "--init",
    "init",
    is_flag=False,
    flag_value="run.yaml",
    type=PATH,
    metavar="[FILE]",
    help="Write a run file to begin with, every option explained, and stop. Default: run.yaml.",
)
@click.option(
    "--force", is_flag=True, help="Replace stores and results that are of something else; with --init, FILE."
)
@click.option(
    "--check",
    is_flag=True,
    help="Open every encoder and read every image again, also where no file has changed.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what would be embedded, searched and reused, sizes and times, and do nothing.",
)
@click.option("--intervals", is_flag=True, help="Show the 95% intervals in the table, however narrow.")
@click.pass_context
def command(
    ctx: click.Context,
    run_file: Path | None,
    init: Path | None,
    force: bool,
    check: bool,
    dry_run: bool,
    intervals: bool,
) -> None:
    """Embed what is missing, evaluate what is not finished, and print all checkpoints side by side.

    Finished runs are not repeated; a sweep that was interrupted or killed goes on where it was. Where no
    file of weights, images or variants has changed (size and times), a complete store is taken as it is;
    encoders in Python and plug-ins are opened every time. A checkpoint that fails does not stop the others;
    it is named at the end, with exit code 1, or 2 when all that failed was input.

    \b
    RUN.yaml, paths relative to it (--init writes one with every option):
      checkpoints: ["open_clip:ViT-B-32:openai", "open_clip:ViT-B-32-quickgelu:runs/*/epoch_*.pt"]
      corpus: {path: dataset_coco.json, images: val2014}
      variants: [same_concept, {name: "mix:0.9", seeds: [1, 2, 3]}]
      stores: stores
      out: results
    """
    if (run_file is None) == (init is None):
        raise InputError("name the run file to run, or --init to write one: itrstress sweep RUN.yaml")
    if run_file is None:
        write_template(init, force)
        return
    from engine.report.console import ConsoleProgress
    from engine.sweeps.run_file.load import load_run_files
    from engine.sweeps.sweep import Sweep, SweepError, run_sweeps

    progress = ConsoleProgress()
    sweeps = [
        Sweep(one, progress=progress, force=force, check=check, command=command_line(ctx))
        for one in load_run_files(run_file)
    ]
    for sweep in sweeps:
        sweep.check()
    if dry_run:
        show_plans(sweeps)
        return
    several = len(sweeps) > 1
    try:
        run_sweeps(
            sweeps,
            before=lambda sweep: click.echo(f"\n{sweep.run_file.out.name}") if several else None,
            after=lambda sweep, results: show(results, sweep.run_file.out, intervals),
        )
    except SweepError as error:
        *others, _ = error.failures.values()  # the last is the cause, which is shown with the error
        for one in others if ctx.find_root().params.get("debug") else ():
            traceback.print_exception(one)
        raise


def write_template(init: Path | None, force: bool) -> None:
    """Write the run file to begin with. Raises `InputError` for a file that is there."""
    from engine.cli.output import output_file, write_file
    from engine.sweeps.run_file.template import TEMPLATE

    place = output_file(init, force=force, option="--init")
    assert place is not None
    write_file(place, TEMPLATE.encode())


def show_plans(sweeps: Sequence[Sweep]) -> None:
    """Print what would be done."""
    from engine.report.sweep_plan import plan_lines
    from engine.sweeps.plan import plan_sweep

    for sweep in sweeps:
        if len(sweeps) > 1:
            click.echo(f"\n{sweep.run_file.out.name}")
        for line in plan_lines(plan_sweep(sweep), sweep.run_file.stores):
            click.echo(line)
    click.echo("nothing was done, this was a dry run")


def has_seeds(results: Sequence[Results]) -> bool:
    """Whether some runs differ in the seed of their variant only."""
    from engine.evaluate.collection import seedless

    runs = [
        (run.direction, run.distractors, seedless(run.variant)) for one in results[:1] for run in one.runs
    ]
    return len(set(runs)) < len(runs)


def show(results: Sequence[Results], out: Path, intervals: bool) -> None:
    """Print the table of all checkpoints, if there is any, and where the results are."""
    from engine.report.console import table_console
    from engine.report.table import checkpoints_table

    if results:
        table_console().print(checkpoints_table(results, intervals=intervals))
        click.echo(f"written: {out}")
    if has_seeds(results):
        click.echo(f"means and deviations over seeds: itrstress compare {shlex.quote(str(out))}")
