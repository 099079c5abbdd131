"""`itrstress distractors`: rows beside a store that make its galleries larger."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.lines import one_line
from engine.cli.paths import PATH, named_files
from engine.cli.whole_number import WholeNumber
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.store import Store
    from engine.store.distractors.writer import RowMaker
    from engine.store.schema import StoredDtype
    from engine.variants.variant import Modality

MODALITIES: tuple[Modality, ...] = ("captions", "images")
SHORT = 12

modality_option = click.option(
    "--modality",
    type=click.Choice(MODALITIES),
    help="Which gallery they extend: captions (i2t), images (t2i).",
)
name_option = click.option("--name", metavar="NAME", help="What to call the set.")
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float16",
    show_default=True,
    help="How rows are kept.",
)
ROWS_HELP = "How many, such as 50000, 10k or 1.5M."
force_option = click.option("--force", is_flag=True, help="Replace a set of that name.")


@click.group("distractors")
def command() -> None:
    """Extend galleries with distractor rows.

    A set is a file in STORE.distractors/ beside the store. Search it with `itrstress evaluate STORE.h5
    --distractors 0,10k,100k`.
    """


@command.command("add")
@click.argument("store_file", metavar="STORE.h5", type=PATH)
@click.option(
    "--from",
    "origin",
    required=True,
    type=PATH,
    metavar="PATH",
    help="A .npy or .fbin file of rows, a clip-retrieval folder, or another store of the same checkpoint.",
)
@name_option
@modality_option
@dtype_option
@click.option("--rows", "wanted", metavar="N", help=f"{ROWS_HELP} Default: all.")
@force_option
def add_command(
    store_file: Path,
    origin: Path,
    name: str | None,
    modality: Modality | None,
    dtype: StoredDtype,
    wanted: str | None,
    force: bool,
) -> None:
    """Add rows made elsewhere, L2-normalised on the way in.

    They must be of the checkpoint the store is of. Run the same command again to finish an interrupted one.
    A folder or a store gives both its modalities unless --modality names one; what is an original of
    STORE.h5 too is left out of another store's rows.
    """
    from engine.store.distractors import parse_rows
    from engine.store.distractors.sources import kind_of
    from engine.store.reader import check_embeddings, open_store

    rows = None if wanted is None else parse_rows("--rows", wanted)
    kind = kind_of(origin)
    if modality is None and not kind.both:
        raise InputError(
            f"--modality is missing: {origin} does not say whether its rows are captions or images"
        )
    with open_store(store_file) as store:
        check_embeddings(store)
        for one in MODALITIES if modality is None else (modality,):
            with closing(kind.open(origin, one, store)) as source:
                chosen = source.rows if rows is None else rows
                if not 1 <= chosen <= source.rows:
                    raise InputError(
                        f"--rows {wanted}: {origin} has {source.rows:,} rows; ask for 1 to that many"
                    )
                if source.dim != store.header.dim:
                    raise InputError(
                        f"{origin} has {source.dim} dimensions, {store_file} has {store.header.dim}; "
                        "distractors must be of the same checkpoint"
                    )
                if source.note:
                    click.echo(f"note: {source.note}", err=True)
                make(store, one, name or name_from(origin), dtype, chosen, source.recipe, source, force)


@command.command("synthesize")
@click.argument("store_file", metavar="STORE.h5", type=PATH)
@click.option("--rows", "wanted", required=True, metavar="N", help=ROWS_HELP)
@click.option("--like", required=True, metavar="SET", help="The set to imitate, such as captions/original.")
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Of the draws.")
@name_option
@dtype_option
@force_option
def synthesize_command(
    store_file: Path, wanted: str, like: str, seed: int, name: str | None, dtype: StoredDtype, force: bool
) -> None:
    """Make rows up: Gaussian with the mean and the covariance of SET, L2-normalised.

    Says at the end how well they imitate it. Sets of one seed are prefixes of each other. Run the same
    command again to finish an interrupted one.
    """
    from engine.store.distractors import open_set, parse_rows
    from engine.store.distractors.likeness import likeness
    from engine.store.distractors.synthesize import Synthesizer, imitated_set, moments, recipe
    from engine.store.reader import check_embeddings, open_store
    from engine.store.schema import COMPLETE

    rows = parse_rows("--rows", wanted)
    if rows < 1:
        raise InputError(f"--rows {wanted}: expected at least one")
    with open_store(store_file) as store:
        check_embeddings(store)
        imitated = imitated_set(store, like)
        info = next(one for one in store.sets if one.label == like)
        name = name or f"like-{name_from(Path(imitated.name))}-seed={seed}"
        place_of_set(store, imitated.modality, name)
        found = moments(imitated.rows, imitated.state == COMPLETE)
        path = make(
            store,
            imitated.modality,
            name,
            dtype,
            rows,
            recipe(imitated, info.content_key, seed),
            Synthesizer.like(found, seed),
            force,
        )
        with open_set(path) as made:
            for line in likeness(store, imitated, found, made.rows).lines():
                click.echo(line)


def make(
    store: Store,
    modality: Modality,
    name: str,
    dtype: StoredDtype,
    rows: int,
    recipe: Any,
    maker: RowMaker,
    force: bool,
) -> Path:
    """Write one set and say so; gives its file."""
    from engine.report.console import ConsoleProgress
    from engine.store.distractors import DistractorHeader, write_set

    header = DistractorHeader(
        modality=modality,
        name=name,
        encoder_spec=store.header.encoder_spec,
        encoder_fingerprint=store.header.encoder_fingerprint,
        rows=rows,
        dim=store.header.dim,
        dtype=dtype,
        recipe=recipe,
    )
    path = place_of_set(store, modality, name)
    with ConsoleProgress().task(f"{header.label}", rows, "rows") as advance:
        written = write_set(path, header, maker, force=force, advance=advance)
    there = f", {rows - written:,} were there" if written < rows else ""
    click.echo(f"{header.label}: {rows:,} rows in {path} ({path.stat().st_size:,} bytes){there}")
    return path


def place_of_set(store: Store, modality: Modality, name: str) -> Path:
    """The file of a set. Raises `InputError` when it is no place for one, or what the command reads."""
    from engine.outputs.place import check_output_file
    from engine.store.distractors import set_file

    path = set_file(store.path, modality, name)
    check_output_file(path, inputs=named_files(click.get_current_context(), "--name"))
    return path


def name_from(path: Path) -> str:
    """A name for a set from what it comes from."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", path.stem).strip("-._=")[:60] or "rows"


