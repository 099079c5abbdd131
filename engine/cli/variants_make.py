"""`itrstress variants make`: write variants to files, one JSON Lines file each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.paths import PATH, named_files
from engine.cli.variant_options import (
    corpus_options,
    image_sizes,
    images_option,
    influence_of,
    influence_option,
    specs_of,
    variant_options,
    variants_of,
)
from engine.corpus.read import read_corpus
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.variants.variant import Variant

ENDING = ".jsonl"
COLUMNS = ("variant", "items", "left out", "changed", "file")
NAMES = ("variant", "file")


@dataclass(frozen=True)
class Output:
    """The folder for the files, whether others in it are replaced, and the files that the command reads."""

    folder: Path
    force: bool
    read: Sequence[Path]


@dataclass(frozen=True)
class Made:
    """What the table says of a variant; not `written` is a file that was there, the same to the byte.

    The items are not part of it: those of one variant are gone before the next is made.
    """

    name: str
    items: int
    left_out: int
    changed_rate: float
    path: Path
    written: bool
    note: str


@click.command("make")
@corpus_options(required=True)
@images_option(": boxes are then in the file in pixels too, and bad images found at once")
@variant_options
@influence_option()
@click.option("--out", required=True, type=PATH, metavar="DIR", help="The folder for the files.")
@click.option("--force", is_flag=True, help="Replace files that hold something else.")
@click.pass_context
def command(
    ctx: click.Context,
    corpus_file: Path,
    reader: str | None,
    split: str,
    normalisation: str,
    image_folder: Path | None,
    variants: tuple[str, ...],
    seed: int,
    influence: tuple[str, ...],
    out: Path,
    force: bool,
) -> None:
    """Write variants to files, one file a variant.

    A file is JSON Lines: a header, and a record an item. A record has the original's id, the text or the
    image's recipe, and what was changed. The same corpus, variants and seed give the same bytes. `embed`,
    `sweep` and `audit` take a file as `file:PATH`.
    """
    from engine.corpus.images import check_image_folder
    from engine.outputs.place import check_output_folder
    from engine.report.console import ConsoleProgress

    check_output_folder(out, "--out")
    if image_folder is not None:
        check_image_folder(image_folder)
    specs = specs_of(variants, seed)
    for spec in specs:
        if spec.startswith("file:"):
            raise InputError(f"--variant {spec}: is a file already; name what is to be made")
    made_from = variants_of(specs, influence_of(influence))
    corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    sizes = None if image_folder is None else image_sizes(corpus, image_folder, made_from)
    read = [*named_files(ctx, "--out"), *(image_folder / one.file for one in corpus.images if image_folder)]
    made, progress = [], ConsoleProgress()
    with progress.task("made", len(specs), "variants") as advance:
        for spec, variant in zip(specs, made_from, strict=True):
            made.append(_make(spec, variant, corpus, sizes, Output(out, force, read)))
            advance(1)
            if made[-1].note:
                progress.note(made[-1].note)
    _print_table(made)


def _make(
    spec: str,
    variant: Variant,
    corpus: Corpus,
    sizes: Sequence[tuple[int, int]] | None,
    output: Output,
) -> Made:
    from engine.evaluate.names import safe_name
    from engine.packages import package_versions
    from engine.variants.registry import parse_spec
    from engine.variants.variant_file import file_lines, header_of, with_boxes

    family, parameters = parse_spec(spec)
    items = variant.apply(corpus)
    if sizes is not None and variant.modality == "images":
        items = with_boxes(items, sizes)
    header = header_of(
        variant,
        items,
        corpus,
        family=family.name,
        parameters=parameters,
        versions=package_versions(),
    )
    path = output.folder / f"{safe_name(variant.name)}{ENDING}"
    written = _write(path, b"".join(file_lines(header, items, corpus)), output)
    return Made(variant.name, header.items, header.left_out, header.changed_rate, path, written, items.note)


def _write(path: Path, data: bytes, output: Output) -> bool:
    """Write a file unless it is there with the same bytes. Raises `InputError` for others without `force`,
    and for what the command reads.
    """
    from engine.outputs.atomic import write_atomically
    from engine.outputs.place import check_output_file

    check_output_file(path, "--out", output.read)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return False
    if path.exists() and not output.force:
        raise InputError(f"{path}: holds something else; name another --out, or --force replaces it")
    write_atomically(path, lambda temporary: temporary.write_bytes(data), option="--out", force=output.force)
    return True


def _print_table(made: Sequence[Made]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from engine.report.console import table_console

    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    for column in COLUMNS:
        if column in NAMES:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for one in made:
        table.add_row(
            escape(one.name),
            f"{one.items:,}",
            f"{one.left_out:,}" if one.left_out else "-",
            f"{one.changed_rate:.1%}",
            escape(str(one.path)) + ("" if one.written else " (as it was)"),
        )
    table_console().print(table)
