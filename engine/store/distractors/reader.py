"""Reading distractor sets: which a store has, how far they are, and their rows block by block."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError, unknown_name
from engine.store.distractors.layout import (
    BLOCK_ROWS,
    DistractorHeader,
    find_regions,
    read_header,
    set_file_name,
    set_folder,
)
from engine.store.raw import Region, read_region, read_rows
from engine.store.reader import SIGNATURE, PaddedFile, stored_end
from engine.store.schema import COMPLETE, MODALITIES, StoreHeader
from engine.store.structure import H5_ERRORS, FileEnds, reason_of
from indexes.protocol import Rows


def block_checksum(rows: NDArray[Any]) -> int:
    """CRC-32 of the bytes of a block of rows."""
    return zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)


class DistractorRows:
    """The rows of an open set: the `RowSource` of a shard.

    The checksum of a block is looked at when a row of it is first read; a file that is cut off or written to
    meanwhile is an error.
    """

    def __init__(self, path: Path, file: io.FileIO, label: str, regions: Mapping[str, Region]) -> None:
        self._path, self._file, self._label = path, file, label
        self._rows = regions["embeddings"]
        self._checksums = read_region(file.fileno(), regions["checksums"])
        self._unread = np.ones(len(self._checksums), np.bool_)
        self._opened = os.fstat(file.fileno())

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dim)."""
        rows, dim = self._rows.shape
        return rows, dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float16, native byte order."""
        native: np.dtype[Any] = self._rows.dtype.newbyteorder("=")
        return native

    def read(self, start: int, stop: int) -> Rows:
        """Rows [start, stop) as stored, C-contiguous.

        Raises `InputError` naming the rows of the first block whose checksum does not hold, or when the file
        has changed; IndexError outside of the set.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"rows [{start}, {stop}) of {self._label}, which has {self.shape[0]} rows")
        blocks = range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
        unread = [block for block in blocks if self._unread[block]]
        first, last = start, stop
        if unread:  # whole blocks, for their checksums
            first = blocks[0] * BLOCK_ROWS
            last = min((blocks[-1] + 1) * BLOCK_ROWS, self.shape[0])
        rows = read_rows(self._file.fileno(), self._rows, first, last)
        self._check_unchanged()
        for block in unread:
            self._check(block, rows[block * BLOCK_ROWS - first :][:BLOCK_ROWS])
        return rows[start - first : stop - first].astype(self.dtype, copy=False)

    def _check(self, block: int, rows: NDArray[Any]) -> None:
        if block_checksum(rows) != self._checksums[block]:
            start = block * BLOCK_ROWS
            raise InputError(
                f"{self._path} is damaged: the checksum of {self._label} rows {start} to "
                f"{start + len(rows) - 1} does not hold; make the set again, which repairs these rows"
            )
        self._unread[block] = False

    def _check_unchanged(self) -> None:
        now = os.fstat(self._file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self._opened.st_size, self._opened.st_mtime_ns):
            raise InputError(
                f"{self._path} was changed while it was read (now {now.st_size:,} bytes, then "
                f"{self._opened.st_size:,}); leave the file alone and run again"
            )


