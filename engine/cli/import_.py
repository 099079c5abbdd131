"""`itrstress import`: put embeddings made elsewhere into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.paths import PATH, named_files
from engine.corpus.normalise import NORMALISATIONS
from engine.corpus.read import DEFAULT_SPLIT, read_corpus
from engine.corpus.registry import READERS
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.store.importer import ImportedSet


@click.command("import")
@click.option("--images", type=PATH, metavar="A.npy", help="Image embeddings, rows in corpus order.")
@click.option("--captions", type=PATH, metavar="B.npy", help="Caption embeddings, rows in corpus order.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="SPEC=C.npy",
    help="A variant such as rococo:FILE and its embeddings, in the order of its items. Repeatable.",
)
@click.option(
    "--clip-retrieval",
    "clip_retrieval",
    type=PATH,
    metavar="DIR",
    help="A clip-retrieval folder (img_emb, text_emb, metadata) instead of --images and --captions.",
)
@click.option(
    "--corpus",
    "corpus_file",
    type=PATH,
    metavar="FILE",
    help="The captioned image set the rows belong to.",
)
@click.option("--reader", metavar="NAME", help=f"Layout of the corpus file: {', '.join(READERS)}.")
@click.option("--split", default=DEFAULT_SPLIT, show_default=True, help="Part of a Karpathy file, or all.")
@click.option(
    "--normalisation",
    metavar="NAME",
    default="raw",
    show_default=True,
    help=f"What was done to every text before it was encoded: {', '.join(NORMALISATIONS)}.",
)
@click.option("--model", required=True, metavar="NAME", help="What to call the model in results.")
@click.option("--out", required=True, type=PATH, metavar="STORE.h5", help="The store to write.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="How rows are kept.",
)
@click.option("--force", is_flag=True, help="Replace the output.")
def command(
    images: Path | None,
    captions: Path | None,
    variants: tuple[str, ...],
    clip_retrieval: Path | None,
    corpus_file: Path | None,
    reader: str | None,
    split: str,
    normalisation: str,
    model: str,
    out: Path,
    dtype: str,
    force: bool,
) -> None:
    """Put embeddings made elsewhere into a store.

    Rows are L2-normalised on the way in (in float64) and checked against the corpus. The store appears when
    it is whole; an import that fails leaves nothing behind.
    """
    from engine.store.importer import check_new, import_store
    from engine.store.place import check_store_place

    target = check_store_place(out, "--out", named_files(click.get_current_context(), "--out"))
    check_new(target, out, force=force)

    corpus = None
    if corpus_file is not None:
        corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    corpus, sets = gather_originals(images, captions, clip_retrieval, corpus, normalisation)
    sets += [read_variant(corpus, variant) for variant in variants]
    with progress(sum(item.plan.rows for item in sets)) as on_rows:
        import_store(
            out,
            model,
            corpus,
            sets,
            dtype="float16" if dtype == "float16" else "float32",
            force=force,
            command=command_line(click.get_current_context()),
            progress=on_rows,
        )
    click.echo(f"wrote {out} ({out.stat().st_size:,} bytes); next: itrstress evaluate {out}")


def gather_originals(
    images: Path | None,
    captions: Path | None,
    clip_retrieval: Path | None,
    corpus: Corpus | None,
    normalisation: str,
) -> tuple[Corpus, list[ImportedSet]]:
    """The corpus and its two original sets, from whichever input was given."""
    from engine.store.arrays import open_table
    from engine.store.clip_retrieval import corpus_from_metadata, match_corpus, read_folder
    from engine.store.importer import originals

    if clip_retrieval is not None:
        if images is not None or captions is not None:
            raise InputError("--clip-retrieval was given with --images or --captions; give one or the other")
        folder = read_folder(clip_retrieval)
        if corpus is None:
            return corpus_from_metadata(folder, normalisation)
        return corpus, match_corpus(folder, corpus)
    if images is None or captions is None or corpus is None:
        given = {"--images": images, "--captions": captions, "--corpus": corpus}
        missing = ", ".join(option for option, value in given.items() if value is None)
        raise InputError(f"{missing} missing; give --images, --captions and --corpus, or --clip-retrieval")
    return corpus, originals(corpus, open_table(images), open_table(captions))


def read_variant(corpus: Corpus, option: str) -> ImportedSet:
    """The set of one ``SPEC=FILE``; a spec may hold ``=``, the file may not."""
    from engine.store.arrays import open_table
    from engine.store.importer import of_variant
    from engine.variants.registry import make_variant

    spec, equals, file = option.rpartition("=")
    if not equals or not spec or not file:
        raise InputError(f"--variant {option}: expected SPEC=FILE, such as rococo:same_concept.json=same.npy")
    return of_variant(corpus, make_variant(spec), open_table(file))


@contextmanager
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """Rows written, on standard error: a bar with rate and time left on a terminal, else a line a set."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield progress_lines()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.speed:,.0f} rows/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing", total=total)
        yield lambda label, rows: bar.update(task, advance=rows, description=label)


def progress_lines() -> Callable[[str, int], None]:
    """One line when a set begins."""
    begun: set[str] = set()

    def on_rows(label: str, rows: int) -> None:
        if label not in begun:
            begun.add(label)
            click.echo(f"importing {label}", err=True)

    return on_rows
