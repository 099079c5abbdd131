"""`itrstress import`: put embeddings made elsewhere into a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.corpus_options import reading_options
from engine.cli.paths import PATH, named_files
from engine.cli.variant_options import split_variant
from engine.corpus.read import read_corpus
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
    "--similarities",
    type=PATH,
    metavar="S.npy",
    help="Instead of embeddings a matrix of scores, images x captions in corpus order: .npy, or .npz with "
    "'sims'. With --variant: images x items, for items that are images: items x captions.",
)
@click.option(
    "--corpus",
    "corpus_file",
    type=PATH,
    metavar="FILE",
    help="The captioned image set the rows belong to.",
)
@reading_options(texts="was done to every text before it was encoded")
@click.option("--model", required=True, metavar="NAME", help="What to call the model in results.")
@click.option(
    "--space", default="", metavar="NAME", help="The name of the rows' space, where several share it."
)
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
    similarities: Path | None,
    corpus_file: Path | None,
    reader: str | None,
    split: str,
    normalisation: str,
    model: str,
    space: str,
    out: Path,
    dtype: str,
    force: bool,
) -> None:
    """Put embeddings, or a similarity matrix, made elsewhere into a store.

    Rows are L2-normalised on the way in (in float64) and checked against the corpus. The store appears when
    it is whole; an import that fails leaves nothing behind.
    """
    from engine.report.console import ConsoleProgress
    from engine.store.importer import check_new, import_store
    from engine.store.place import check_store_place

    target = check_store_place(out, "--out", named_files(click.get_current_context(), "--out"))
    check_new(target, out, force=force)

    corpus = None
    if corpus_file is not None:
        corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    if similarities is not None:
        others = {"--images": images, "--captions": captions, "--clip-retrieval": clip_retrieval}
        if space:
            raise InputError("--space was given with --similarities; scores of pairs are in no space")
        import_matrices(out, model, corpus, similarities, variants, others, dtype, force)
        return
    corpus, sets = gather_originals(images, captions, clip_retrieval, corpus, normalisation)
    sets += [read_variant(corpus, variant) for variant in variants]
    import_store(
        out,
        model,
        corpus,
        sets,
        dtype="float16" if dtype == "float16" else "float32",
        space=space,
        force=force,
        command=command_line(click.get_current_context()),
        progress=ConsoleProgress(),
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


def import_matrices(
    out: Path,
    model: str,
    corpus: Corpus | None,
    similarities: Path,
    variants: tuple[str, ...],
    others: Mapping[str, Path | None],
    dtype: str,
    force: bool,
) -> None:
    """Write a store of scores; `others` are the options that give embeddings."""
    from engine.report.console import ConsoleProgress
    from engine.store.similarities import import_similarities, open_similarities
    from engine.variants.registry import make_variant

    given = next((option for option, value in others.items() if value is not None), None)
    if given is not None:
        raise InputError(f"--similarities was given with {given}; give one or the other")
    if corpus is None:
        raise InputError("--corpus missing; --similarities needs the corpus that its rows and columns are of")
    if dtype != "float32":
        raise InputError(f"--dtype {dtype}: scores are kept as float32, equal ones would be made")
    extra = [(make_variant(spec), Path(file)) for spec, file in map(split_variant, variants)]
    with open_similarities(corpus, similarities, extra, out.parent) as matrices:
        import_similarities(
            out,
            model,
            corpus,
            matrices,
            force=force,
            command=command_line(click.get_current_context()),
            progress=ConsoleProgress(),
        )
    click.echo(f"wrote {out} ({out.stat().st_size:,} bytes); next: itrstress evaluate {out}")


def read_variant(corpus: Corpus, option: str) -> ImportedSet:
    """The set of one ``SPEC=FILE``; a spec may hold ``=``, the file may not."""
    from engine.store.arrays import open_table
    from engine.store.importer import of_variant
    from engine.variants.registry import make_variant

    spec, file = split_variant(option)
    return of_variant(corpus, make_variant(spec), open_table(file))
