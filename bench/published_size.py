"""The published size: 5,000 images over 50,010 captions a variant, 25,010 captions over 10,000 images.

    python -m bench.published_size [--rococo DIR] [--repeat 3] [--json FILE]

Embeddings are random (a caption is its image's vector plus noise, everything shares a mean), imported into
a store and evaluated by the same commands a user types, each a process of its own whose wall time and peak
resident memory the operating system reports. With `--rococo` the texts are the published caption files,
without it made-up ones of the same number.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.report import add_output, output_of, write_rows
from bench.vectors import unit
from engine.corpus import read_rococo

DIM = 512
IMAGES = 5_000
CAPTIONS_AN_IMAGE = 5
PUBLISHED = ("same_concept", "diff_concept", "rand_voca")
MIX = "mix:0.9:seed=1"
ITRSTRESS = (sys.executable, "-c", "from engine.cli.main import main; main()")


@dataclass(frozen=True)
class Measurement:
    """One command run several times: wall seconds (median; lowest, highest), largest resident bytes."""

    name: str
    median_seconds: float
    spread: tuple[float, float]
    peak_rss_bytes: int


def timed(command: Sequence[str | Path]) -> tuple[float, int]:
    """Run a command to its end; (wall seconds, peak resident bytes). Raises RuntimeError when it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(map(str, command))}\n{output.read().decode(errors='replace')}")
    return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def write_synthetic(
    folder: Path,
    variants: Sequence[str] = ("first", "second", "third"),
    images: int = IMAGES,
    image_file: str = "val/{:06d}.jpg",
) -> list[Path]:
    """Made-up files in the RoCOCO layout: 5 originals and 5 adversarial captions for each image.

    The first number in a caption is its image's.
    """
    files = []
    for variant in variants:
        entries = []
        for image in range(images):
            originals = [f"A photo of thing {image} seen from side {k}." for k in range(CAPTIONS_AN_IMAGE)]
            fakes = [f"a photo of {variant} {image} seen from side {k}" for k in range(CAPTIONS_AN_IMAGE)]
            entries.append({"image": image_file.format(image), "caption": originals + fakes})
        files.append(folder / f"{variant}.json")
        files[-1].write_text(json.dumps(entries))
    return files


def write_store(files: Sequence[Path], folder: Path) -> Path:
    """Random embeddings for the files' corpus and variants, put into a store by `itrstress import`."""
    rng = np.random.default_rng(0)
    corpus, _ = read_rococo(files[0])
    mean = rng.standard_normal(DIM)
    images = rng.standard_normal((len(corpus.images), DIM))

    def near(vectors: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
        return vectors + noise * rng.standard_normal(vectors.shape)

    def save(name: str, vectors: NDArray[np.float64]) -> Path:
        np.save(folder / name, unit(vectors + mean))
        return folder / name

    captions = near(images[corpus.image_of_caption], 4.5)
    command: list[str | Path] = [*ITRSTRESS, "import", "--corpus", files[0], "--model", "random-512"]
    command += ["--images", save("images.npy", images), "--captions", save("captions.npy", captions)]
    for file in files:
        _, adversarials = read_rococo(file)
        originals = np.array([item.original for item in adversarials])
        command += ["--variant", f"rococo:{file}={save(f'{file.stem}.npy', near(captions[originals], 3.0))}"]
    command += ["--variant", f"{MIX}={save('mix.npy', near(images, 1.0))}", "--out", folder / "store.h5"]
    seconds, peak = timed(command)
    store = folder / "store.h5"
    sizes = f"{peak / 2**20:.0f} MiB resident, {store.stat().st_size / 2**20:.0f} MiB stored"
    print(f"import: {seconds:.1f} s, {sizes}")
    return store


def measure(store: Path, files: Sequence[Path], repeat: int) -> list[Measurement]:
    """`itrstress evaluate` with one variant, with all caption variants, with everything both ways."""
    names = [f"rococo:{file.stem}" for file in files]
    evaluate: list[str | Path] = [*ITRSTRESS, "evaluate", store]

    def chosen(variants: Sequence[str]) -> list[str]:
        return [part for name in variants for part in ("--variant", name)]

    jobs = {
        "i2t, 1 caption variant": [*evaluate, "--direction", "i2t", *chosen(names[:1])],
        f"i2t, {len(names)} caption variants": [*evaluate, "--direction", "i2t", *chosen(names)],
        "t2i, 1 image variant": [*evaluate, "--direction", "t2i", "--variant", MIX],
        "everything, both directions": [*evaluate, "--force", "--out", store.parent / "results"],
    }
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in jobs}
    for _ in range(repeat):  # in turn, so that a slow minute of the machine meets every job
        for name, command in jobs.items():
            runs[name].append(timed(command))
    measurements = []
    for name, measured in runs.items():
        seconds = [run[0] for run in measured]
        spread = (round(min(seconds), 2), round(max(seconds), 2))
        peak = max(run[1] for run in measured)
        measurements.append(Measurement(name, round(statistics.median(seconds), 2), spread, peak))
    return measurements


def main() -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time `itrstress evaluate` at the published size.")
    parser.add_argument("--rococo", type=Path, help="folder of the published caption files")
    parser.add_argument("--repeat", type=int, default=3)
    add_output(parser)
    options = parser.parse_args()
    output = output_of(parser, options)
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-") as temporary:
        work = Path(temporary)
        if options.rococo:
            files = [options.rococo / f"{name}.json" for name in PUBLISHED]
        else:
            files = write_synthetic(work)
        measurements = measure(write_store(files, work), files, options.repeat)
    print("| job | seconds, median (lowest to highest) | peak resident |\n|---|---|---|")
    for row in measurements:
        print(
            f"| {row.name} | {row.median_seconds:.1f} ({row.spread[0]:.1f} to {row.spread[1]:.1f}) "
            f"| {row.peak_rss_bytes / 2**20:.0f} MiB |"
        )
    if output:
        write_rows(output, measurements)


if __name__ == "__main__":
    main()
