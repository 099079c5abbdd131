"""A similarity matrix made elsewhere into a store of scores, block by block and all or nothing.

The matrix is images x captions, in corpus order: a ``.npy``, or the array ``sims`` of an ``.npz`` as
VSE-infinity saves it. That of a caption variant is images x items, that of an image variant items x captions.
Scores are rounded once to float32.
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.inputs import NO_ARRAY, check_regular_file, read_array_head
from engine.packages import package_versions
from engine.path_text import path_text
from engine.progress import Progress, Silent
from engine.store.arrays import ArrayFile, RowTable, fingerprint_arrays, open_array
from engine.store.importer import BLOCK_BYTES, new_store
from engine.store.plans import original_plans, variant_plan
from engine.store.schema import SetPlan, StoreHeader
from engine.store.structure import storage_error
from engine.store.writer import StoreWriter, open_writer
from engine.variants.variant import Variant

SIMILARITIES = "sims.npy"  # the member of an .npz
COPY_BYTES = 16 << 20

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Similarities:
    """A matrix float [images, captions]; of a variant's, one side are its items. `axis` is that of the rows
    of the store."""

    file: ArrayFile
    plan: SetPlan
    axis: int

    def rows(self, start: int, stop: int) -> Matrix:
        """Float [stop - start, others]: rows of the store. Raises `InputError` for one that is not finite."""
        block = self.file.rows[:, start:stop].T if self.axis else self.file.rows[start:stop]
        with np.errstate(over="ignore"):
            bad = np.argwhere(~np.isfinite(np.asarray(block, dtype=np.float32)))
        if len(bad):
            place = [int(bad[0][0]) + start, int(bad[0][1])]
            row, column = place[:: -1 if self.axis else 1]
            raise InputError(
                f"{self.file.path}: row {row}, column {column} is {self.file.rows[row, column]}; "
                "expected a finite number that float32 can hold"
            )
        return block


@contextmanager
def open_similarities(
    corpus: Corpus, originals: Path, variants: Sequence[tuple[Variant, Path]], scratch: Path
) -> Iterator[list[Similarities]]:
    """The matrix of the originals and those of variants, checked against the corpus, memory-mapped.

    Arrays of an ``.npz`` are unpacked into files without a name in the folder `scratch`. Raises `InputError`
    for a file that is no such array, and for another shape than the corpus needs.
    """
    images, captions = len(corpus.images), len(corpus.captions)
    with ExitStack() as stack:
        wanted = (images, captions), f"corpus {corpus.name} has {images:,} images and {captions:,} captions"
        file = stack.enter_context(open_matrix(originals, *wanted, scratch))
        found = [Similarities(file, original_plans(corpus)[1], 1)]
        for variant, path in variants:
            plan = variant_plan(corpus, variant, variant.apply(corpus))
            axis = 1 if plan.modality == "captions" else 0
            shape = (images, plan.rows) if axis else (plan.rows, captions)
            others = "images" if axis else "captions"
            why = f"variant {plan.name} has {plan.rows:,} items, the corpus {shape[1 - axis]:,} {others}"
            file = stack.enter_context(open_matrix(path, shape, why, scratch))
            found.append(Similarities(file, replace(plan, width=shape[1 - axis]), axis))
        yield found


@contextmanager
def open_matrix(path: Path, shape: tuple[int, int], why: str, scratch: Path) -> Iterator[ArrayFile]:
    """A float array of that shape in a ``.npy`` or ``.npz`` file; `why` says where the shape comes from."""
    if path.suffix != ".npz":
        file = open_array(path)
        check_shape(path, file.rows.shape, shape, why)
        yield file
        return
    check_regular_file(path, "a similarity matrix")
    with tempfile.TemporaryFile(dir=scratch) as unpacked:
        yield ArrayFile(path, unpack(path, shape, why, unpacked))


def unpack(path: Path, shape: tuple[int, int], why: str, unpacked: IO[bytes]) -> Matrix:
    """The array ``sims`` of an ``.npz``, mapped from the open file that it is unpacked to."""
    try:
        with zipfile.ZipFile(path) as archive:
            if SIMILARITIES not in archive.namelist():
                names = ", ".join(name.removesuffix(".npy") for name in archive.namelist()[:5])
                raise InputError(f"{path}: no array 'sims' in it; found {names or 'nothing'}")
            with archive.open(SIMILARITIES) as member:
                found, fortran, dtype = read_array_head(member)
                if dtype.kind != "f" or dtype.itemsize > np.dtype(np.float64).itemsize:
                    raise InputError(f"{path}: 'sims' holds {dtype}; expected float16, float32 or float64")
                check_shape(path, found, shape, why)
                copy(path, member, unpacked, dtype.itemsize * shape[0] * shape[1])
    except (*NO_ARRAY, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise InputError(f"{path} is not a whole .npz file of numbers ({error}); get it again") from error
    return np.memmap(unpacked, dtype, "r", shape=shape, order="F" if fortran else "C")


def copy(path: Path, member: IO[bytes], unpacked: IO[bytes], size: int) -> None:
    """Exactly so many bytes. Raises ValueError when there are fewer, `InputError` when there is no room."""
    left = size
    while left:
        block = member.read(min(COPY_BYTES, left))
        if not block:
            raise ValueError(f"cut off, {left:,} of {size:,} bytes are missing")
        try:
            unpacked.write(block)
        except OSError as error:
            raise storage_error(path, size, error, "unpack it and give the .npy") from error
        left -= len(block)
    unpacked.flush()


def check_shape(path: Path, found: tuple[int, ...], shape: tuple[int, int], why: str) -> None:
    """Raise `InputError` for an array of another shape."""
    if found == shape:
        return
    turned = "; transpose it" if found == shape[::-1] else ""
    raise InputError(f"{path} has shape {list(found)}, expected {list(shape)}: {why}{turned}")


def import_similarities(
    out: Path,
    model: str,
    corpus: Corpus,
    matrices: Sequence[Similarities],
    *,
    force: bool = False,
    command: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Write a store of scores, that of the originals first; `progress` has a task a set.

    The fingerprint is the hash of the model's name and of the arrays. Raises `InputError` when the output is
    there (without `force`), a score is not finite (file, row and column are named), or there is no room.
    """
    made = {"command": list(command), "versions": package_versions()}
    images = replace(original_plans(corpus)[0], width=0, made=made)
    plans = [replace(one.plan, made=made) for one in matrices]
    tables = [(one.plan.label, RowTable((in_file_order(one.file),))) for one in matrices]
    with new_store(out, force=force) as temporary:
        header = StoreHeader(
            encoder_spec=f"imported:{path_text(model)}",
            encoder_fingerprint=fingerprint_arrays(model, tables),
            dim=len(corpus.images),
            corpus_name=corpus.name,
            corpus_fingerprint=corpus.fingerprint,
            normalisation=corpus.normalisation,
            corpus_source="" if corpus.source is None else path_text(corpus.source),
            rows="scores",
        )
        with open_writer(temporary, header, [images, *plans]) as writer:
            nothing = np.empty((images.rows, 0), dtype=np.float32)
            writer.write(images.modality, images.name, np.arange(images.rows), nothing)
            for one in matrices:
                write_scores(writer, one, progress or Silent())


def in_file_order(file: ArrayFile) -> ArrayFile:
    """The same array with rows that lie together in the file, so that it is read without a copy of it all."""
    together = file.rows.flags.c_contiguous or not file.rows.flags.f_contiguous
    return file if together else ArrayFile(file.path, file.rows.T)


def write_scores(writer: StoreWriter, matrix: Similarities, progress: Progress) -> None:
    """All rows of one set, in blocks."""
    plan = matrix.plan
    step = max(1, BLOCK_BYTES // (8 * matrix.file.rows.shape[1 - matrix.axis]))
    with progress.task(f"importing {plan.label}", plan.rows, "rows") as advance:
        for start in range(0, plan.rows, step):
            rows = np.arange(start, min(start + step, plan.rows), dtype=np.int64)
            writer.write(plan.modality, plan.name, rows, matrix.rows(start, start + len(rows)))
            advance(len(rows))
