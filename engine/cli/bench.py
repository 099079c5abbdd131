"""`itrstress bench`: what a search costs here, and what its peers need for the same work."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber
from engine.errors import InputError
from indexes.validate import LARGEST_DIM

if TYPE_CHECKING:
    from engine.outputs.file import OutputFile

Command = TypeVar("Command", bound=Callable[..., Any])

SEARCHES = (
    "product_bfloat16",
    "product_float32",
    "itrstress",
    "itrstress_counts",
    "itrstress_torch_bfloat16",
    "itrstress_torch_float32",
    "itrstress_numpy",
    "itrstress_faiss",
)
PEERS = (
    "product_bfloat16",
    "itrstress",
    "faiss_as_shipped",
    "faiss_tuned",
    "faiss_gpu",
    "torch",
    "numpy",
    "usearch",
    "faiss_hnsw",
    "faiss_ivf",
    "hnswlib",
    "clip_benchmark",
)
SMALLEST = 1
MOST_ROWS = 10**9  # queries and images too: what they take is then a number of bytes that numpy can ask for
MOST_REPEATS = 10_000


def output_options(function: Command) -> Command:
    """`--repeat`, `--json`, `--force`."""
    for option in (
        click.option("--force", is_flag=True, help="Overwrite the files of --json."),
        click.option(
            "--json",
            "file",
            type=PATH,
            help="Write the measurements here; a Markdown table and pictures (PNG, SVG) beside it.",
        ),
        click.option(
            "--repeat",
            type=WholeNumber(SMALLEST, MOST_REPEATS),
            default=5,
            show_default=True,
            help="Runs of each contestant.",
        ),
    ):
        function = option(function)
    return function


def size_options(function: Command) -> Command:
    """`--queries`, `--rows`, `--dim`, `--k`."""
    rows_or_queries = WholeNumber(SMALLEST, MOST_ROWS)
    for option in (
        click.option(
            "--k", type=rows_or_queries, default=10, show_default=True, help="Rows to list for a query."
        ),
        click.option(
            "--dim",
            type=WholeNumber(SMALLEST, LARGEST_DIM),
            default=512,
            show_default=True,
            help="Length of a vector.",
        ),
        click.option("--rows", type=rows_or_queries, default=50_000, show_default=True, help="Gallery size."),
        click.option(
            "--queries", type=rows_or_queries, default=5_000, show_default=True, help="Number of queries."
        ),
    ):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Measure search: backends, peers, the whole RoCOCO job.

    Vectors are made up. Every contestant runs in a process of its own and they take turns; times mean
    something on a quiet machine only, so the machine's load is kept beside them.
    """


@command.command()
@size_options
@output_options
def search(queries: int, rows: int, dim: int, k: int, repeat: int, file: Path | None, force: bool) -> None:
    """Our backends against the matrix product alone; single queries and batch sizes too."""
    names = [name for name in SEARCHES if _runs_here(name)]
    curves = [name for name in names if name.startswith("itrstress") and name != "itrstress_counts"]
    _contest("search", names, (queries, rows, dim, k), repeat, file, force, curves)


@command.command()
@click.option(
    "--peer",
    "chosen",
    multiple=True,
    type=click.Choice(PEERS),
    help="Only these (repeat the option); default: all that are installed.",
)
@size_options
@output_options
def peers(
    chosen: tuple[str, ...],
    queries: int,
    rows: int,
    dim: int,
    k: int,
    repeat: int,
    file: Path | None,
    force: bool,
) -> None:
    """The same work by FAISS, torch, numpy, usearch, hnswlib, clip-benchmark.

    Peers that are not installed are left out, and named; `pip install "itrstress[bench]"` has them.
    """
    names = [name for name in chosen or PEERS if _installed(name, required=bool(chosen)) and _runs_here(name)]
    curves = [name for name in names if name in ("itrstress", "faiss_tuned", "torch", "numpy", "usearch")]
    _contest("peers", names, (queries, rows, dim, k), repeat, file, force, curves)


@command.command()
@click.option("--images", type=WholeNumber(10, MOST_ROWS), default=5_000, show_default=True, help="Images.")
@click.option(
    "--dim", type=WholeNumber(SMALLEST, LARGEST_DIM), default=512, show_default=True, help="Vector length."
)
@output_options
def sweep(images: int, dim: int, repeat: int, file: Path | None, force: bool) -> None:
    """All RoCOCO variants of one model, against an index over originals and fakes for each of them."""
    from bench import rococo_sweep
    from bench.machine import describe_machine

    at = _places(file, force)
    machine = describe_machine()
    records = rococo_sweep.run(images, dim, repeat)
    _report(
        "sweep", {"images": images, "dim": dim, "k": rococo_sweep.K, "repeat": repeat}, machine, records, at
    )


def _contest(
    what: str,
    names: Sequence[str],
    size: tuple[int, int, int, int],
    repeat: int,
    file: Path | None,
    force: bool,
    curves: Sequence[str],
) -> None:
    """Measure, print, write."""
    from bench.arena import Failed, Task, measure
    from bench.machine import describe_machine

    task = Task(*size)
    if task.k > task.rows:
        raise InputError(f"--k is {task.k}, expected at most --rows {task.rows}; list fewer or add rows")
    at = _places(file, force)
    machine = describe_machine()
    try:
        records = measure(task, names, repeat, curves=curves)
    except Failed as error:
        raise click.ClickException(str(error)) from error
    _report(what, {**vars(task), "repeat": repeat}, machine, records, at)


def _report(
    what: str,
    task: dict[str, int],
    machine: object,
    records: Sequence[Any],
    at: Mapping[str, OutputFile] | None,
) -> None:
    from bench.report import document, markdown, write_all

    found = document(what, task, machine, records)
    click.echo(markdown(found), nl=False)
    for written in write_all(at, found) if at else ():
        click.echo(f"wrote {written}", err=True)
    if at and importlib.util.find_spec("matplotlib") is None:
        click.echo('no pictures: matplotlib is not installed; pip install "itrstress[bench]"', err=True)


def _places(file: Path | None, force: bool) -> Mapping[str, OutputFile] | None:
    from bench.report import places

    if file is None:
        return None
    if file.suffix != ".json":
        raise InputError(f"--json {file}: expected a name that ends in .json, such as results.json")
    return places(file, force=force)


def _installed(name: str, *, required: bool) -> bool:
    """Whether a contestant's package is there; when it is not and was asked for, that is an error."""
    from importlib.metadata import PackageNotFoundError, version

    from bench.contestants import CONTESTANTS

    package = CONTESTANTS[name].package
    try:
        return package is None or bool(version(package))
    except PackageNotFoundError:
        if required:
            raise InputError(
                f'--peer {name}: {package} is not installed; pip install "itrstress[bench]"'
            ) from None
        click.echo(
            f'{name} is left out: {package} is not installed; pip install "itrstress[bench]"', err=True
        )
        return False


def _runs_here(name: str) -> bool:
    """Whether this machine has the instructions, or the GPU, that a contestant is about."""
    if name == "faiss_gpu":
        from indexes.faiss_backend import probe_gpu

        return probe_gpu().usable
    if "bfloat16" in name:
        import torch

        from indexes.devices import gpu_trouble
        from indexes.probe import candidates

        return gpu_trouble() is None or "bfloat16" in candidates(torch.device("cpu"))
    return True