@command.command("list")
@click.argument("store_file", metavar="STORE.h5", type=PATH)
def list_command(store_file: Path) -> None:
    """List the distractor sets of STORE.h5, damaged ones and those of another checkpoint named as such."""
    from engine.report.console import print_whole
    from engine.store.distractors import list_sets
    from engine.store.reader import open_store

    with open_store(store_file) as store:
        files = list_sets(store.path)
        if not files:
            click.echo("no distractor sets; add one with `itrstress distractors add` or `synthesize`")
            return
        print_whole(sets_table([row_of(store, file) for file in files]))


def row_of(store: Store, file: Path) -> tuple[str, ...]:
    """What the table says of a set."""
    from engine.store.distractors import open_set

    try:
        with open_set(file) as found:
            found.check_name()
            found.check_checkpoint(store.header, store.path)
            header, complete = found.header, found.complete_rows
            return (
                header.label,
                f"{header.rows:,}",
                "all" if complete == header.rows else f"{complete:,}",
                header.dtype,
                f"{file.stat().st_size / 2**20:,.1f}",
                found.content_key[:SHORT] if complete == header.rows else "-",
                one_line(origin_words(header.recipe)),
            )
    except InputError as error:
        return (file.name.removesuffix(".h5").replace(".", "/", 1), "-", "-", "-", "-", "-", one_line(error))


def origin_words(recipe: Any) -> str:
    """Where the rows come from, in a few words."""
    if recipe.get("from") == "synthesized":
        return f"synthesized like {recipe.get('like')}, seed {recipe.get('seed')}"
    return f"added from {recipe.get('from')}"


def sets_table(rows: Sequence[tuple[str, ...]]) -> Any:
    """The table of all sets."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("set", "rows", "complete", "dtype", "MiB", "key", "origin"):
        justify: Any = "right" if heading in ("rows", "complete", "MiB") else "left"
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


@command.command("remove")
@click.argument("store_file", metavar="STORE.h5", type=PATH)
@click.argument("label", metavar="SET")
def remove_command(store_file: Path, label: str) -> None:
    """Remove the distractor set SET, such as captions/laion, of STORE.h5."""
    from engine.store.distractors import find_set
    from engine.store.distractors.writer import remove_set

    modality, slash, name = label.partition("/")
    if not slash or modality not in MODALITIES or not name:
        raise InputError(f"{label!r} is no set; expected captions/NAME or images/NAME, as `list` shows them")
    path = find_set(store_file, modality, name)
    remove_set(path)
    click.echo(f"removed {path}")
