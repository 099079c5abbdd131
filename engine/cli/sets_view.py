"""The sets of a store or an index on a terminal: a table, and what is damaged in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from engine.store import SetInfo, Store

SHORT = 12  # characters of a key or fingerprint


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


def damaged_rows(store: Store, info: SetInfo) -> int:
    """How many rows do not keep their checksum."""
    return sum(rows.stop - rows.start for rows in store.verify(info.modality, info.name))


def check_damage(store: Store, damaged: Sequence[int] | None, remedy: str | None = None) -> None:
    """Raise `InputError` when anything is damaged; `remedy` says what to do, else it is that of a store."""
    wrong = [f"{label}: {why}" for label, why in store.damage.items()]
    for info, rows in zip(store.sets, damaged or [], strict=False):
        if rows:
            first = store.verify(info.modality, info.name)[0].start
            wrong.append(f"{info.label}: {rows:,} rows do not keep their checksum, the first is row {first}")
    if wrong:
        again = "write it again with --force" if store.damage else "running embed again repairs these rows"
        raise InputError(f"{store.path} is damaged: {'; '.join(wrong)}; {remedy or again}")
