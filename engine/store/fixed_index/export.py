"""A set of an index as a plain file of rows, with the ids of its rows beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.outputs.atomic import write_atomically
from engine.progress import Advance, unwatched
from engine.store.fixed_index.formats import RowFormat
from engine.store.fixed_index.ids import ids_text, sidecar_of
from engine.store.fixed_index.reader import FixedIndex
from engine.store.reader import EmbeddingSet
from engine.store.schema import COMPLETE

BLOCK_ROWS = 8192


def export_set(
    index: FixedIndex,
    label: str,
    form: RowFormat,
    out: Path,
    *,
    force: bool = False,
    advance: Advance = unwatched,
) -> int:
    """Write the rows of ``<modality>/<name>`` as float32 to `out`, their ids to the file beside it.

    Skipped rows are left out: the ids say which are there. Gives the number of rows written; `advance` is
    told rows. The ids are written first, so that rows never lie there without them. Raises `InputError` for
    a set that the index does not have, one without rows, and an output that is there (without `force`).
    """
    modality, _, name = label.partition("/")
    found = index.gallery.load(modality, name)
    there = found.state == COMPLETE
    count = int(there.sum())
    if not count:
        raise InputError(f"{index.path}: {label} has no rows to export, all were skipped")
    ids = ids_text([found.ids[row] for row in np.flatnonzero(there).tolist()])
    write_atomically(sidecar_of(out), lambda file: file.write_bytes(ids), option="--out", force=force)

    def write(file: Path) -> None:
        with file.open("wb") as opened:
            opened.write(form.header(count, found.rows.shape[1]))
            for block in complete_rows(found, there):
                opened.write(block.tobytes())
                advance(len(block))

    write_atomically(out, write, option="--out", force=force)
    return count


def complete_rows(found: EmbeddingSet, there: NDArray[np.bool_]) -> Iterator[NDArray[np.float32]]:
    """The rows of a set that are there, little-endian float32, in blocks."""
    for start in range(0, len(there), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(there))
        yield found.rows.read(start, stop)[there[start:stop]].astype("<f4", copy=False)
