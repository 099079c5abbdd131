"""All query perturbations of a corpus: the first time, and once more from the cache.

    python -m bench.query_perturbations --corpus FILE [--split NAME] [--repeat 1] [--json FILE]

Each is a whole `itrstress variants make` of all thirteen (without WordNet eleven, which the table says), a
process of its own that writes its files; the first begins with an empty cache (`ITRSTRESS_CACHE`), the rerun
with that of the first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.published_size import ITRSTRESS, timed
from bench.report import add_output, output_of, write_rows
from engine.corpus.read import DEFAULT_SPLIT, read_corpus
from engine.variants.cache import CACHE_VARIABLE
from engine.variants.wordnet import find_wordnet

SYNONYMS = ("synonym_noun", "synonym_adj")
PERTURBATIONS = (
    *("char_swap", "missing_char", "extra_char", "nearby_char", *SYNONYMS),
    *("distraction_true", "distraction_false", "shuffle_nouns_and_adj", "shuffle_all_words"),
    *("shuffle_allbut_nouns_and_adj", "shuffle_within_trigrams", "shuffle_trigrams"),
)
"""The thirteen that the paper counts."""


@dataclass(frozen=True)
class Measurement:
    """Wall seconds of a run and its rerun (median of the repeats), and the largest resident bytes of both."""

    captions: int
    perturbations: tuple[str, ...]
    first_seconds: float
    rerun_seconds: float
    peak_rss_bytes: int


def possible() -> tuple[str, ...]:
    """The perturbations that can be made here: without WordNet no synonyms."""
    return tuple(name for name in PERTURBATIONS if name not in SYNONYMS or find_wordnet() is not None)


def measure(corpus: Path, split: str, perturbations: Sequence[str], repeat: int) -> Measurement:
    """Make the perturbations of a corpus twice, `repeat` times, each time with a new cache."""
    first, again = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command: list[str | Path] = [*ITRSTRESS, "variants", "make", "--corpus", corpus, "--split", split]
            command += ["--variant", ",".join(perturbations), "--out"]
            with _cache_in(folder / "cache"):
                first.append(timed([*command, folder / "first"]))
                again.append(timed([*command, folder / "again"]))
    return Measurement(
        captions=len(read_corpus(corpus, split=split).captions),
        perturbations=tuple(perturbations),
        first_seconds=statistics.median(seconds for seconds, _ in first),
        rerun_seconds=statistics.median(seconds for seconds, _ in again),
        peak_rss_bytes=max(peak for _, peak in first + again),
    )


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before


def main() -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time all query perturbations of a corpus.")
    parser.add_argument("--corpus", type=Path, required=True, help="a captioned image set")
    parser.add_argument("--split", default=DEFAULT_SPLIT)
    parser.add_argument("--repeat", type=int, default=1)
    add_output(parser)
    options = parser.parse_args()
    output = output_of(parser, options)
    row = measure(options.corpus, options.split, possible(), options.repeat)
    print("| captions | perturbations | first | rerun from the cache | peak resident |")
    print("|---|---|---|---|---|")
    seconds = f"{row.first_seconds:.1f} s | {row.rerun_seconds:.1f} s"
    peak = f"{row.peak_rss_bytes / 2**20:.0f} MiB"
    print(f"| {row.captions:,} | {len(row.perturbations)} | {seconds} | {peak} |")
    if output:
        write_rows(output, [row])


if __name__ == "__main__":
    main()
