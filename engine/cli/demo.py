"""`itrstress demo`: a small corpus, three checkpoints along one training, seven attacks, and the verdict."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.evaluate.results import Results, Run
    from engine.progress import Progress

VARIANTS = ("same_concept", "diff_concept", "rand_voca", "mix:0.9", "mix:0.8", "patch:0.9", "patch:0.8")
RUN_FILE = "run.yaml"
REPORT = "report.html"
MOST_IMAGES = 1_000_000
CORPUS = Path("corpus") / "captions.json"


@click.command("demo")
@click.option(
    "--out",
    type=PATH,
    default=Path("itrstress-demo"),
    show_default=True,
    help="Folder for corpus, stores, run file and results; an interrupted demo goes on there.",
)
@click.option(
    "--images",
    type=WholeNumber(2, MOST_IMAGES),
    default=1000,
    show_default=True,
    help="Scenes of the test corpus.",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of scenes and attacks.")
@click.pass_context
def command(ctx: click.Context, out: Path, images: int, seed: int) -> None:
    """Render a small corpus, attack three trained checkpoints, print the verdict, write the report.

    The corpus is drawn here (scenes of everyday objects, five captions each), the checkpoints are small
    open_clip models from one training run on other scenes. Captions with one word replaced, and images mixed
    or patched, are put into the gallery. No network, no GPU, no data of yours.
    """
    from engine.report.console import ConsoleProgress, table_console
    from engine.report.table import checkpoints_table
    from engine.sweeps.run_file.load import load_run_file
    from engine.sweeps.sweep import run_sweep

    started = time.monotonic()
    run_file = prepare(out, images, seed)
    progress = ConsoleProgress()
    draw_corpus(out, images, seed, progress)
    results = run_sweep(load_run_file(run_file), progress=progress, command=command_line(ctx))
    console = table_console()
    console.print()
    console.print(checkpoints_table(results))
    console.print()
    for line in verdict(results):
        console.print(line, highlight=False, markup=False)
    report = write_report(out, progress)
    console.print()
    console.print(next_steps(out, results), highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{time.monotonic() - started:.0f} s in all. Open the report in a browser:", highlight=False
    )
    console.print(str(report.resolve()), highlight=False, markup=False, soft_wrap=True)


def run_document(images: int, seed: int) -> dict[str, Any]:
    """The run file of the demo, as plain values; paths are relative to the demo's folder."""
    from engine.demo import checkpoints

    return {
        "checkpoints": [
            {"model": f"open_clip:local-dir:{folder}", "name": folder.name} for folder in checkpoints()
        ],
        "corpus": {"path": CORPUS.as_posix(), "images": CORPUS.parent.as_posix()},
        "variants": list(VARIANTS),
        "directions": ["i2t", "t2i"],
        "seed": seed,
        "stores": "stores",
        "out": "results",
    }


def prepare(out: Path, images: int, seed: int) -> Path:
    """Make the folder and its run file; the path of the latter.

    Raises `InputError` for a folder that holds something else, or a demo with other options.
    """
    import yaml

    from engine.inputs import check_regular_file
    from engine.outputs.own import write_own
    from engine.outputs.place import check_output_folder

    check_output_folder(out, "--out")
    file = out / RUN_FILE
    text = (
        f"# The demo with --images {images} --seed {seed}, as a run file of `itrstress sweep`.\n"
        f"{yaml.safe_dump(run_document(images, seed), sort_keys=False)}"
    )
    if file.exists():
        check_regular_file(file, "the run file of a demo")
        if file.read_bytes() != text.encode():
            raise InputError(
                f"{file}: of a demo with other options; remove the folder {out} or name another --out"
            )
        return file
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: exists and is no demo's folder; remove it or name another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_own(file, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return file


def draw_corpus(out: Path, images: int, seed: int, progress: Progress) -> None:
    """Render the test scenes, unless they are there already."""
    from engine.demo import write_corpus

    if (out / CORPUS).exists():
        return
    with progress.task("drawing", images, "images") as advance:
        write_corpus(out / CORPUS.parent, images=images, seed=seed, advance=advance)


def write_report(out: Path, progress: Progress) -> Path:
    """Write the page of everything that lies in the folder; its path."""
    from engine.evaluate.collection import collect_runs
    from engine.outputs.own import write_own
    from engine.report.html.page import Page
    from engine.report.html.render import render
    from engine.report.html.sources import Sources

    found = collect_runs([out / "results"])
    with Sources.find(found, (), None) as sources:
        data = render(Page.of(found, sources, progress=progress))
    file = out / REPORT
    write_own(file, lambda temporary: temporary.write_bytes(data))
    return file


def verdict(results: list[Results]) -> list[str]:
    """What the last checkpoint's numbers say, a sentence a direction."""
    last = results[-1]
    lines = []
    for direction, asks in (("i2t", "images ask for captions"), ("t2i", "captions ask for images")):
        runs = [run for run in last.runs if run.direction == direction and run.base is not None]
        if runs:
            worst = max(runs, key=lambda run: run.metrics["drop_rate"] or 0.0)
            lines.append(f"{last.provenance.checkpoint}, {asks}: {sentence(worst)}")
    return lines


def sentence(run: Run) -> str:
    """What one variant does to a checkpoint."""
    base = run.base or {}
    drop = run.metrics["drop_rate"]
    lost = "nothing to lose" if drop is None else f"{drop:.0f}% of it lost"
    return (
        f"{run.variant} hurts most: R@1 {base['recall@1']:.1f} -> {run.metrics['recall@1']:.1f} ({lost}), "
        f"the fake comes first for {run.metrics['incorrect_recall@1']:.1f}% of the queries."
    )


def next_steps(out: Path, results: list[Results]) -> str:
    """What lies in the folder, and the commands to try next."""
    store = out / "stores" / f"{results[-1].provenance.checkpoint}.h5"
    folder, store_name = shlex.quote(str(out)), shlex.quote(str(store))
    return "\n".join(
        (
            f"In {folder}: corpus/ (images and captions), stores/ (embeddings), results/ (a JSON and a"
            f" Parquet file a run), {RUN_FILE}, {REPORT}.",
            "Try next:",
            f"  itrstress evaluate {store_name} --ties pessimistic   # one checkpoint, all columns",
            f"  itrstress corpus inspect {shlex.quote(str(out / CORPUS))}",
            f"  itrstress store inspect {store_name}",
            "  itrstress variants list --long                       # every attack, and its parameters",
            f"  itrstress sweep {shlex.quote(str(out / RUN_FILE))}   # put your own checkpoints in a copy",
        )
    )
