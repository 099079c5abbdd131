"""A sweep of many checkpoints: whether it costs what its checkpoints cost alone, and its memory.

    python -m bench.checkpoint_sweep [--checkpoints 12] [--images 5000] [--repeat 3] [--json FILE]

12 checkpoints x 12 variants x 2 directions at 5,000 images and 25,000 captions, 512 dimensions: image queries
in six galleries with adversarial captions, caption queries under six perturbations. Embeddings are made up
(`bench.made_up_models`) and in the stores before anything is measured. Then `itrstress sweep` of all
checkpoints, and of the first alone, run in turn, each a process of its own with an empty results folder. The
search time is the sum over a sweep's runs of all that is no statistics and no writing, as results say it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from bench.made_up_models import DIM, IMAGES, colour
from bench.published_size import CAPTIONS_AN_IMAGE, ITRSTRESS, timed, write_synthetic
from bench.report import add_output, output_of, write_rows
from engine.evaluate.collection import collect_runs
from engine.evaluate.run import STATISTICS, WRITE
from engine.stopwatch import TOTAL

GALLERIES = ("first", "second", "third", "fourth", "fifth", "sixth")
QUERIES = ("char_swap", "missing_char", "extra_char", "nearby_char", "distraction_true", "distraction_false")


@dataclass(frozen=True)
class Sweep:
    """One sweep: its runs, seconds of their searches and statistics, of the whole command; resident bytes."""

    runs: int
    search_seconds: float
    statistics_seconds: float
    seconds: float
    peak_rss_bytes: int


@dataclass(frozen=True)
class Measurement:
    """All checkpoints against the first alone, medians of the repeats; `ratios` are each repeat's, of the
    search time of all to that many times the first's."""

    checkpoints: int
    images: int
    captions: int
    dim: int
    runs: int
    search_seconds: float
    search_seconds_of_one: float
    ratios: tuple[float, ...]
    statistics_seconds: float
    seconds: float
    peak_rss_bytes: int


def write_images(folder: Path, images: int) -> None:
    """Pictures of one pixel, which say their numbers."""
    folder.mkdir()
    for number in range(images):
        Image.new("RGB", (1, 1), colour(number)).save(folder / f"{number}.png")


def write_run_file(folder: Path, files: Sequence[Path], checkpoints: int) -> Path:
    """A run file of so many checkpoints; all share the stores and have a results folder of their own."""
    models = [f"python:bench.made_up_models:model_{number}" for number in range(checkpoints)]
    text = {
        "checkpoints": [{"model": model, "name": f"model {number}"} for number, model in enumerate(models)],
        "corpus": {"path": str(files[0]), "images": "images"},
        "variants": [*(f"rococo:{file}" for file in files), *QUERIES],
        "batch_size": 1024,
        "stores": "stores",
        "out": f"results-{checkpoints}",
    }
    path = folder / f"run-{checkpoints}.yaml"
    path.write_text(json.dumps(text))
    return path


def measure_sweep(run_file: Path, out: Path) -> Sweep:
    """Run it with an empty results folder."""
    shutil.rmtree(out, ignore_errors=True)
    seconds, peak = timed([*ITRSTRESS, "sweep", run_file])
    found = [one.run.timings for one in collect_runs([out])]
    beside = (STATISTICS, WRITE)
    return Sweep(
        runs=len(found),
        search_seconds=sum(one[TOTAL] - sum(one.get(stage, 0.0) for stage in beside) for one in found),
        statistics_seconds=sum(one.get(STATISTICS, 0.0) for one in found),
        seconds=seconds,
        peak_rss_bytes=peak,
    )


def measure(checkpoints: int, images: int, repeat: int) -> Measurement:
    """Embed once, then sweep all and one in turn."""
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-") as name:
        folder = Path(name)
        write_images(folder / "images", images)
        files = write_synthetic(folder, GALLERIES, images, "{}.png")
        run_files = {count: write_run_file(folder, files, count) for count in (checkpoints, 1)}
        measure_sweep(run_files[checkpoints], folder / f"results-{checkpoints}")  # embeds
        found: dict[int, list[Sweep]] = {checkpoints: [], 1: []}
        for _ in range(repeat):
            for count, run_file in run_files.items():
                found[count].append(measure_sweep(run_file, folder / f"results-{count}"))
    every, single = found[checkpoints], found[1]
    return Measurement(
        checkpoints=checkpoints,
        images=images,
        captions=images * CAPTIONS_AN_IMAGE,
        dim=DIM,
        runs=every[0].runs,
        search_seconds=statistics.median(one.search_seconds for one in every),
        search_seconds_of_one=statistics.median(one.search_seconds for one in single),
        ratios=tuple(
            whole.search_seconds / (checkpoints * one.search_seconds)
            for whole, one in zip(every, single, strict=True)
        ),
        statistics_seconds=statistics.median(one.statistics_seconds for one in every),
        seconds=statistics.median(one.seconds for one in every),
        peak_rss_bytes=max(one.peak_rss_bytes for one in every),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time a sweep of many checkpoints against one of them.")
    parser.add_argument("--checkpoints", type=int, default=12)
    parser.add_argument("--images", type=int, default=IMAGES, help=f"at most {IMAGES}")
    parser.add_argument("--repeat", type=int, default=3)
    add_output(parser)
    options = parser.parse_args(arguments)
    if not (1 <= options.images <= IMAGES and options.checkpoints >= 2 and options.repeat >= 1):
        parser.error(f"expected 1 to {IMAGES} images, 2 checkpoints or more, 1 repeat or more")
    output = output_of(parser, options)
    row = measure(options.checkpoints, options.images, options.repeat)
    ratio = statistics.median(row.ratios)
    print("| checkpoints | runs | search | search of one | ratio | statistics | command | peak resident |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {row.checkpoints} | {row.runs} | {row.search_seconds:.1f} s | {row.search_seconds_of_one:.2f} s "
        f"| {ratio:.2f} ({min(row.ratios):.2f} to {max(row.ratios):.2f}) | {row.statistics_seconds:.1f} s "
        f"| {row.seconds:.1f} s | {row.peak_rss_bytes / 2**20:,.0f} MiB |"
    )
    if output:
        write_rows(output, [row])


if __name__ == "__main__":
    main()
