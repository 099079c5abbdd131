"""`itrstress variants preview`: a contact sheet of originals and what variants make of them."""

from __future__ import annotations

import io
from pathlib import Path

import click

from engine.cli.output import output_file, write_file
from engine.cli.paths import PATH
from engine.cli.variant_options import (
    corpus_options,
    images_option,
    influence_of,
    influence_option,
    specs_of,
    variant_options,
    variants_of,
)
from engine.cli.whole_number import WholeNumber
from engine.corpus.read import read_corpus
from engine.errors import InputError

MOST_ITEMS = 100


@click.command("preview")
@corpus_options(required=True)
@images_option()
@variant_options
@influence_option()
@click.option(
    "--items",
    default=4,
    show_default=True,
    type=WholeNumber(1, MOST_ITEMS),
    help="How many images of the corpus to show, drawn by the seed.",
)
@click.option("--font", type=PATH, metavar="FILE", help="A TrueType font, for captions not in Latin letters.")
@click.option("--out", required=True, type=PATH, metavar="FILE.png", help="The sheet to write.")
@click.option("--force", is_flag=True, help="Replace FILE.png.")
def command(
    corpus_file: Path,
    reader: str | None,
    split: str,
    normalisation: str,
    image_folder: Path | None,
    variants: tuple[str, ...],
    seed: int,
    influence: tuple[str, ...],
    items: int,
    font: Path | None,
    out: Path,
    force: bool,
) -> None:
    """Draw originals and their variants on one picture.

    It shows some images of the corpus and what the variants make of them. Image variants are shown as
    pictures side by side, caption variants as texts with what is gone and what is new marked. Pictures
    need --images.
    """
    from engine.corpus.images import check_image_folder
    from engine.report.contact_sheet import draw_sheet, load_fonts
    from engine.report.preview import Applied, preview_rows

    file = output_file(out, force=force)
    assert file is not None
    if out.suffix.lower() != ".png":
        raise InputError(f"--out {out}: the sheet is a PNG; name a file that ends in .png")
    if image_folder is not None:
        check_image_folder(image_folder)
    fonts = load_fonts(font)
    made = variants_of(specs_of(variants, seed), influence_of(influence))
    needy = next((variant.name for variant in made if variant.modality == "images"), None)
    if needy is not None and image_folder is None:
        raise InputError(f"variant {needy!r} changes images; name their folder with --images")
    corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    applied = [Applied.of(variant, variant.apply(corpus)) for variant in made]
    rows = preview_rows(corpus, applied, image_folder, items, seed)
    subtitle = f"{len(rows)} of {len(corpus.images):,} images, {len(corpus.captions):,} captions, seed {seed}"
    sheet = io.BytesIO()
    draw_sheet(f"{corpus.name}: originals and their variants", subtitle, rows, fonts).save(
        sheet, "PNG", optimize=True
    )
    write_file(file, sheet.getvalue())
