"""`itrstress doctor precision`: what bf16 and fp16 change for one model on one corpus."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.paths import PATH
from engine.cli.variant_options import corpus_options
from engine.corpus.decoding import decoding_threads
from engine.errors import InputError, unknown_name

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.encoders.encoder import Encoder
    from engine.store.image_source import ImageSource

BATCH_SIZE = 64


@click.command("precision")
@click.option("--model", required=True, metavar="SPEC", help="The model, as for embed.")
@corpus_options(required=True)
@click.option("--images", "image_folder", type=PATH, metavar="DIR", help="The folder of its images.")
@click.option("--features", type=PATH, metavar="PATH", help="Region features instead, as for embed.")
@click.option(
    "--precision",
    "precisions",
    default="bf16,fp16",
    show_default=True,
    metavar="NAME[,NAME]",
    help="What is compared with fp32.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda or mps.")
@click.option("--preprocess", metavar="NAME", help="Image preprocessing, as for embed.")
@click.option("--format", "format_name", metavar="NAME", help="table, markdown, csv, json, latex or parquet.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--out", type=PATH, metavar="FILE", help="Write there instead.")
@click.option("--force", is_flag=True, help="Replace FILE.")
def command(
    model: str,
    corpus_file: Path,
    reader: str | None,
    split: str,
    normalisation: str,
    image_folder: Path | None,
    features: Path | None,
    precisions: str,
    device: str,
    preprocess: str | None,
    format_name: str | None,
    as_json: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Say how many first answers and metrics of a model change in half precision.

    The corpus is encoded in fp32 and in each other precision and searched exactly, in both directions. The
    embeddings are kept in a temporary folder only.
    """
    from engine.cli.output import deliver, output_file
    from engine.corpus.read import read_corpus
    from engine.encoders.registry import open_encoder
    from engine.evaluate.precision import REFERENCE, precision_changes
    from engine.report.grid import choose_format
    from engine.report.precision import PrecisionReport
    from engine.store.image_source import open_source

    names = [REFERENCE, *chosen_precisions(precisions)]
    chosen = choose_format("json" if as_json and format_name is None else format_name, out)
    place = output_file(out, force=force)
    corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    stores, seconds = {}, {}
    with tempfile.TemporaryDirectory(prefix="itrstress-precision-") as folder:
        for name in names:
            encoder = open_encoder(
                model, device=device, precision=name, batch_size=BATCH_SIZE, preprocess=preprocess
            )
            source = open_source(encoder, model, corpus, image_folder, features)
            stores[name] = Path(folder) / f"{name}.h5"
            seconds[name] = encode(encoder, corpus, source, stores[name], name)
        report = PrecisionReport(model, tuple(precision_changes(stores)), seconds)
    deliver(report, chosen, place)


def chosen_precisions(text: str) -> list[str]:
    """The precisions to compare with fp32. Raises `InputError` for one that is unknown, or fp32 itself."""
    from engine.encoders.request import PRECISIONS

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PRECISIONS:
            raise unknown_name("precision", name, PRECISIONS)
    if "fp32" in names or len(set(names)) < len(names):
        raise InputError(f"--precision {text}: expected bf16, fp16 or both; fp32 is always there")
    return names


def encode(encoder: Encoder, corpus: Corpus, source: ImageSource, path: Path, label: str) -> float:
    """Encode the originals into a new store; the seconds that the encoder took."""
    from engine.report.console import ConsoleProgress
    from engine.store.embedding.embed import embed

    report = embed(
        encoder,
        corpus,
        source,
        [],
        path,
        batch_size=BATCH_SIZE,
        workers=decoding_threads(),
        progress=ConsoleProgress(),
        label=label,
    )
    return report.seconds["encode"]
