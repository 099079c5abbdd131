"""Drawing image variants in the loader: what an item costs to decode, and what to draw.

    python -m bench.image_variants --corpus FILE --images DIR [--variant SPEC] [--limit N] [--json FILE]

As in `embed`, an item's images are decoded and its recipe is drawn in memory, by one thread here. Times are
processor time of this process, so that other work on the machine weighs little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import add_output, output_of, write_rows
from engine.corpus.corpus import Corpus
from engine.corpus.images import open_image
from engine.corpus.read import DEFAULT_SPLIT, read_corpus
from engine.variants.registry import make_variant

VARIANTS = ("mix:0.9", "patch:0.9", "mix:0.9:mode=paper", "patch:0.9:mode=paper", "reencode")


@dataclass(frozen=True)
class Measurement:
    """One variant: `items` drawn, seconds to decode their images and to draw them."""

    variant: str
    items: int
    decoding_seconds: float
    drawing_seconds: float

    @property
    def decoding_share(self) -> float:
        """Share in [0, 1] of the time that is decoding."""
        return self.decoding_seconds / (self.decoding_seconds + self.drawing_seconds)


def measure(spec: str, corpus: Corpus, folder: Path, limit: int | None) -> Measurement:
    """Decode and draw the first `limit` items of an image variant (None: all)."""
    variant = make_variant(spec)
    items = variant.apply(corpus).items[:limit]
    decoding = drawing = 0.0
    for item in items:
        if isinstance(item.content, str):
            raise SystemExit(f"--variant {spec}: changes captions; name a variant of images")
        started = time.process_time()
        images = [open_image(folder, corpus.images[row].file) for row in item.content.sources]
        decoded = time.process_time()
        item.content.draw(images)
        decoding += decoded - started
        drawing += time.process_time() - decoded
    return Measurement(variant.name, len(items), decoding, drawing)


def table(rows: Sequence[Measurement]) -> str:
    """The measurements in Markdown, milliseconds an item."""
    lines = [
        "| variant | items | decoding, ms an item | drawing, ms an item | decoding |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        times = (1000 * seconds / row.items for seconds in (row.decoding_seconds, row.drawing_seconds))
        cells = " | ".join(f"{one:.2f}" for one in times)
        lines.append(f"| `{row.variant}` | {row.items:,} | {cells} | {row.decoding_share:.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Time decoding and drawing of image variants.")
    parser.add_argument("--corpus", type=Path, required=True, help="a captioned image set")
    parser.add_argument("--images", type=Path, required=True, help="the folder of its images")
    parser.add_argument("--split", default=DEFAULT_SPLIT)
    parser.add_argument("--variant", action="append", help=f"repeatable; default: {', '.join(VARIANTS)}")
    parser.add_argument("--limit", type=int, help="so many items a variant, the first ones")
    add_output(parser)
    options = parser.parse_args()
    output = output_of(parser, options)
    corpus = read_corpus(options.corpus, split=options.split)
    specs = options.variant or VARIANTS
    rows = [measure(spec, corpus, options.images, options.limit) for spec in specs]
    print(table(rows))
    if output:
        write_rows(output, rows)


if __name__ == "__main__":
    main()
