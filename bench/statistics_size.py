"""The bootstrap at the size of a sweep: 12 checkpoints x 12 variants x 2 directions.

    python -m bench.statistics_size [--runs 288] [--resamples 1000] [--json FILE]

Half of the runs have 5,000 image queries, half 25,000 caption queries, five an image; their outcomes are made
up (heavy-tailed ranks). Every metric of every run is resampled, as `itrstress evaluate` and `sweep` do. Wall
and processor seconds, and the largest resident memory, are of this process.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from collections.abc import Sequence

import numpy as np

from bench.report import add_output, output_of
from engine.evaluate.bootstrap import Resampling, bootstrap_intervals
from engine.evaluate.metrics import CUTOFFS
from engine.evaluate.sample import BASE_HIT, FOOLED, FOOLED_BY_OWN, HIT, RANK, Sample

IMAGES = 5_000
CAPTIONS_AN_IMAGE = 5
RUNS = 12 * 12 * 2


def made_up_sample(queries_an_image: int, seed: int) -> Sample:
    """A run of a gallery variant: ranks that are lognormal, worse with the variant than without."""
    generator = np.random.default_rng(seed)
    count = IMAGES * queries_an_image
    base = np.floor(generator.lognormal(0.5, 1.5, count)) + 1
    rank = base + np.floor(generator.lognormal(0.0, 1.0, count))
    fooled = (generator.random(count) < 0.3).astype(np.float64)
    values = {RANK: rank, FOOLED: fooled, FOOLED_BY_OWN: fooled * (generator.random(count) < 0.8)}
    values |= {HIT[k]: (rank <= k).astype(np.float64) for k in CUTOFFS}
    values |= {BASE_HIT[k]: (base <= k).astype(np.float64) for k in CUTOFFS}
    return Sample(
        query_ids=tuple(map(str, range(count))),
        images=tuple(f"{image:05}" for image in range(IMAGES)),
        cluster=np.repeat(np.arange(IMAGES), queries_an_image),
        values=values,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="how many runs (default %(default)s)")
    parser.add_argument("--resamples", type=int, default=1000, help="of each run (default %(default)s)")
    add_output(parser)
    options = parser.parse_args(arguments)
    output = output_of(parser, options)
    wall = processor = 0.0
    intervals = 0
    for number in range(options.runs):
        sample = made_up_sample((1, CAPTIONS_AN_IMAGE)[number % 2], number)
        started, used = time.perf_counter(), time.process_time()
        intervals += len(bootstrap_intervals(sample, Resampling(options.resamples)))
        wall += time.perf_counter() - started
        processor += time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    figures = {
        "runs": options.runs,
        "resamples": options.resamples,
        "intervals": intervals,
        "wall_seconds": wall,
        "processor_seconds": processor,
        "peak_rss_bytes": memory,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    print(
        f"{options.runs} runs, {options.resamples:,} resamples, {intervals:,} intervals: {wall:.1f} s wall, "
        f"{processor:.1f} s of processor time, {memory / 2**20:,.0f} MiB resident"
    )
    if output:
        output.write(f"{json.dumps(figures, indent=2)}\n".encode())


if __name__ == "__main__":
    main()
