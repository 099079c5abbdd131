"""`itrstress export`: results and rankings for other programs."""

from __future__ import annotations

from contextlib import ExitStack
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
@click.option(
    "--index",
    "index_folder",
    type=PATH,
    metavar="DIR",
    help="Rank the galleries of this fixed index in place of those of STORE.h5, as evaluate --index does.",
)
@click.option(
    "--allow-space-mismatch",
    is_flag=True,
    help="With --index: although queries and index are of different spaces; the runs' tag says so.",
)
@click.option("--force", is_flag=True, help="Replace files in DIR.")
def trec_command(
    store_file: Path,
    out: Path,
    variants: tuple[str, ...],
    direction: str,
    depth: str,
    by_rank: bool,
    backend: str,
    index_folder: Path | None,
    allow_space_mismatch: bool,
    force: bool,
) -> None:
    """Write TREC run and qrels files, for trec_eval, ir_measures, ranx.

    Ids of queries, originals and adversarial items are three name spaces: image:, caption:, adversarial:.
    """
    from engine.evaluate.direction import DirectionSearch
    from engine.evaluate.indexed import Against
    from engine.evaluate.names import run_name
    from engine.evaluate.results import DIRECTIONS
    from engine.evaluate.sets import canonical_name, check_variants, variant_sets
    from engine.evaluate.trec import write_trec
    from engine.outputs.atomic import output_folder
    from engine.report.console import ConsoleProgress
    from engine.store.fixed_index import open_index
    from engine.store.reader import open_store

    if direction not in (*DIRECTIONS, BOTH):
        raise unknown_name("direction", direction, (*DIRECTIONS, BOTH))
    if allow_space_mismatch and index_folder is None:
        raise InputError("--allow-space-mismatch belongs to --index; add it or leave it out")
    rows = parse_depth(depth)
    directions = [one for one in DIRECTIONS if direction in (one, BOTH)]
    with ExitStack() as stack:
        store = stack.enter_context(open_store(store_file))
        against = None
        if index_folder is not None:
            against = Against(stack.enter_context(open_index(index_folder)), allow_space_mismatch)
        searched = {one: store if against is None else against.sets(store, one) for one in directions}
        held = [store] if against is None else [store, against.index.gallery]
        chosen = [canonical_name(one, *held) for one in variants]
        check_variants(store, chosen, directions, searched)
        last = f"{run_name(None, directions[-1])}.qrels"
        inputs = [store_file, *([] if index_folder is None else [index_folder])]
        folder = stack.enter_context(output_folder(out, last, force=force, inputs=inputs))
        for one, sets in searched.items():
            search = DirectionSearch(sets, one, backend=backend, progress=ConsoleProgress())
            known = variant_sets(sets, one)
            for variant in (None, *(name for name in chosen if name in known)):
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
