"""`itrstress store`: look at stores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.lines import echo_line, print_facts
from engine.cli.paths import PATH
from engine.cli.sets_view import SHORT, check_damage, damaged_rows, sets_table

if TYPE_CHECKING:
    from engine.store import SetInfo, Store

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
