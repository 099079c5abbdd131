"""`itrstress export`: results and rankings for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.paths import PATH
from engine.corpus.shape import shorten
from engine.errors import InputError, unknown_name
from engine.whole_numbers import parse_whole_number

BOTH = "both"
ALL = "all"
DATA_FORMATS = ("parquet", "csv", "json")


@click.group("export")
def command() -> None:
    """Write results and rankings for other programs."""


@command.command("trec")
@click.argument("store_file", type=PATH, metavar="STORE.h5")
@click.option("--out", required=True, type=PATH, metavar="DIR", help="Folder to fill.")
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Besides none; repeatable.")
@click.option("--direction", default=BOTH, show_default=True, metavar="NAME", help="i2t, t2i or both.")
@click.option("--depth", default="100", show_default=True, metavar="N", help="Rows a query, or all.")
@click.option("--by-rank", is_flag=True, help="Scores are minus the rank: tools then keep the order of ties.")
@click.option("--backend", default="auto", show_default=True, metavar="NAME")
@click.option("--force", is_flag=True, help="Replace files in DIR.")
def trec_command(
    store_file: Path,
    out: Path,
    variants: tuple[str, ...],
    direction: str,
    depth: str,
    by_rank: bool,
    backend: str,
    force: bool,
) -> None:
    """Write TREC run and qrels files, for trec_eval, ir_measures, ranx.

    Ids of queries, originals and adversarial items are three name spaces: image:, caption:, adversarial:.
    """
    from engine.evaluate.direction import DirectionSearch
    from engine.evaluate.names import run_name
    from engine.evaluate.results import DIRECTIONS
    from engine.evaluate.sets import check_variants, variant_sets
    from engine.evaluate.trec import write_trec
    from engine.outputs.atomic import output_folder
    from engine.report.console import ConsoleProgress
    from engine.store.reader import open_store

    if direction not in (*DIRECTIONS, BOTH):
        raise unknown_name("direction", direction, (*DIRECTIONS, BOTH))
    rows = parse_depth(depth)
    directions = [one for one in DIRECTIONS if direction in (one, BOTH)]
    with open_store(store_file) as store:
        check_variants(store, variants, directions)
        last = f"{run_name(None, directions[-1])}.qrels"
        with output_folder(out, last, force=force, inputs=[store_file]) as folder:
            for one in directions:
                search = DirectionSearch(store, one, backend=backend, progress=ConsoleProgress())
                known = variant_sets(store, one)
                for variant in (None, *(name for name in variants if name in known)):
                    write_trec(search, variant, folder, rows, by_rank=by_rank)
    click.echo(f"written: {out}")


def parse_depth(text: str) -> int | None:
    """A whole number from 1, or None for all. Raises `InputError` for anything else."""
    if text == ALL:
        return None
    try:
        return parse_whole_number(text, 1)
    except ValueError as error:
        raise InputError(f"--depth {shorten(repr(text))}: {error}, or {ALL}") from None


@command.command("runs")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option(
    "--out",
    required=True,
    type=PATH,
    metavar="FILE",
    help="Ending in .parquet, .csv or .json.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
def runs_command(paths: tuple[Path, ...], out: Path, force: bool) -> None:
    """Write all runs as one flat table, one row a run: pandas.read_parquet reads it as it is."""
    from engine.cli.output import deliver, files_of, output_file
    from engine.evaluate.collection import collect_runs
    from engine.report.export import RunTable
    from engine.report.grid import FORMATS

    name = next((one for one in DATA_FORMATS if FORMATS[one].ending == out.suffix), None)
    if name is None:
        endings = ", ".join(FORMATS[one].ending for one in DATA_FORMATS)
        raise InputError(f"--out {out}: ends in {out.suffix!r}, expected one of {endings}")
    found = collect_runs(paths)
    deliver(RunTable(found), name, output_file(out, force=force, inputs=files_of(found)))


@command.command("clip-benchmark")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="DIR...")
@click.option("--out", required=True, type=PATH, metavar="DIR", help="Folder to fill.")
@click.option("--force", is_flag=True, help="Replace files in DIR.")
def clip_benchmark_command(paths: tuple[Path, ...], out: Path, force: bool) -> None:
    """Write clean retrieval in the layout of CLIP_benchmark's results, a JSON file a checkpoint."""
    from engine.cli.output import files_of
    from engine.evaluate.collection import collect_runs
    from engine.outputs.atomic import output_folder
    from engine.report.export import clip_benchmark_files, write_texts

    found = collect_runs(paths)
    files = clip_benchmark_files(found)
    with output_folder(out, max(files), force=force, inputs=files_of(found)) as folder:
        write_texts(files, folder)
    click.echo(f"written: {out}")
