"""`itrstress variants audit`: how good sets of fakes are, published and generated ones alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.output import output_file, write_file
from engine.cli.paths import PATH
from engine.cli.variant_options import (
    corpus_options,
    image_sizes,
    images_option,
    influence_of,
    influence_option,
    rococo_file,
    specs_of,
    variant_options,
    variants_of,
)
from engine.corpus.read import read_corpus
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.report.audit import AuditReport
    from engine.variants.influence import Influence
    from engine.variants.variant import Variant

SCHEMA = 1
STANDARD_OUTPUT = Path("-")


@click.command("audit")
@corpus_options(required=False)
@images_option(", for shares of pixels")
@variant_options
@influence_option("Encoders whose agreement on the noun of lowest influence is measured.")
@click.option(
    "--json", "json_file", type=PATH, metavar="FILE", help="Write everything as JSON too; - prints only that."
)
@click.option("--force", is_flag=True, help="Replace the JSON file.")
def command(
    corpus_file: Path | None,
    reader: str | None,
    split: str,
    normalisation: str,
    image_folder: Path | None,
    variants: tuple[str, ...],
    seed: int,
    influence: tuple[str, ...],
    json_file: Path | None,
    force: bool,
) -> None:
    """Judge sets of fakes, published and made alike.

    Says what they change and repeat, what gives them away, and what may still be true. Takes published
    sets (rococo:FILE), specs and files of `make` (file:PATH). Of captions: changed rate, no-ops, exact
    repeats, words changed and put in, surface cues and how well they alone tell fakes from originals
    (AUC), near-synonyms and wider words by WordNet, and the agreement of encoders on the chosen words. Of
    images: changed rate, no-ops, fakes, pixels replaced.
    """
    from engine.corpus.images import check_image_folder
    from engine.report.console import table_console
    from engine.report.grid import print_report

    json_only = json_file == STANDARD_OUTPUT
    place = None if json_only else output_file(json_file, option="--json", force=force)
    if image_folder is not None:
        check_image_folder(image_folder)
    specs = specs_of(variants, seed)
    encoders = influence_of(influence)
    made = variants_of(specs, encoders, needed=False)
    corpus = _corpus(corpus_file, specs, reader, split, normalisation)
    sizes = None if image_folder is None else image_sizes(corpus, image_folder, made)
    report = _audit(corpus, made, sizes, encoders, seed)
    if not json_only:
        print_report(report, table_console())
    if json_only:
        click.echo(_to_json(report))
    elif place is not None:
        write_file(place, f"{_to_json(report)}\n".encode())


def _corpus(
    file: Path | None, specs: Sequence[str], reader: str | None, split: str, normalisation: str
) -> Corpus:
    """The corpus named, or the originals in the first published file."""
    if file is not None:
        return read_corpus(file, reader=reader, split=split, normalisation=normalisation)
    published = rococo_file(specs)
    if published is None:
        raise InputError(
            f"--variant {specs[0]}: of which corpus? name it with --corpus (only rococo:FILE has its own)"
        )
    return read_corpus(published, reader=reader or "rococo", split=split, normalisation=normalisation)


def _audit(
    corpus: Corpus,
    variants: Sequence[Variant],
    sizes: Sequence[tuple[int, int]] | None,
    encoders: Influence | None,
    seed: int,
) -> AuditReport:
    from engine.report.audit import AuditReport
    from engine.report.console import ConsoleProgress
    from engine.variants.agreement import influence_agreement
    from engine.variants.audit.captions import audit_captions
    from engine.variants.audit.images import audit_images
    from engine.variants.wordnet import WAYS, find_wordnet, open_wordnet

    wordnet = None if find_wordnet() is None else open_wordnet()
    captions, images = [], []
    for variant in variants:
        items = variant.apply(corpus)
        with ConsoleProgress().task(variant.name, len(items.items), "items") as advance:
            if variant.modality == "captions":
                captions.append(audit_captions(variant, items, corpus, wordnet))
            else:
                images.append(audit_images(variant, items, corpus, sizes))
            advance(len(items.items))
    missing = f"WordNet is not installed; {WAYS}" if wordnet is None and captions else None
    agreement = None if encoders is None else influence_agreement(corpus, encoders, seed)
    return AuditReport(corpus, captions, images, missing, agreement)


def _to_json(report: AuditReport) -> str:
    from engine.report.audit import as_record

    return json.dumps({"schema": SCHEMA, **as_record(report)}, indent=1, ensure_ascii=False)
