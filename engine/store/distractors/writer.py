"""Writing a distractor set, block by block, so that a kill at any moment loses only what was not yet whole.

Blocks are written to the disk (`fdatasync`) before their checksums and their states, as in a store. What is
there is taken up by the next call with the same recipe: blocks whose checksum holds are kept, the rest is
written. The rows of a block do not depend on how many are written at once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.outputs.atomic import locked, make_folder, remove_empty
from engine.outputs.place import check_output_folder
from engine.packages import package_versions
from engine.progress import Advance, unwatched
from engine.store.distractors.layout import BLOCK_ROWS, DistractorHeader, lay_out
from engine.store.distractors.reader import DistractorSet, block_checksum, open_set
from engine.store.place import check_store_place
from engine.store.raw import flush, read_region, read_rows, write_rows
from engine.store.schema import BYTES, CHECKSUMS, COMPLETE, PENDING
from engine.store.structure import storage_error
from engine.store.writer import check_rows, now
from indexes.prefetch import Prefetch, Span

BATCH_BYTES = 16 << 20  # stored bytes written between two flushes, where a block is not larger


class RowMaker(Protocol):
    """Where the rows of a set come from."""

    def read(self, start: int, stop: int) -> NDArray[np.floating[Any]]:
        """Rows [start, stop), L2-normalised: float [stop - start, dim]. Called from another thread."""


def write_set(
    path: Path,
    header: DistractorHeader,
    maker: RowMaker,
    *,
    force: bool = False,
    advance: Advance = unwatched,
) -> int:
    """Make a set, or finish one that is there with the same header; gives how many rows were written now.

    `advance` is told the numbers of rows that were just written, or found to be there. Raises `InputError`
    when a set of that name has another recipe, dtype or checkpoint (unless `force`: then it is replaced),
    when another process writes it, when a row is not finite, when there is no room, or when the path is no
    place for a set (see `engine.store.place`).
    """
    check_output_folder(path.parent)
    made = make_folder(path.parent)
    try:
        target = check_store_place(path)
        with locked(target, path):
            take_up(target, header, maker, force)
            return fill(target, maker, advance)
    finally:
        remove_empty(made)


def take_up(path: Path, header: DistractorHeader, maker: RowMaker, force: bool) -> None:
    """See to it that the file has the place for the set; a set of the same header is kept."""
    difference = None
    if path.exists():
        try:
            with open_set(path) as there:
                difference = header_difference(there.header, header) or content_difference(there, maker)
        except InputError:
            if not force:
                raise
            difference = "damage"
        if difference is None:
            return
        if not force:
            raise InputError(f"{path}: {header.label} is there with {difference}; --force replaces it")
    lay_out(path, replace(header, created=now(), versions=package_versions()))


def header_difference(there: DistractorHeader, wanted: DistractorHeader) -> str | None:
    """Which part of a set's identity differs; None when it is the same."""
    for part in ("modality", "name", "encoder_fingerprint", "dim", "dtype", "rows"):
        old, new = getattr(there, part), getattr(wanted, part)
        if old != new:
            return f"{part} {readable(old)}, not {readable(new)}"
    for key in sorted({*there.recipe, *wanted.recipe}):
        old, new = there.recipe.get(key), wanted.recipe.get(key)
        if old != new:
            return f"another {key}: {readable(old)}, not {readable(new)}"
    return None


def content_difference(there: DistractorSet, maker: RowMaker) -> str | None:
    """Whether the first block that is complete would be written with other rows now."""
    state = read_region(there.file.fileno(), there.regions["state"])
    complete = np.flatnonzero(state == COMPLETE)
    if not len(complete):
        return None
    start, stop = block_span(int(complete[0]), there.header.rows)
    stored = read_rows(there.file.fileno(), there.regions["embeddings"], start, stop)
    checksums = read_region(there.file.fileno(), there.regions["checksums"])
    sound = block_checksum(stored) == checksums[complete[0]]
    if sound and not np.array_equal(stored, maker.read(start, stop).astype(stored.dtype)):
        return f"other rows (the first that differ are in rows {start} to {stop - 1})"
    return None


def readable(value: object) -> str:
    """A value for an error line."""
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def block_span(block: int, rows: int) -> Span:
    """Rows [start, stop) of a block."""
    return block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows)


def fill(path: Path, maker: RowMaker, advance: Advance) -> int:
    """Write all blocks that are not there, the next batch being made meanwhile."""
    with open_set(path) as there, path.open("r+b", buffering=0) as handle:
        file, header = handle.fileno(), there.header
        pending = pending_blocks(file, there)
        wanted = batches(pending, header)
        advance(0, passed_over=header.rows - sum(stop - start for start, stop in wanted))
        with Prefetch(maker.read, wanted, depth=1) as made:
            for (start, _), rows in made:
                check_rows(header.label, start + np.arange(len(rows)), rows)
                try:
                    write_blocks(file, there, start, rows.astype(header.stored_dtype))
                except OSError as error:
                    raise storage_error(path, rows.nbytes, error, "ask for fewer --rows") from error
                advance(len(rows))
        os.fsync(file)
    return sum(stop - start for start, stop in wanted)


def pending_blocks(file: int, there: DistractorSet) -> NDArray[np.int64]:
    """int64: blocks to be written; complete ones whose checksum does not hold become pending again."""
    state = read_region(file, there.regions["state"])
    checksums = read_region(file, there.regions["checksums"])
    for block in np.flatnonzero(state == COMPLETE).tolist():
        rows = read_rows(file, there.regions["embeddings"], *block_span(block, there.header.rows))
        if block_checksum(rows) != checksums[block]:
            state[block] = PENDING
            write_rows(file, there.regions["state"], block, state[block : block + 1])
    return np.flatnonzero(state != COMPLETE)


def batches(pending: NDArray[np.int64], header: DistractorHeader) -> list[Span]:
    """Row spans of whole pending blocks, each about `BATCH_BYTES`."""
    at_once = max(1, BATCH_BYTES // (BLOCK_ROWS * header.dim * header.stored_dtype.itemsize))
    breaks = np.flatnonzero(np.diff(pending) != 1) + 1
    found: list[Span] = []
    for first, last in pairwise([0, *breaks.tolist(), len(pending)]):
        for start in range(first, last, at_once):
            stop = min(start + at_once, last)
            found.append(
                (int(pending[start]) * BLOCK_ROWS, block_span(int(pending[stop - 1]), header.rows)[1])
            )
    return found


def write_blocks(file: int, there: DistractorSet, start: int, rows: NDArray[Any]) -> None:
    """Rows of whole blocks from row `start` on: rows, flush, checksums, states."""
    regions = there.regions
    write_rows(file, regions["embeddings"], start, rows)
    flush(file)
    checksums = [
        block_checksum(rows[first : first + BLOCK_ROWS]) for first in range(0, len(rows), BLOCK_ROWS)
    ]
    write_rows(file, regions["checksums"], start // BLOCK_ROWS, np.array(checksums, CHECKSUMS))
    write_rows(file, regions["state"], start // BLOCK_ROWS, np.full(len(checksums), COMPLETE, BYTES))


def remove_set(path: Path) -> None:
    """Remove the file of a set, and its folder when it was the last one.

    Raises `InputError` when another process writes it, or when the system does not let it be removed.
    """
    with locked(path, path):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot remove {path}: {error.strerror}") from error
    with suppress(OSError):  # other sets are in it
        path.parent.rmdir()
