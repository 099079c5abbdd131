"""Rows made elsewhere into a new store, all or nothing.

The store is written under a temporary name and moved in place when it is whole, so an import that fails or is
killed leaves an older store as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.outputs.atomic import clear, locked, shown_as
from engine.packages import package_versions
from engine.path_text import path_text
from engine.progress import Progress, Silent
from engine.store.arrays import RowTable, fingerprint_arrays
from engine.store.place import check_store_place
from engine.store.plans import original_plans, variant_plan
from engine.store.schema import SetPlan, StoredDtype, StoreHeader
from engine.store.writer import open_writer
from engine.variants.variant import Variant

BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class ImportedSet:
    """One set and where its rows come from: row i of the set is row ``index[i]`` of the table (int64 [n])."""

    plan: SetPlan
    table: RowTable
    index: NDArray[np.int64]


def in_order(plan: SetPlan, table: RowTable, whose: str) -> ImportedSet:
    """Row i of the table for item i. Raises `InputError` when their numbers differ."""
    if len(table) != plan.rows:
        raise InputError(
            f"{table.files[0].path} has {len(table):,} rows, {whose} has {plan.rows:,} {plan.modality};"
            f" expected one row each, in the same order"
        )
    return ImportedSet(plan, table, np.arange(plan.rows, dtype=np.int64))


def originals(corpus: Corpus, images: RowTable, captions: RowTable) -> list[ImportedSet]:
    """The two original sets, rows in corpus order. Raises `InputError` when numbers do not fit."""
    if not corpus.images or not corpus.captions:
        raise InputError(
            f"corpus {corpus.name} has no {'captions' if corpus.images else 'images'}; nothing to retrieve"
        )
    image_plan, caption_plan = original_plans(corpus)
    whose = f"corpus {corpus.name}"
    return [in_order(image_plan, images, whose), in_order(caption_plan, captions, whose)]


def of_variant(corpus: Corpus, variant: Variant, table: RowTable) -> ImportedSet:
    """The set of a variant, rows in the order of its items. Raises `InputError` when their numbers differ."""
    plan = variant_plan(corpus, variant, variant.apply(corpus))
    return in_order(plan, table, f"variant {variant.name}")


def import_store(
    out: Path,
    model: str,
    corpus: Corpus,
    sets: Sequence[ImportedSet],
    *,
    dtype: StoredDtype = "float32",
    space: str = "",
    force: bool = False,
    command: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Write a store of these sets; `space` names the space of the rows, `progress` has a task a set.

    The encoder's fingerprint is the hash of the model's name and of the arrays. Raises `InputError` when the
    output is there (without `force`), dimensions differ, a row cannot be normalised (file and row are named),
    or there is no room.
    """
    check_dimensions(sets)
    made = {"command": list(command), "versions": package_versions()}
    sets = [replace(item, plan=replace(item.plan, made=made)) for item in sets]
    with new_store(out, force=force) as temporary:
        header = StoreHeader(
            encoder_spec=f"imported:{path_text(model)}",
            encoder_fingerprint=fingerprint_arrays(model, [(item.plan.label, item.table) for item in sets]),
            dim=sets[0].table.dim,
            corpus_name=corpus.name,
            corpus_fingerprint=corpus.fingerprint,
            normalisation=corpus.normalisation,
            dtype=dtype,
            corpus_source="" if corpus.source is None else path_text(corpus.source),
            space=space,
        )
        write_sets(temporary, header, sets, progress or Silent())


@contextmanager
def new_store(out: Path, *, force: bool) -> Iterator[Path]:
    """Where to write a store that is moved to `out` when the block ends without an error, and else is gone.

    Raises `InputError` when the output is there (without `force`) or another process writes it.
    """
    target = check_store_place(out)
    temporary = target.with_name(f".{target.name}.importing")
    with locked(target, out), shown_as(temporary, out):
        check_new(target, out, force=force)
        try:
            clear(temporary)
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def check_new(target: Path, out: Path, *, force: bool) -> None:
    """Raise `InputError` when a store would be replaced without `force`."""
    if target.exists() and not force:
        raise InputError(f"{out} is there already; choose another --out, or --force to replace it")


def check_dimensions(sets: Sequence[ImportedSet]) -> None:
    """Raise `InputError` unless all sets have rows of one length."""
    first = sets[0].table
    for item in sets:
        if item.table.dim != first.dim:
            raise InputError(
                f"{item.table.files[0].path} has {item.table.dim} dimensions,"
                f" {first.files[0].path} has {first.dim};"
                f" expected images and captions in one space"
            )


def write_sets(path: Path, header: StoreHeader, sets: Sequence[ImportedSet], progress: Progress) -> None:
    """All rows, in blocks."""
    block = max(1, BLOCK_BYTES // (8 * header.dim))
    with open_writer(path, header, [item.plan for item in sets]) as writer:
        for item in sets:
            with progress.task(item.plan.label, item.plan.rows, "rows") as advance:
                for start in range(0, item.plan.rows, block):
                    rows = np.arange(start, min(start + block, item.plan.rows), dtype=np.int64)
                    writer.write(
                        item.plan.modality, item.plan.name, rows, item.table.normalised(item.index[rows])
                    )
                    advance(len(rows))
