"""`itrstress store`: look at stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.paths import PATH
from engine.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from engine.store import SetInfo, Store

SHORT = 12
REASONS_SHOWN = 5


@click.group("store")
def command() -> None:
    """Look at stores."""


@command.command("inspect")
@click.argument("path", metavar="STORE.h5", type=PATH)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Read all rows, check them.")
def inspect_command(path: Path, verify: bool) -> None:
    """Say what STORE.h5 holds: sets, rows, completion, fingerprints, sizes, and whether all checksums hold.

    Ends with exit code 2 when anything in it is damaged, after showing what is still good.
    """
    from engine.report.console import print_whole
    from engine.store import open_store

    with open_store(path, tolerant=True) as store:
        damaged = [damaged_rows(store, info) for info in store.sets] if verify else None
        print_header(store)
        click.echo()
        print_whole(sets_table(store.sets, damaged))
        for info in store.sets:
            print_notes(store, info)
        for label in missing_originals(store):
            echo_line(f"note: there is no {label}; evaluate needs it, or an index that has it (--index)")
        check_damage(store, damaged)


def missing_originals(store: Store) -> list[str]:
    """The sets that every evaluation needs and the store does not have, damaged ones left out."""
    from engine.store.schema import MODALITIES, ORIGINAL

    labels = [f"{modality}/{ORIGINAL}" for modality in MODALITIES]
    there = {info.label for info in store.sets} | set(store.damage)
    return [label for label in labels if label not in there]


def damaged_rows(store: Store, info: SetInfo) -> int:
    """How many rows do not keep their checksum."""
    return sum(rows.stop - rows.start for rows in store.verify(info.modality, info.name))


def print_header(store: Store) -> None:
    """What the store is of, a line a fact."""
    header = store.header
    facts = {
        "store": f"{store.path} ({store.path.stat().st_size:,} bytes)",
        "encoder": f"{header.encoder_spec} ({header.encoder_fingerprint[:SHORT]})",
        "space": header.space,
        "corpus": f"{header.corpus_name} ({header.corpus_fingerprint[:SHORT]})",
        "read from": header.corpus_source,
        "text": header.normalisation,
        "rows": f"{header.dim} dimensions, {header.dtype}, L2-normalised"
        if header.rows == "embeddings"
        else f"scores of pairs with {header.dim:,} images, {header.dtype}",
        "created": header.created,
        "with": ", ".join(f"{name} {version}" for name, version in sorted(header.versions.items())),
    }
    print_facts(facts)


def print_facts(facts: Mapping[str, str]) -> None:
    """A line a fact, but for empty ones."""
    for label, value in facts.items():
        if value:
            echo_line(value, f"{label:<11} ")


def sets_table(sets: Sequence[SetInfo], damaged: Sequence[int] | None) -> Table:
    """One row a set; `damaged` is the number of bad rows of each, None when nobody looked."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("set", no_wrap=True)
    for heading in ("rows", "complete", "skipped", "changed", "MiB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("key", "checksums"):
        table.add_column(heading, no_wrap=True)
    for number, info in enumerate(sets):
        cells = (
            info.label,
            f"{info.rows:,}",
            "all" if info.complete == info.rows else f"{info.complete:,}",
            f"{info.skipped:,}" if info.skipped else "-",
            f"{info.variant.changed_rate:.2%}" if info.variant else "-",
            f"{info.bytes / 2**20:,.1f}",
            info.content_key[:SHORT],
            verdict(None if damaged is None else damaged[number]),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def verdict(damaged: int | None) -> str:
    """What the checksums say, in words."""
    if damaged is None:
        return "not checked"
    return f"{damaged:,} rows DAMAGED" if damaged else "ok"


def print_notes(store: Store, info: SetInfo) -> None:
    """What is missing from a set, and why."""
    if info.pending:
        echo_line(f"note: {info.label} lacks {info.pending:,} rows; run embed again to finish it")
    if info.variant and info.variant.left_out:
        print_reasons(f"{info.label} leaves out", "originals", Counter(info.variant.left_out.values()))
    if info.skipped:
        reasons = store.load(info.modality, info.name, complete=False).reasons
        print_reasons(f"{info.label} skipped", "images", Counter(reasons.values()))


def print_reasons(what: str, items: str, reasons: Counter[str]) -> None:
    """The most frequent reasons with their counts."""
    for reason, count in reasons.most_common(REASONS_SHOWN):
        echo_line(f"note: {what} {count:,} {items}: {reason}")
    if len(reasons) > REASONS_SHOWN:
        echo_line(f"note: {what} more {items}, for {len(reasons) - REASONS_SHOWN:,} further reasons")


def check_damage(store: Store, damaged: Sequence[int] | None) -> None:
    """Raise `InputError` when anything is damaged."""
    wrong = [f"{label}: {why}" for label, why in store.damage.items()]
    for info, rows in zip(store.sets, damaged or [], strict=False):
        if rows:
            first = store.verify(info.modality, info.name)[0].start
            wrong.append(f"{info.label}: {rows:,} rows do not keep their checksum, the first is row {first}")
    if wrong:
        remedy = "write it again with --force" if store.damage else "running embed again repairs these rows"
        raise InputError(f"{store.path} is damaged: {'; '.join(wrong)}; {remedy}")


def echo_line(text: str, label: str = "") -> None:
    """One line; control characters of a foreign file are shown, not obeyed."""
    from engine.cli.main import one_line

    click.echo(f"{label}{one_line(text)}")
