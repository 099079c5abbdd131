"""`itrstress corpus`: look at captioned image sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from engine.cli import granularity
from engine.cli.corpus_options import reading_options
from engine.cli.lines import one_line
from engine.cli.output import output_file, write_file
from engine.cli.paths import PATH
from engine.corpus.decoding import decoding_threads
from engine.corpus.read import load_corpus

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from engine.corpus.corpus import Corpus
    from engine.corpus.inspect import AdversarialFacts, ImageFacts, Inspection, SurfaceFacts

SCHEMA = 1
STANDARD_OUTPUT = Path("-")
NAMES_SHOWN = 10
BAR_WIDTH = 40

SURFACE_LABELS = {
    "trailing_white_space": "trailing white space",
    "trailing_space": "  ends in a space",
    "leading_white_space": "leading white space",
    "leading_space": "  begins with a space",
    "newline": "newline inside or at the ends",
    "double_space": "double space inside",
    "final_full_stop": "final full stop",
    "upper_case": "upper case",
    "non_ascii": "not ASCII",
    "empty": "empty",
}
COMPARISON_LABELS = {
    "exact": "exact",
    "pre_caption": "pre_caption",
    "wording": "wording",
}
REPEAT_LABELS = {
    "occurrences": "repeats (beyond the first)",
    "across_images": "texts of several images",
    "within_image": "texts repeated within an image",
}
ADVERSARIAL_LABELS = {
    "unchanged": "same as their own original",
    "same_as_own_image": "same as an original of their image",
    "same_as_other_image": "same as an original of another image",
    "repeats": "repeats (beyond the first)",
}


@click.group("corpus")
def command() -> None:
    """Look at captioned image sets."""


command.add_command(granularity.command)


@command.command("inspect")
@click.argument("path", type=PATH)
@click.option("--images", type=PATH, help="Image folder; every image is then decoded.")
@reading_options(texts="is done to every text before counting")
@click.option(
    "--json", "json_file", type=PATH, metavar="FILE", help="Write everything as JSON too; - prints only that."
)
@click.option("--force", is_flag=True, help="Overwrite the JSON file.")
def inspect_command(
    path: Path,
    images: Path | None,
    reader: str | None,
    split: str,
    normalisation: str,
    json_file: Path | None,
    force: bool,
) -> None:
    """Say what the corpus file PATH holds, and what is odd about it.

    Reads Karpathy splits, BLIP's lists, RoCOCO files, COCO caption annotations, and tables (CSV, TSV, JSON
    Lines with the columns image and caption). Counts captions, repeats and surface oddities; with --images it
    finds and decodes every image file and names those that are missing or unreadable; for a RoCOCO file it
    compares the adversarial captions with their originals. Bad images are reported, not an error.
    """
    from engine.corpus.images import check_image_folder
    from engine.corpus.inspect import inspect_corpus

    if images is not None:
        check_image_folder(images)
    loaded = load_corpus(path, reader=reader, split=split, normalisation=normalisation)
    json_only = json_file == STANDARD_OUTPUT
    image_files = () if images is None else _image_files(loaded.corpus, images)
    place = None if json_only else output_file(json_file, option="--json", force=force, inputs=image_files)
    files = None if images is None else _decode_all(loaded.corpus, images)
    inspection = inspect_corpus(loaded, files)
    if json_only:
        click.echo(_to_json(inspection))
        return
    _render(inspection)
    if place is not None:
        write_file(place, f"{_to_json(inspection)}\n".encode())


def _to_json(inspection: Inspection) -> str:
    record: dict[str, Any] = {"schema": SCHEMA, **asdict(inspection), "findings": inspection.findings()}
    if inspection.adversarial is not None:
        record["adversarial"]["changed_rate"] = inspection.adversarial.changed_rate
    return json.dumps(record, indent=2)


def _image_files(corpus: Corpus, folder: Path) -> Iterator[Path]:
    """Where the images may lie: at their paths, or by their names."""
    for image in corpus.images:
        yield from (folder / image.file, folder / PurePosixPath(image.file).name)


def _decode_all(corpus: Corpus, folder: Path) -> ImageFacts:
    from engine.corpus.inspect import inspect_images
    from engine.report.console import ConsoleProgress

    with ConsoleProgress().task("decoded", len(corpus.images), "images") as advance:
        return inspect_images(corpus, folder, workers=decoding_threads(), on_image=lambda: advance(1))


def _render(inspection: Inspection) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _print_summary(console, inspection)
    _print_histogram(console, inspection.captions_per_image)
    _print_surface(console, inspection)
    _print_repeats(console, inspection)
    if inspection.adversarial is not None:
        _print_adversarial(console, inspection.adversarial)
    if inspection.image_files is not None:
        _print_images(console, inspection.image_files)
    _print_findings(console, inspection.findings())


def _print_summary(console: Console, inspection: Inspection) -> None:
    lines = {
        "file": inspection.source,
        "layout": f"{inspection.reader} ({inspection.reason})",
        "split": inspection.split,
        "text": inspection.normalisation,
        "images": f"{inspection.images:,}",
        "captions": f"{inspection.captions:,}",
        "adversarial": f"{inspection.adversarial.captions:,}" if inspection.adversarial else None,
        "fingerprint": inspection.fingerprint[:16],
    }
    for label, value in lines.items():
        if value is not None:
            _print_line(console, f"{label:<12}", value)


def _print_histogram(console: Console, images_with: Mapping[int, int]) -> None:
    table = _table("captions an image", "images", "")
    largest = max(images_with.values())
    for captions, images in images_with.items():
        table.add_row(
            str(captions), f"{images:,}", f"[cyan]{'#' * max(1, round(BAR_WIDTH * images / largest))}"
        )
    table.columns[-1].justify = "left"
    _print_table(console, table)


def _print_surface(console: Console, inspection: Inspection) -> None:
    surfaces = [inspection.surface]
    headers = ["captions", ""]
    if inspection.adversarial is not None:
        surfaces.append(inspection.adversarial.surface)
        headers = ["originals", "", "adversarial", ""]
    table = _table("surface of the texts", *headers)
    for name, label in SURFACE_LABELS.items():
        table.add_row(label, *(cell for surface in surfaces for cell in _count_and_share(surface, name)))
    _print_table(console, table)


def _count_and_share(surface: SurfaceFacts, name: str) -> tuple[str, str]:
    count = getattr(surface, name)
    style = "" if count else "[dim]"
    return f"{style}{count:,}", f"{style}{count / surface.texts:.1%}"


def _print_repeats(console: Console, inspection: Inspection) -> None:
    title = "captions, compared" if inspection.adversarial is None else "originals, compared"
    _print_comparison(console, title, REPEAT_LABELS, inspection.repeats)


def _print_adversarial(console: Console, facts: AdversarialFacts) -> None:
    _print_comparison(console, "adversarial, compared", ADVERSARIAL_LABELS, facts.comparisons)
    changed = f"{facts.changed_rate:.2%} of {facts.captions:,} (in wording)"
    _print_line(console, "changed rate  ", changed)
    _print_line(console, "originals without an adversarial  ", f"{facts.originals_without:,}")


def _print_comparison(
    console: Console, title: str, labels: Mapping[str, str], facts: Mapping[str, object]
) -> None:
    table = _table(title, *(COMPARISON_LABELS[name] for name in facts))
    for name, label in labels.items():
        table.add_row(label, *(f"{getattr(fact, name):,}" for fact in facts.values()))
    _print_table(console, table)


def _print_images(console: Console, facts: ImageFacts) -> None:
    table = _table("image files", "")
    table.add_row("read", f"{facts.readable:,}")
    table.add_row("missing", f"{len(facts.missing):,}")
    table.add_row("unreadable", f"{len(facts.unreadable):,}")
    table.add_row("found at their path", f"{facts.by_path:,}")
    table.add_row("found by their name alone", f"{facts.by_name:,}")
    _print_table(console, table)
    _print_names(console, "missing", facts.missing)
    _print_names(console, "unreadable", [f"{image.file}: {image.reason}" for image in facts.unreadable])
    _print_names(console, "one file for", [", ".join(files) for files in facts.shared.values()])


def _print_names(console: Console, label: str, names: Sequence[str]) -> None:
    for name in names[:NAMES_SHOWN]:
        _print_line(console, f"{label}  ", name, "red")
    if len(names) > NAMES_SHOWN:
        _print_line(console, f"{label}  ", f"and {len(names) - NAMES_SHOWN:,} more; --json FILE names all")


def _print_findings(console: Console, findings: Sequence[str]) -> None:
    if findings:
        console.print()
    for finding in findings:
        _print_line(console, "note: ", finding, "bold yellow")


def _table(title: str, *headers: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold cyan")
    table.add_column(title, no_wrap=True)
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _print_table(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _print_line(console: Console, label: str, value: str, style: str = "bold") -> None:
    """A label and a value on one line; nothing in the value, often from a file, is markup or control."""
    from rich.text import Text

    console.print(Text.assemble((label, style), one_line(value)))
