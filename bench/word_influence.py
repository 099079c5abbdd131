"""Embedding influence of every noun of a corpus: how many texts, and how much of the time inside the encoder.

    python -m bench.word_influence --corpus FILE [--model SPEC] [--limit N] [--repeat 3] [--json FILE]

The captions are tagged before the clock of a measurement starts, as for every other variant; the seconds of
tagging are shown beside. Without `--model` it is the demo's last checkpoint, which is so small that what is
outside of the encoder weighs most; any encoder that people use is slower.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import add_output, output_of, write_rows
from engine.corpus.read import DEFAULT_SPLIT, read_corpus
from engine.demo import checkpoints
from engine.encoders.influence import open_influence
from engine.variants.cache import CACHE_VARIABLE
from engine.variants.influence import Measured
from engine.variants.nouns import nouns_of


@dataclass(frozen=True)
class Measurement:
    """One corpus and encoder; seconds are of the median run, by its total without opening the encoder.

    `asked` texts are `distinct` different ones; `share` in [0, 1] of the seconds are inside the encoder.
    """

    model: str
    captions: int
    words: int
    asked: int
    distinct: int
    tagging_seconds: float
    opening_seconds: float
    seconds: float
    share: float


def measure(model: str, texts: Sequence[str], repeat: int) -> Measurement:
    """Measure the nouns of texts `repeat` times, each time with a newly opened encoder."""
    started = time.perf_counter()
    nouns = nouns_of(texts)
    tagging = time.perf_counter() - started
    candidates = [nouns[text] for text in texts]
    runs = [open_influence([model]).measure(texts, candidates) for _ in range(repeat)]
    median = sorted(runs, key=busy_seconds)[(repeat - 1) // 2]
    return Measurement(
        model=Path(model).name,  # no path of this machine
        captions=len(texts),
        words=sum(map(len, candidates)),
        asked=median.asked,
        distinct=median.distinct,
        tagging_seconds=tagging,
        opening_seconds=statistics.median(run.seconds["open"] for run in runs),
        seconds=busy_seconds(median),
        share=median.seconds["encode"] / busy_seconds(median),
    )


def busy_seconds(measured: Measured) -> float:
    """Seconds of a run without opening the encoder."""
    return measured.seconds["total"] - measured.seconds["open"]


def main() -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time the embedding influence of every noun of a corpus.")
    parser.add_argument("--corpus", type=Path, required=True, help="a captioned image set")
    parser.add_argument("--split", default=DEFAULT_SPLIT)
    parser.add_argument("--model", default=f"open_clip:local-dir:{checkpoints()[-1]}")
    parser.add_argument("--limit", type=int, help="so many captions, the first ones")
    parser.add_argument("--repeat", type=int, default=3)
    add_output(parser)
    options = parser.parse_args()
    output = output_of(parser, options)
    os.environ.pop(CACHE_VARIABLE, None)  # what is remembered is not measured
    corpus = read_corpus(options.corpus, split=options.split)
    row = measure(options.model, [one.text for one in corpus.captions][: options.limit], options.repeat)
    print("| captions | nouns | texts asked for | different | each | tagging | influence | in the encoder |")
    print("|---|---|---|---|---|---|---|---|")
    counts = f"| {row.captions:,} | {row.words:,} | {row.asked:,} | {row.distinct:,} "
    times = f"| {row.tagging_seconds:.1f} s | {row.seconds:.1f} s | {row.share:.1%} |"
    print(f"{counts}| {row.asked / row.distinct:.2f} {times}")
    if output:
        write_rows(output, [row])


if __name__ == "__main__":
    main()
