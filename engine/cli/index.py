"""`itrstress index`: freeze galleries once, for the queries of many checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.command_line import command_line
from engine.cli.corpus_options import reading_options
from engine.cli.lines import echo_line, print_facts
from engine.cli.paths import PATH, named_files
from engine.cli.sets_view import check_damage, damaged_rows, sets_table
from engine.cli.variant_options import split_variant
from engine.corpus.read import read_corpus

if TYPE_CHECKING:
    from engine.store.fixed_index import FixedIndex, IndexRecord
    from engine.variants.variant import Modality

SHORT = 12
SIDES: tuple[Modality, ...] = ("captions", "images")

out_option = click.option(
    "--out",
    required=True,
    type=PATH,
    metavar="DIR",
    help="The folder of the index; made whole or not at all.",
)
force_option = click.option("--force", is_flag=True, help="Replace what is there.")


@click.group("index")
def command() -> None:
    """Freeze galleries once, for the queries of many checkpoints.

    An index is a folder: index.json says what it is of, gallery.h5 is a store with gallery sets only.
    Search it with `itrstress evaluate QUERIES.h5 --index DIR`, or with `index:` in a sweep's run file.
    """


@command.command("build")
@click.argument("store_file", metavar="STORE.h5", type=PATH)
@out_option
@click.option(
    "--side",
    "sides",
    type=click.Choice(SIDES),
    multiple=True,
    help="Which galleries: captions (i2t), images (t2i). Repeatable. Default: all that the store has.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="A gallery variant of the store, by name or spec; repeatable. Default: all.",
)
@click.option(
    "--space",
    default="",
    metavar="NAME",
    help="Name the space of the vectors, where STORE.h5 does not. Default: its encoder's fingerprint.",
)
@force_option
@click.pass_context
def build_command(
    ctx: click.Context,
    store_file: Path,
    out: Path,
    sides: tuple[Modality, ...],
    variants: tuple[str, ...],
    space: str,
    force: bool,
) -> None:
    """Freeze the galleries of STORE.h5: originals and gallery variants, with their keys and checksums."""
    from engine.evaluate.sets import canonical_name
    from engine.store.fixed_index import build_index
    from engine.store.reader import open_store

    with open_store(store_file) as store:
        record = build_index(
            store,
            out,
            sides=sides,
            variants=[canonical_name(spec, store) for spec in variants] or None,
            space=space,
            force=force,
            command=command_line(ctx),
            inputs=named_files(ctx, "--out"),
        )
    say_written(out, record)


@command.command("inspect")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Read all rows, check them.")
def inspect_command(folder: Path, verify: bool) -> None:
    """Say what the index in DIR holds: its space, corpus, sets and fingerprint, and whether all rows hold.

    Ends with exit code 2 when a row does not keep its checksum.
    """
    from engine.report.console import print_whole
    from engine.store.fixed_index import open_index

    with open_index(folder) as index:
        gallery = index.gallery
        damaged = [damaged_rows(gallery, info) for info in gallery.sets] if verify else None
        print_facts(facts(index))
        click.echo()
        print_whole(sets_table(gallery.sets, damaged))
        check_damage(gallery, damaged, "build the index again")


@command.command("export")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--set", "label", required=True, metavar="SET", help="Such as captions/original.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("faiss", "npy", "fbin")),
    help="A flat FAISS index for inner products, .npy, or .fbin. Default: what FILE ends in.",
)
@click.option("--out", required=True, type=PATH, metavar="FILE", help="The file of rows to write.")
@force_option
@click.pass_context
def export_command(
    ctx: click.Context, folder: Path, label: str, form: str | None, out: Path, force: bool
) -> None:
    """Write a set of the index as a plain file of float32 rows, the ids of its rows beside it.

    The ids are in FILE.ids.jsonl, a line a row. Skipped rows are left out.
    """
    from engine.cli.output import output_file
    from engine.report.console import ConsoleProgress
    from engine.store.fixed_index import GALLERY_FILE, INDEX_FILE, open_index
    from engine.store.fixed_index.export import export_set
    from engine.store.fixed_index.formats import FORMATS, format_of
    from engine.store.fixed_index.ids import sidecar_of

    chosen = format_of(out) if form is None else FORMATS[form]
    own = [folder / name for name in (GALLERY_FILE, INDEX_FILE)]
    for place in (out, sidecar_of(out)):
        output_file(place, force=force, inputs=own)
    with open_index(folder) as index:
        info = next((one for one in index.gallery.sets if one.label == label), None)
        rows = 0 if info is None else info.complete
        with ConsoleProgress().task(label, rows, "rows") as advance:
            written = export_set(index, label, chosen, out, force=force, advance=advance)
    click.echo(
        f"wrote {out} ({written:,} rows of {label}, {out.stat().st_size:,} bytes) and {sidecar_of(out)}"
    )


@command.command("import")
@click.argument("rows_file", metavar="FILE", type=PATH)
@click.option(
    "--corpus", "corpus_file", required=True, type=PATH, metavar="PATH", help="The captioned image set."
)
@click.option("--side", required=True, type=click.Choice(SIDES), help="What the rows are of.")
@click.option("--space", required=True, metavar="NAME", help="The name of the space that the rows are in.")
@out_option
@click.option(
    "--ids",
    type=PATH,
    metavar="FILE.jsonl",
    help='Ids of the rows, a line {"row": 0, "id": ...} each. Default: rows in corpus order.',
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="SPEC=FILE",
    help="A gallery variant such as rococo:FILE and its rows, in the order of its items. Repeatable.",
)
@click.option("--model", default="", metavar="NAME", help="What made the rows. Default: the space's name.")
@reading_options(texts="was done to every text before it was encoded")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="How rows are kept.",
)
@force_option
@click.pass_context
def import_command(
    ctx: click.Context,
    rows_file: Path,
    corpus_file: Path,
    side: Modality,
    space: str,
    out: Path,
    ids: Path | None,
    variants: tuple[str, ...],
    model: str,
    reader: str | None,
    split: str,
    normalisation: str,
    dtype: str,
    force: bool,
) -> None:
    """Make an index from rows kept elsewhere: a flat FAISS index (.faiss, .index), .npy or .fbin.

    Rows are L2-normalised on the way in (in float64). Images that --ids does not name are left out, as
    unreadable ones are.
    """
    from engine.report.console import ConsoleProgress
    from engine.store.fixed_index.importer import import_index
    from engine.variants.registry import make_variant

    corpus = read_corpus(corpus_file, reader=reader, split=split, normalisation=normalisation)
    record, left_out = import_index(
        rows_file,
        corpus,
        side,
        out,
        space=space,
        model=model,
        ids=ids,
        variants=[(make_variant(spec), Path(file)) for spec, file in map(split_variant, variants)],
        dtype="float16" if dtype == "float16" else "float32",
        force=force,
        command=command_line(ctx),
        inputs=named_files(ctx, "--out"),
        progress=ConsoleProgress(),
    )
    say_written(out, record)
    if left_out:
        click.echo(f"note: {left_out:,} images have no row in {rows_file} and are left out")


# ---------------------------------------------------------------- what is shown


def say_written(out: Path, record: IndexRecord) -> None:
    """What an index that was just made holds, and what to do with it."""
    sets = ", ".join(f"{one.label} {one.rows - one.skipped:,} rows" for one in record.sets)
    space = (
        f"space {record.space}" if record.space != record.encoder_fingerprint else "its encoder's own space"
    )
    echo_line(f"wrote {out} (fingerprint {record.fingerprint[:SHORT]}, {space}): {sets}")
    echo_line(f"next: itrstress evaluate QUERIES.h5 --index {out}")


def facts(index: FixedIndex) -> dict[str, str]:
    """What an index is of."""
    record = index.record
    size = index.gallery.path.stat().st_size
    return {
        "index": f"{index.path} ({size:,} bytes)",
        "fingerprint": record.fingerprint,
        "space": record.space,
        "encoder": f"{record.encoder_spec} ({record.encoder_fingerprint[:SHORT]})",
        "corpus": f"{record.corpus_name} ({record.corpus_fingerprint[:SHORT]})",
        "text": record.normalisation,
        "rows": f"{record.dim} dimensions, {record.dtype}, L2-normalised",
        "created": record.created,
        "with": ", ".join(f"{name} {version}" for name, version in sorted(record.versions.items())),
    }
