"""Rows that another program keeps, such as a service's live index, as an index for queries of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.outputs.atomic import output_folder
from engine.packages import package_versions
from engine.path_text import path_text
from engine.progress import Progress, Silent
from engine.store.distractors.sources import normalised_rows
from engine.store.fixed_index.build import finish
from engine.store.fixed_index.formats import open_rows
from engine.store.fixed_index.ids import read_ids
from engine.store.fixed_index.record import GALLERY_FILE, INDEX_FILE, IndexRecord
from engine.store.plans import original_plans, variant_plan
from engine.store.schema import MODALITIES, SetPlan, StoredDtype, StoreHeader
from engine.store.writer import StoreWriter, open_writer
from engine.variants.variant import Modality, Variant
from indexes.files import FileRows

BLOCK_BYTES = 32 << 20
NO_ROW = "has no row in the imported file"


@dataclass(frozen=True)
class PlacedRows:
    """A file of rows for a set: its row i is row ``item[i]`` of the set (int64 [rows], none twice)."""

    plan: SetPlan
    file: FileRows
    item: NDArray[np.int64]

    @property
    def absent(self) -> NDArray[np.int64]:
        """int64: the items without a row, in order."""
        there = np.zeros(self.plan.rows, dtype=np.bool_)
        there[self.item] = True
        return np.flatnonzero(~there)


def import_index(
    rows: Path,
    corpus: Corpus,
    side: Modality,
    out: Path,
    *,
    space: str,
    model: str = "",
    ids: Path | None = None,
    variants: Sequence[tuple[Variant, Path]] = (),
    dtype: StoredDtype = "float32",
    force: bool = False,
    command: Sequence[str] = (),
    inputs: Iterable[Path] = (),
    progress: Progress | None = None,
) -> tuple[IndexRecord, int]:
    """Make an index of the originals of one side from a file of rows; its record, and the images left out.

    Rows are in corpus order, or `ids` is a file of their ids (`engine.store.fixed_index.ids`); images that it
    does not have are left out, as unreadable ones are by `embed`. `variants` are gallery variants with their
    rows, in the order of their items. Rows are L2-normalised in float64. `space` names the space they are in,
    `model` what made them. Raises `InputError` for rows that do not fit the corpus, differ in dimension or
    have no direction (file and row are named), `SearchInputError` for a file that is no file of rows.
    """
    with ExitStack() as stack:
        found = [place_originals(stack, rows, corpus, side, ids)]
        found += [place_variant(stack, corpus, side, variant, file) for variant, file in variants]
        dim = found[0].file.shape[1]
        for one in found:
            if one.file.shape[1] != dim:
                raise InputError(
                    f"{one.file.path} has {one.file.shape[1]} dimensions, {rows} has {dim}; "
                    "expected rows of one model"
                )
        made = {"command": list(command), "versions": package_versions()}
        header = StoreHeader(
            encoder_spec=f"imported:{path_text(model or space)}",
            encoder_fingerprint=fingerprint(model or space, found),
            dim=dim,
            corpus_name=corpus.name,
            corpus_fingerprint=corpus.fingerprint,
            normalisation=corpus.normalisation,
            dtype=dtype,
            corpus_source="" if corpus.source is None else path_text(corpus.source),
            space=space,
        )
        found = [replace(one, plan=replace(one.plan, made=made)) for one in found]
        folder = stack.enter_context(output_folder(out, INDEX_FILE, force=force, inputs=inputs))
        with open_writer(folder / GALLERY_FILE, header, [one.plan for one in found]) as writer:
            for one in found:
                write_placed(writer, one, progress or Silent())
        return finish(folder, command), sum(len(one.absent) for one in found)


def place_originals(
    stack: ExitStack, rows: Path, corpus: Corpus, side: Modality, ids: Path | None
) -> PlacedRows:
    """The originals' file, open until the stack is closed."""
    plan = original_plans(corpus)[MODALITIES.index(side)]
    file = stack.enter_context(closing(open_rows(rows)))
    if ids is None:
        return in_order(plan, file, f"corpus {corpus.name}", "one row each, or --ids")
    row_of = {one: row for row, one in enumerate(plan.ids)}
    names = read_ids(ids, file.shape[0], rows)
    unknown = next((line for line, one in enumerate(names, start=1) if one not in row_of), None)
    if unknown is not None:
        raise InputError(
            f"{ids} line {unknown}: no {side} of corpus {corpus.name} has the id {names[unknown - 1]!r}; "
            "is it of another corpus?"
        )
    placed = PlacedRows(plan, file, np.array([row_of[one] for one in names], dtype=np.int64))
    if len(placed.absent) and side == "captions":
        first = plan.ids[int(placed.absent[0])]
        raise InputError(
            f"{ids}: {len(placed.absent):,} captions of corpus {corpus.name} have no row, such as {first!r}; "
            "expected all of them"
        )
    return placed


def place_variant(
    stack: ExitStack, corpus: Corpus, side: Modality, variant: Variant, rows: Path
) -> PlacedRows:
    """A variant's file. Raises `InputError` for one that does not stand in this gallery."""
    if (variant.side, variant.modality) != ("gallery", side):
        raise InputError(
            f"variant {variant.name}: adds nothing to a gallery of {side}; leave it out of this index"
        )
    plan = variant_plan(corpus, variant, variant.apply(corpus))
    file = stack.enter_context(closing(open_rows(rows)))
    return in_order(plan, file, f"variant {variant.name}", "one row each")


def in_order(plan: SetPlan, file: FileRows, whose: str, expected: str) -> PlacedRows:
    """Row i of the file for item i. Raises `InputError` when their numbers differ."""
    if file.shape[0] != plan.rows:
        raise InputError(
            f"{file.path} has {file.shape[0]:,} rows, {whose} has {plan.rows:,} {plan.modality}; "
            f"expected {expected}"
        )
    return PlacedRows(plan, file, np.arange(plan.rows, dtype=np.int64))


def write_placed(writer: StoreWriter, placed: PlacedRows, progress: Progress) -> None:
    """All rows of a file, in blocks; items without a row are skipped."""
    plan, file = placed.plan, placed.file
    with progress.task(plan.label, file.shape[0], "rows") as advance:
        for start, stop in blocks(file):
            writer.write(
                plan.modality, plan.name, placed.item[start:stop], normalised_rows(file, start, stop)
            )
            advance(stop - start)
    if len(placed.absent):
        writer.skip(plan.modality, plan.name, placed.absent, [NO_ROW] * len(placed.absent))


def fingerprint(model: str, found: Sequence[PlacedRows]) -> str:
    """SHA-256 (hex) of the model's name and of set, items, dtype, shape and values of every file."""
    digest = hashlib.sha256(repr(("imported index", model)).encode())
    for one in found:
        digest.update(repr((one.plan.label, one.file.dtype.str, one.file.shape)).encode())
        digest.update(one.item.astype("<i8").tobytes())
        for start, stop in blocks(one.file):
            digest.update(np.ascontiguousarray(one.file.read(start, stop)).tobytes())
    return digest.hexdigest()


def blocks(file: FileRows) -> list[tuple[int, int]]:
    """[start, stop) of the rows that are taken at once."""
    rows, dim = file.shape
    size = max(1, BLOCK_BYTES // (8 * dim))
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]
