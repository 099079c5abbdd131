"""`itrstress evaluate`: search a store's galleries and say what every variant costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH, named_files
from engine.cli.rerank_options import rerank_options
from engine.cli.whole_number import WholeNumber
from engine.errors import unknown_name
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, DEFAULT_SEED, MOST_RESAMPLES
from engine.evaluate.ties import DEFAULT_POLICY, POLICIES
from indexes.registry import BACKENDS

BOTH = "both"


@click.command("evaluate")
@click.argument("store_file", type=PATH, metavar="STORE.h5")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="A variant in the store: its name, a spec such as mix:0.9, or file:PATH; repeatable. Default: all.",
)
@click.option("--direction", default=BOTH, show_default=True, metavar="NAME", help="i2t, t2i or both.")
@click.option(
    "--ties",
    default=DEFAULT_POLICY,
    show_default=True,
    metavar="POLICY",
    help=f"What a query with tied rows is worth: {', '.join(POLICIES)}.",
)
@click.option(
    "--backend",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(BACKENDS)}; the results are the same.",
)
@click.option(
    "--distractors",
    default="0",
    metavar="N,...",
    help="Numbers of distractors, ascending, such as 0,10k,100k,1M; every run is repeated at each.",
)
@click.option(
    "--distractor-set",
    metavar="NAME",
    help="The set they are taken from (`itrstress distractors list`). Default: the only one there is.",
)
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Bound on the resident memory, libraries included, such as 1.5GiB. What is larger is streamed; "
    "--backend numpy loads the least. Default: none.",
)
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Folder for results.json and the per-query Parquet files.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="What the checkpoint is called in tables and results. Default: the encoder's spec.",
)
@click.option(
    "--resamples",
    type=WholeNumber(0, MOST_RESAMPLES),
    default=DEFAULT_RESAMPLES,
    show_default=True,
    metavar="N",
    help="Bootstrap resamples of whole images for the 95% intervals; 0: none.",
)
@click.option(
    "--seed", type=WholeNumber(0), default=DEFAULT_SEED, show_default=True, help="Of the resamples."
)
@click.option("--ranked", is_flag=True, help="Add set recall and DCG@10; one more search a run.")
@click.option(
    "--relevance",
    type=PATH,
    metavar="OTHER.h5",
    help="With --ranked: the store whose cosines are DCG's relevance. Default: STORE.h5 itself.",
)
@click.option(
    "--index",
    "index_folder",
    type=PATH,
    metavar="DIR",
    help="Search the galleries of this fixed index (`itrstress index build`) in place of those of STORE.h5.",
)
@click.option(
    "--allow-space-mismatch",
    is_flag=True,
    help="With --index: search although queries and index are declared of different spaces; results say so.",
)
@rerank_options
@click.option(
    "--positives",
    type=PATH,
    metavar="FILE",
    help='JSON of further positives, {"i2t": {image: [captions]}, "t2i": ...}: adds mAP@R and R-Precision.',
)
@click.option("--intervals", is_flag=True, help="Show the 95% intervals in the table, however narrow.")
@click.option("--force", is_flag=True, help="Replace the results that DIR holds.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    store_file: Path,
    variants: tuple[str, ...],
    direction: str,
    ties: str,
    backend: str,
    distractors: str,
    distractor_set: str | None,
    memory_limit: str | None,
    out: Path | None,
    name: str | None,
    resamples: int,
    seed: int,
    ranked: bool,
    relevance: Path | None,
    positives: Path | None,
    index_folder: Path | None,
    allow_space_mismatch: bool,
    intervals: bool,
    force: bool,
    **second: Any,
) -> None:
    """Search the galleries of STORE.h5, without and with every variant, and print what each one costs.

    The originals are searched once a direction, a variant only in its own shard, distractors once for all
    their numbers.
    """
    from engine.evaluate.job import Job, SecondStage
    from engine.evaluate.results import DIRECTIONS
    from engine.report.console import ConsoleProgress, table_console
    from engine.report.table import results_table, timings_line
    from engine.store.distractors import parse_sizes

    if direction not in (*DIRECTIONS, BOTH):
        raise unknown_name("direction", direction, (*DIRECTIONS, BOTH))
    job = Job(
        store_file,
        variants=variants or None,
        directions=[one for one in DIRECTIONS if direction in (one, BOTH)],
        ties=ties,
        backend=backend,
        distractors=parse_sizes("--distractors", distractors),
        distractor_set=distractor_set,
        memory_limit=memory_limit,
        out=out,
        name=name,
        resamples=resamples,
        seed=seed,
        ranked=ranked,
        relevance=relevance,
        positives=positives,
        index=index_folder,
        allow_space_mismatch=allow_space_mismatch,
        second=SecondStage(**second),
        force=force,
    )
    results, reranked = job.run(ConsoleProgress(), command_line(ctx), named_files(ctx, "--out"))
    table_console().print(results_table(results, intervals=intervals))
    click.echo(timings_line(results))
    if reranked is not None:
        click.echo(reranked)
    click.echo(
        "nothing written; --out DIR keeps results and per-query outcomes"
        if out is None
        else f"written: {out}"
    )
