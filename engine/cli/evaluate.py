"""`itrstress evaluate`: search a store's galleries and say what every variant costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH, named_files
from engine.cli.rerank_options import RerankOptions, rerank_options
from engine.errors import InputError, unknown_name
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, DEFAULT_SEED, MOST_RESAMPLES, Resampling
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
    "--resamples",
    type=click.IntRange(0, MOST_RESAMPLES),
    default=DEFAULT_RESAMPLES,
    show_default=True,
    metavar="N",
    help="Bootstrap resamples of whole images for the 95% intervals; 0: none.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=DEFAULT_SEED, show_default=True, help="Of the resamples."
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
    from engine.evaluate.distractors import DistractorChoice
    from engine.evaluate.extra_positives import read_positives
    from engine.evaluate.indexed import Against
    from engine.evaluate.ranked_metrics import RankedMetrics
    from engine.evaluate.results import DIRECTIONS, RESULTS_FILE, write_results
    from engine.evaluate.run import evaluate_store
    from engine.evaluate.sets import canonical_name
    from engine.outputs.atomic import output_folder
    from engine.report.console import ConsoleProgress, table_console
    from engine.report.table import results_table, timings_line
    from engine.store.distractors import parse_sizes
    from engine.store.fixed_index import open_index
    from engine.store.reader import open_store
    from indexes.memory import MemoryLimit, parse_bytes

    if direction not in (*DIRECTIONS, BOTH):
        raise unknown_name("direction", direction, (*DIRECTIONS, BOTH))
    if relevance is not None and not ranked:
        raise InputError("--relevance belongs to --ranked; add it or leave it out")
    if allow_space_mismatch and index_folder is None:
        raise InputError("--allow-space-mismatch belongs to --index; add it or leave it out")
    extra = None if positives is None else read_positives(positives)
    choice = DistractorChoice(parse_sizes("--distractors", distractors), distractor_set)
    if distractor_set is not None and not choice.positive:
        raise InputError(
            "--distractor-set belongs to --distractors; say how many, such as --distractors 0,10k"
        )
    limit = None if memory_limit is None else MemoryLimit(parse_bytes(memory_limit))
    options = RerankOptions(**second)
    options.check()
    with ExitStack() as stack:
        store = stack.enter_context(open_store(store_file))
        other = None if relevance is None else stack.enter_context(open_store(relevance))
        against = None
        if index_folder is not None:
            against = Against(stack.enter_context(open_index(index_folder)), allow_space_mismatch)
        held = [store] if against is None else [store, against.index.gallery]
        folder = None
        if out is not None:
            inputs = named_files(ctx, "--out")
            folder = stack.enter_context(output_folder(out, RESULTS_FILE, force=force, inputs=inputs))
        rerank = stack.enter_context(options.open(store, limit))
        results = evaluate_store(
            store,
            [canonical_name(spec, *held) for spec in variants] or None,
            [one for one in DIRECTIONS if direction in (one, BOTH)],
            ties,
            backend,
            progress=ConsoleProgress(),
            outcomes=folder,
            command=command_line(ctx),
            resampling=Resampling(resamples, seed),
            ranked=RankedMetrics(other) if ranked else None,
            positives=extra,
            distractors=choice,
            limit=limit,
            rerank=rerank,
            against=against,
        )
        if folder is not None:
            write_results(results, folder / RESULTS_FILE)
    table_console().print(results_table(results, intervals=intervals))
    click.echo(timings_line(results))
    if rerank is not None:
        click.echo(rerank.line())
    click.echo(
        "nothing written; --out DIR keeps results and per-query outcomes"
        if out is None
        else f"written: {out}"
    )
