"""`itrstress embed`: encode a corpus and its variants into a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.corpus_options import reading_options
from engine.cli.lines import one_line
from engine.cli.paths import PATH, named_files
from engine.cli.variant_options import influence_of, influence_option
from engine.cli.whole_number import WholeNumber
from engine.corpus.decoding import MOST_DECODERS, decoding_threads
from engine.corpus.images import check_image_folder
from engine.corpus.read import read_corpus
from engine.encoders.request import DEFAULT_BATCH_SIZE, LARGEST_BATCH_SIZE, LARGEST_WORKERS

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.encoders.encoder import Encoder
    from engine.encoders.scorer import PairScorer
    from engine.store.embedding.report import EmbedReport, SetCount
    from engine.variants.variant import Modality

SET_COLUMNS = ("set", "rows", "there before", "encoded", "equal text", "skipped", "pending")
NAMES_SHOWN = 10
STAGES = ("plan", "decode", "encode", "write", "untracked")


@click.command("embed")
@click.option(
    "--model", required=True, metavar="SPEC", help="family:name:weights, such as open_clip:ViT-B-32:openai."
)
@click.option(
    "--corpus", "corpus_file", required=True, type=PATH, metavar="PATH", help="The captioned image set."
)
@click.option("--images", "image_folder", type=PATH, metavar="DIR", help="The folder of its images.")
@click.option(
    "--features",
    type=PATH,
    metavar="PATH",
    help="Region features instead of images, for a model that reads them: a .npy [images, regions, dim], an "
    "HDF5 file, or a folder with one .npz an image.",
)
@click.option("--out", required=True, type=PATH, metavar="STORE.h5", help="The store to write, or to finish.")
@reading_options(texts="is done to every text before it is encoded")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="SPEC",
    help="A variant, such as mix:0.9:seed=1. Repeatable.",
)
@influence_option("Encoders that vote on words where a variant chooses them by embedding influence.")
@click.option(
    "--only",
    type=click.Choice(["captions", "images"]),
    help="Embed one side, as queries of a fixed index (`itrstress index`); captions alone need no images.",
)
@click.option(
    "--space",
    default="",
    metavar="NAME",
    help="The name of the vectors' space, where several checkpoints share one. Default: each has its own.",
)
@click.option(
    "--precision", default="fp32", show_default=True, metavar="NAME", help="fp32, bf16 or fp16 (autocast)."
)
@click.option(
    "--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda, cuda:N or mps."
)
@click.option(
    "--batch-size",
    default=DEFAULT_BATCH_SIZE,
    show_default=True,
    type=WholeNumber(1, LARGEST_BATCH_SIZE),
    help="Items through the model at once.",
)
@click.option(
    "--workers",
    default=None,
    type=WholeNumber(1, LARGEST_WORKERS),
    help=f"Threads that decode images. [default: one a core, at most {MOST_DECODERS}]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="How rows are kept.",
)
@click.option(
    "--preprocess",
    metavar="NAME",
    help="Image preprocessing where the checkpoint has none, such as openai or imagenet,resize=squash.",
)
@click.option(
    "--skip-unreadable",
    is_flag=True,
    help="Leave out images that cannot be read; their captions ask nothing but stay in the gallery.",
)
@click.option("--force", is_flag=True, help="Replace a store, or sets in it, made from something else.")
def command(
    model: str,
    corpus_file: Path,
    image_folder: Path | None,
    features: Path | None,
    out: Path,
    reader: str | None,
    split: str,
    normalisation: str,
    variants: tuple[str, ...],
    influence: tuple[str, ...],
    only: Modality | None,
    space: str,
    precision: str,
    device: str,
    batch_size: int,
    workers: int | None,
    dtype: str,
    preprocess: str | None,
    skip_unreadable: bool,
    force: bool,
) -> None:
    """Encode a corpus and its variants into a store.

    A model that scores pairs (saf, sgr) fills it with the scores of all captions with all images instead.
    What the store already holds is not encoded again; a run that was stopped or killed goes on where it was
    when the same command is given again. Equal texts are encoded once.
    """
    from engine.encoders.scorer_registry import open_model
    from engine.report.console import ConsoleProgress
    from engine.store.embedding.fill import fill_store
    from engine.store.embedding.report import UnreadableImagesError
    from engine.store.image_source import ImageSource, NoImages, open_source
    from engine.store.place import check_store_place
    from engine.store.schema import MODALITIES
    from engine.variants.influence_binding import bind_influence
    from engine.variants.registry import make_variant

    check_store_place(out, "--out", named_files(click.get_current_context(), "--out"))
    if image_folder is not None:
        check_image_folder(image_folder)
    corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    voters = influence_of(influence, device=device, preprocess={model: preprocess})
    made = bind_influence([make_variant(spec) for spec in variants], voters)
    encoder = open_model(
        model, device=device, precision=precision, batch_size=batch_size, preprocess=preprocess
    )
    source: ImageSource = NoImages()
    if only != "captions":
        source = open_source(encoder, model, corpus, image_folder, features)
    for line in introduction(encoder, corpus, out):
        click.echo(line)
    try:
        report = fill_store(
            encoder,
            corpus,
            source,
            made,
            out,
            batch_size=batch_size,
            workers=workers or decoding_threads(),
            dtype="float16" if dtype == "float16" else "float32",
            skip_unreadable=skip_unreadable,
            force=force,
            progress=ConsoleProgress(),
            command=command_line(click.get_current_context()),
            modalities=MODALITIES if only is None else (only,),
            space=space,
        )
    except UnreadableImagesError as error:
        show(error.report)
        raise
    for measured in voters.measured if voters is not None else ():
        click.echo(measured.describe())
    show(report)


def introduction(encoder: Encoder | PairScorer, corpus: Corpus, out: Path) -> Iterator[str]:
    """What is about to be done, in words."""
    from engine.encoders.registry import describe_encoder

    gives = f"{encoder.dim} dimensions" if hasattr(encoder, "dim") else "scores of pairs"
    yield f"model   {encoder.spec} ({gives}, fingerprint {encoder.fingerprint[:12]})"
    for topic, words in describe_encoder(encoder).items():
        yield f"          {topic:<11}{words}"
    yield (
        f"corpus  {corpus.name}: {len(corpus.images):,} images, {len(corpus.captions):,} captions, "
        f"text {corpus.normalisation}"
    )
    yield f"store   {out} ({'there already' if out.exists() else 'new'})"


# ---------------------------------------------------------------- the report


def show(report: EmbedReport) -> None:
    """Print what a run did."""
    from rich.table import Table
    from rich.text import Text

    from engine.report.console import print_whole

    table = Table(box=None, pad_edge=False)
    for column in SET_COLUMNS:
        table.add_column(column, justify="left" if column == "set" else "right", no_wrap=True)
    for label, count in report.sets.items():
        table.add_row(Text(label), *(f"{number:,}" for number in numbers(count)))
    print_whole(table)
    for line in remarks(report):
        click.echo(one_line(line))


def numbers(count: SetCount) -> Sequence[int]:
    """One number for each of `SET_COLUMNS` but the first."""
    skipped = count.left_out + count.skipped
    return count.rows, count.there, count.encoded, count.copied, skipped, count.pending


def remarks(report: EmbedReport) -> Iterator[str]:
    """What the table does not say."""
    for label, rows in report.damaged.items():
        yield f"{label}: {rows:,} damaged rows were encoded again"
    for label, texts in report.cut_texts.items():
        if texts:
            rows = report.sets[label].rows
            yield f"{label}: {texts:,} of {rows:,} texts are longer than the model reads, and cut"
    left_out = sum(count.left_out for count in report.sets.values())
    if left_out:
        yield f"{left_out:,} rows skipped as unreadable by an earlier run; --force encodes these sets anew"
    if report.gone:
        files = ", ".join(report.gone[:NAMES_SHOWN]) + (", ..." if len(report.gone) > NAMES_SHOWN else "")
        yield f"missing or cut off now, their rows are kept: {len(report.gone):,} image files, {files}"
    for file, reason in report.unreadable.items():
        yield f"cannot be read: {file}: {reason}"
    yield time_split(report.seconds, report.decoder_seconds)
    if report.images_per_second:
        yield f"{report.images_per_second:,.1f} images a second"
    if not report.pending:
        size = report.path.stat().st_size
        sides = {label.partition("/")[0] for label in report.sets}
        index = " --index DIR" if len(sides) == 1 else ""
        yield f"wrote {report.path} ({size:,} bytes); next: itrstress evaluate {report.path}{index}"


def time_split(seconds: Mapping[str, float], decoder_seconds: float) -> str:
    """One line: where the time went."""
    stages = ", ".join(f"{stage} {seconds.get(stage, 0.0):.1f}" for stage in STAGES)
    return (
        f"time {seconds['total']:.1f} s: {stages} (decode is the waiting; "
        f"the decoding threads worked {decoder_seconds:.1f} s beside the model)"
    )