@dataclass(frozen=True)
class DistractorSet:
    """An open set; a context manager. `rows` works as long as it is open."""

    path: Path
    header: DistractorHeader
    complete_blocks: int
    content_key: str
    rows: DistractorRows
    file: io.FileIO
    regions: Mapping[str, Region]

    def __enter__(self) -> DistractorSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def complete_rows(self) -> int:
        """Rows in complete blocks."""
        state = read_region(self.file.fileno(), self.regions["state"]) == COMPLETE
        last = self.header.rows - (self.header.blocks - 1) * BLOCK_ROWS
        return int(np.count_nonzero(state[:-1])) * BLOCK_ROWS + last * int(state[-1])

    def check_complete(self) -> None:
        """Raise `InputError` when blocks are still to be written."""
        if self.complete_blocks < self.header.blocks:
            raise InputError(
                f"{self.path}: {self.header.label} lacks {self.header.rows - self.complete_rows:,} of "
                f"{self.header.rows:,} rows; run the command that makes it again to finish it"
            )

    def check_name(self) -> None:
        """Raise `InputError` for a set in the file of another: it is the file's name that is asked for."""
        if name_of(self.path) != (self.header.modality, self.header.name):
            raise InputError(
                f"{self.path} was written as the set {self.header.label}, and has been renamed; call it "
                f"{set_file_name(self.header.modality, self.header.name)}"
            )

    def check_checkpoint(self, store: StoreHeader, where: Path) -> None:
        """Raise `InputError` unless the rows are of the checkpoint of a store."""
        if self.header.encoder_fingerprint != store.encoder_fingerprint or self.header.dim != store.dim:
            raise InputError(
                f"{self.path} is of the checkpoint {self.header.encoder_spec} "
                f"({self.header.encoder_fingerprint[:12]}, {self.header.dim} dimensions), {where} of "
                f"{store.encoder_spec} ({store.encoder_fingerprint[:12]}, {store.dim}); "
                "remove the set and make it again"
            )


def open_set(path: Path) -> DistractorSet:
    """Open a set for reading, complete or not.

    Raises `InputError` for a file that is not there, is no distractor set, has a newer schema, or is damaged.
    """
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        return read_set(path, file)
    except BaseException:
        file.close()
        raise


def read_set(path: Path, file: io.FileIO) -> DistractorSet:
    """The set of an open file."""
    head = os.pread(file.fileno(), 128, 0)
    if not head.startswith(SIGNATURE):
        raise InputError(f"{path} is not an HDF5 file, expected a distractor set")
    actual = os.fstat(file.fileno()).st_size
    ends = FileEnds(actual, stored_end(head) or actual)
    try:
        with h5py.File(PaddedFile(file.fileno(), max(ends.actual, ends.stored)), "r") as structure:
            header = read_header(path, structure)
            regions = find_regions(structure, header, ends)
    except InputError:
        raise
    except H5_ERRORS as error:
        raise InputError(
            f"{path} is damaged: {reason_of(error)}; remove it and make the set again"
        ) from error
    state = read_region(file.fileno(), regions["state"])
    checksums = read_region(file.fileno(), regions["checksums"])
    return DistractorSet(
        path=path,
        header=header,
        complete_blocks=int(np.count_nonzero(state == COMPLETE)),
        content_key=header.content_key(checksums),
        rows=DistractorRows(path, file, header.label, regions),
        file=file,
        regions=regions,
    )


def list_sets(store: Path) -> list[Path]:
    """The files of a store's distractor sets, captions first, by name."""
    folder = set_folder(store)
    files = sorted(folder.glob("*.h5")) if folder.is_dir() else []
    return [file for file in files if file.name.partition(".")[0] in MODALITIES and file.name[0] != "."]


def name_of(file: Path) -> tuple[str, str]:
    """(modality, name) of a set's file."""
    modality, _, name = file.name.removesuffix(".h5").partition(".")
    return modality, name


def find_set(store: Path, modality: str, name: str | None) -> Path:
    """The file of a set of that modality; without a name, of the only one there is.

    Raises `InputError` naming the sets there are.
    """
    files = {name_of(file)[1]: file for file in list_sets(store) if name_of(file)[0] == modality}
    if name is None and len(files) == 1:
        return next(iter(files.values()))
    if not files:
        raise InputError(
            f"{store} has no distractors for its {modality}; add some with `itrstress distractors add` or "
            f"`synthesize --like {modality}/original`, or leave that direction out with --direction"
        )
    if name is None:
        raise InputError(
            f"{store} has {len(files)} sets of {modality} distractors; choose one with "
            f"--distractor-set: {', '.join(sorted(files))}"
        )
    if name not in files:
        raise unknown_name(f"{modality} distractor set", name, files)
    return files[name]
