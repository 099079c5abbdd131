"""Reading a store: what it holds, its sets row by row, and what is still good in a damaged one.

HDF5 is asked once where the datasets lie; after that all bytes come from plain reads of one open file, so a
file that is replaced meanwhile keeps its old content here, and one that shrinks gives an error, never a
crash.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.store.raw import Region, read_region, read_rows, row_checksums, runs, unpack_texts
from engine.store.schema import COMPLETE, ORIGINAL, PENDING, SKIPPED, StoreHeader, VariantRecord
from engine.store.structure import (
    H5_ERRORS,
    DamagedSetError,
    FileEnds,
    StoredSet,
    find_sets,
    read_header,
    read_metadata,
    reason_of,
)
from engine.variants.variant import Modality
from indexes.protocol import Rows

SIGNATURE = b"\x89HDF\r\n\x1a\n"
VERIFY_ROWS = 4096


@dataclass(frozen=True)
class SetInfo:
    """What a set is and how far it is: counts of rows, bytes of all its datasets, how it was made, and
    a digest of the numbers of its skipped rows."""

    modality: Modality
    name: str
    rows: int
    complete: int
    skipped: int
    bytes: int
    content_key: str
    variant: VariantRecord | None
    made: Mapping[str, Any] = field(default_factory=dict)
    skipped_digest: str = ""

    @property
    def label(self) -> str:
        """``<modality>/<name>``."""
        return f"{self.modality}/{self.name}"

    @property
    def pending(self) -> int:
        """Rows still to be written."""
        return self.rows - self.complete - self.skipped


@dataclass(frozen=True)
class DamagedRows:
    """Rows [start, stop) whose checksum or state does not hold."""

    start: int
    stop: int


@dataclass(frozen=True)
class EmbeddingSet:
    """One set, loaded. Sequences have one entry a row; `rows` reads embeddings from the file when asked.

    `source` int64 [n]; `state` uint8 [n] (0 pending, 1 complete, 2 skipped); `reasons` maps skipped rows to
    why; `image` int64 [n] for ``captions/original``; `change` (JSON texts), `changed` bool [n] and `variant`
    for variants. `rows` works as long as the store is open.
    """

    modality: Modality
    name: str
    ids: tuple[str, ...]
    source: NDArray[np.int64]
    content: tuple[str, ...]
    content_digest: tuple[str, ...] | None
    image: NDArray[np.int64] | None
    variant: VariantRecord | None
    change: tuple[str, ...] | None
    changed: NDArray[np.bool_] | None
    state: NDArray[np.uint8]
    reasons: Mapping[int, str]
    rows: StoredRows


class StoredRows:
    """The rows of a set in an open store: the `RowSource` of a shard.

    Every row's checksum is looked at once, when it is read for the first time.
    """

    def __init__(self, path: Path, file: io.FileIO, label: str, regions: Mapping[str, Region]) -> None:
        self._path, self._file, self._label = path, file, label
        self._rows, self._checksums = regions["embeddings"], regions["checksums"]
        self._unread = read_region(file.fileno(), regions["state"]) == COMPLETE

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
        """Rows [start, stop) as stored, a new C-contiguous array; rows that are not complete have no meaning.

        Raises `InputError` naming the first row whose checksum does not hold, IndexError outside of the set.
        """
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"rows [{start}, {stop}) of {self._label}, which has {self.shape[0]} rows")
        rows = read_rows(self._file.fileno(), self._rows, start, stop)
        self._check(rows, start, stop)
        return rows.astype(self.dtype, copy=False)

    def _check(self, rows: NDArray[Any], start: int, stop: int) -> None:
        numbers = start + np.flatnonzero(self._unread[start:stop])
        if not len(numbers):
            return
        stored = read_rows(self._file.fileno(), self._checksums, start, stop)[numbers - start]
        bad = numbers[row_checksums(rows[numbers - start], numbers) != stored]
        if len(bad):
            raise InputError(
                f"{self._path} is damaged: the checksum of {self._label} row {bad[0]} does not hold;"
                f" `itrstress store inspect` shows what is still good, running embed again repairs the rows"
            )
        self._unread[numbers] = False


class Store:
    """An open store; a context manager. Made by `open_store`."""

    def __init__(
        self,
        path: Path,
        file: io.FileIO,
        header: StoreHeader,
        sets: list[StoredSet],
        damage: Mapping[str, str],
    ) -> None:
        self.path, self.header = path, header
        self._file = file
        self._damage = dict(damage)
        self._stored: dict[tuple[str, str], StoredSet] = {}
        self._metadata: dict[tuple[str, str], dict[str, NDArray[Any]]] = {}
        infos: list[SetInfo] = []
        for stored in sets:
            try:
                metadata = read_metadata(file.fileno(), stored)
                check_row_numbers(stored, metadata, {info.label: info.rows for info in infos})
                infos.append(self._describe(stored, metadata))
            except (ValueError, RecursionError) as error:
                self._damage[stored.label] = reason_of(error)
                continue
            self._stored[stored.modality, stored.name] = stored
            self._metadata[stored.modality, stored.name] = metadata
        self.sets: tuple[SetInfo, ...] = tuple(infos)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the rows of loaded sets can no longer be read."""
        self._file.close()

    def fileno(self) -> int:
        """The descriptor of the open file."""
        return self._file.fileno()

    @property
    def damage(self) -> Mapping[str, str]:
        """Set (or part of the file) that cannot be used -> why. Empty unless opened with `tolerant`."""
        return dict(self._damage)

    def stored(self, modality: str, name: str) -> StoredSet:
        """Where a set lies. Raises `InputError` naming the sets there are."""
        if (modality, name) not in self._stored:
            if f"{modality}/{name}" in self._damage:
                raise InputError(
                    f"{self.path}: {modality}/{name} is damaged: {self._damage[f'{modality}/{name}']}"
                )
            known = ", ".join(info.label for info in self.sets) or "none"
            raise InputError(f"{self.path} has no set {modality}/{name}; it has: {known}")
        return self._stored[modality, name]

    def load(self, modality: str, name: str, *, complete: bool = True) -> EmbeddingSet:
        """One set. With `complete`, raises `InputError` when rows are missing (skipped ones are not)."""
        stored = self.stored(modality, name)
        tables = self._metadata[modality, name]
        info = next(info for info in self.sets if (info.modality, info.name) == (modality, name))
        if complete and info.pending:
            raise InputError(
                f"{self.path}: {info.label} lacks {info.pending:,} of {info.rows:,} rows;"
                f" run `itrstress embed` again with the same options to finish it"
            )
        state = read_region(self._file.fileno(), stored.regions["state"])
        changed = tables.get("changed")
        return EmbeddingSet(
            modality=stored.modality,
            name=name,
            ids=text_of(tables, "ids"),
            source=row_numbers(tables["source"]),
            content=text_of(tables, "content"),
            content_digest=text_of(tables, "digest") if "digest" in tables else None,
            image=row_numbers(tables["image"]) if "image" in tables else None,
            variant=info.variant,
            change=text_of(tables, "change") if "change" in tables else None,
            changed=None if changed is None else changed.astype(np.bool_),
            state=state,
            reasons=self._reasons(stored, state),
            rows=StoredRows(self.path, self._file, stored.label, stored.regions),
        )

    def verify(self, modality: str, name: str) -> list[DamagedRows]:
        """Stretches of rows whose checksum does not hold; empty for a sound set. Reads every row once."""
        stored = self.stored(modality, name)
        bad = find_damaged_rows(self._file.fileno(), stored)
        return [DamagedRows(int(bad[start]), int(bad[stop - 1]) + 1) for start, stop in runs(bad)]

    def _describe(self, stored: StoredSet, metadata: Mapping[str, NDArray[Any]]) -> SetInfo:
        for name in ("ids", "content", "digest", "change"):
            if name in metadata:
                text_of(metadata, name)
        variant = VariantRecord.from_json(metadata["variant"].tobytes()) if "variant" in metadata else None
        if variant is not None and (variant.modality, variant.name) != (stored.modality, stored.name):
            raise DamagedSetError(
                f"it was written as {variant.modality}/{variant.name}, and has been renamed"
            )
        state = read_region(self._file.fileno(), stored.regions["state"])
        return SetInfo(
            modality=stored.modality,
            name=stored.name,
            rows=stored.rows,
            complete=int(np.count_nonzero(state == COMPLETE)),
            skipped=int(np.count_nonzero(state == SKIPPED)),
            bytes=stored.nbytes,
            content_key=stored.content_key,
            variant=variant,
            made=read_made(metadata["made"]),
            skipped_digest=hashlib.sha256(
                np.flatnonzero(state == SKIPPED).astype("<i8").tobytes()
            ).hexdigest(),
        )

    def _reasons(self, stored: StoredSet, state: NDArray[np.uint8]) -> dict[int, str]:
        rows = np.flatnonzero(state == SKIPPED).tolist()
        return {row: read_reason(self._file.fileno(), stored.regions["reason"], row) for row in rows}


def read_made(table: NDArray[Any]) -> Mapping[str, Any]:
    """How a set was made. Raises ValueError when it is not an object in JSON."""
    made = json.loads(table.tobytes())
    if not isinstance(made, dict):
        raise ValueError("how the set was made is no JSON object")
    return made


def read_reason(file: int, region: Region, row: int) -> str:
    """Why a row was skipped."""
    return read_rows(file, region, row, row + 1).tobytes().rstrip(b"\0").decode(errors="replace")


def text_of(tables: Mapping[str, NDArray[Any]], name: str) -> tuple[str, ...]:
    """A text of a set. Raises ValueError when it does not decode."""
    return unpack_texts(tables[name], tables[f"{name}_ends"])


def check_row_numbers(
    stored: StoredSet, metadata: Mapping[str, NDArray[Any]], rows_of: Mapping[str, int]
) -> None:
    """Raise `DamagedSetError` for a source or image beyond the originals (where the store has those)."""
    for part, label in (("source", f"{stored.modality}/{ORIGINAL}"), ("image", f"images/{ORIGINAL}")):
        limit = stored.rows if label == stored.label else rows_of.get(label)
        if part not in metadata or limit is None:
            continue
        lowest, highest = int(metadata[part].min()), int(metadata[part].max())
        if lowest < 0 or highest >= limit:
            raise DamagedSetError(f"{part} has rows {lowest} to {highest}, there are only {limit}")


def row_numbers(table: NDArray[Any]) -> NDArray[np.int64]:
    """int64 in native byte order."""
    return table.astype(np.int64, copy=False)


def find_damaged_rows(file: int, stored: StoredSet) -> NDArray[np.int64]:
    """int64: complete or skipped rows whose checksum does not hold, and rows in no known state."""
    bad: list[NDArray[np.int64]] = []
    for start in range(0, stored.rows, VERIFY_ROWS):
        stop = min(start + VERIFY_ROWS, stored.rows)
        state = read_rows(file, stored.regions["state"], start, stop)
        checksums = read_rows(file, stored.regions["checksums"], start, stop)
        known = state == PENDING
        for value, part in ((COMPLETE, "embeddings"), (SKIPPED, "reason")):
            if part in stored.regions:
                chosen = np.flatnonzero(state == value)
                rows = read_rows(file, stored.regions[part], start, stop)[chosen]
                known[chosen] = row_checksums(rows, start + chosen) == checksums[chosen]
        bad.append(start + np.flatnonzero(~known))
    return np.concatenate(bad)


# ---------------------------------------------------------------- opening


class Loading(Protocol):
    """Whatever sets are loaded from."""

    def load(self, modality: str, name: str) -> EmbeddingSet:
        """The set."""


def image_rows(store: Loading, found: EmbeddingSet) -> NDArray[np.int64]:
    """int64 [rows]: the row of the image that each row of a set shows, describes or was made from."""
    if found.modality == "images":
        return found.source
    captions = found if found.name == ORIGINAL else store.load("captions", ORIGINAL)
    assert captions.image is not None
    return captions.image[found.source]


class Headed(Protocol):
    """What has the header of a store, and a file to name."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def header(self) -> StoreHeader:
        """What it is of."""


def check_embeddings(store: Headed) -> None:
    """Raise `InputError` for a store of scores, which have no place in a space of vectors."""
    if store.header.rows != "embeddings":
        raise InputError(
            f"{store.path} holds scores of pairs by {store.header.encoder_spec}, no embeddings; "
            "this needs a store of embeddings"
        )


def open_store(path: str | Path, *, tolerant: bool = False) -> Store:
    """Open a store for reading.

    Raises `InputError` for a file that is not there, is no store, has a newer schema, or is damaged or cut
    off: the line then says what is still good. With `tolerant` a damaged file is opened as far as possible;
    see `Store.damage`.
    """
    path = Path(path)
    check_regular_file(path, "a store file (STORE.h5)")
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        store = read_store(path, file)
        if store.damage and not tolerant:
            raise InputError(damage_line(store))
    except BaseException:
        file.close()
        raise
    return store


def read_store(path: Path, file: io.FileIO) -> Store:
    """The store of an open file, damaged or not. Raises `InputError` when nothing of it can be used."""
    actual = os.fstat(file.fileno()).st_size
    head = os.pread(file.fileno(), 128, 0)
    if not head.startswith(SIGNATURE):
        raise InputError(
            f"{path} is not an HDF5 file ({actual:,} bytes), expected a store made by `itrstress embed`"
        )
    ends = FileEnds(actual, stored_end(head) or actual)
    try:
        with h5py.File(PaddedFile(file.fileno(), max(ends.actual, ends.stored)), "r") as structure:
            header = read_header(path, structure)
            sets, damage = find_sets(structure, header, ends)
    except H5_ERRORS as error:
        missing = (
            f", cut off at {ends.actual:,} of {ends.stored:,} bytes" if ends.actual < ends.stored else ""
        )
        raise InputError(
            f"{path} is damaged{missing}: {reason_of(error)};"
            f" nothing in it can be used, write it again with --force"
        ) from error
    if ends.actual < ends.stored:
        damage = {"the file": f"cut off, it has {ends.actual:,} of {ends.stored:,} bytes", **damage}
    return Store(path, file, header, sets, damage)


def stored_end(head: bytes) -> int | None:
    """The size the file was closed with, from its superblock (HDF5 format, section II.A); None if unknown."""
    places = {
        0: (13, 40),
        1: (13, 44),
        2: (9, 28),
        3: (9, 28),
    }  # version -> (offset size, end-of-file address)
    if len(head) < 64 or head[8] not in places:
        return None
    size_at, end_at = places[head[8]]
    return int.from_bytes(head[end_at : end_at + 8], "little") if head[size_at] == 8 else None


def damage_line(store: Store) -> str:
    """One line: what is damaged, and what is still good."""
    wrong = "; ".join(f"{label}: {why}" for label, why in store.damage.items())
    good = ", ".join(f"{info.label} {sound_rows(store, info):,} of {info.rows:,} rows" for info in store.sets)
    return f"{store.path} is damaged: {wrong}; still good: {good or 'nothing'}; write it again with --force"


def sound_rows(store: Store, info: SetInfo) -> int:
    """Complete rows whose checksums hold."""
    damaged = sum(rows.stop - rows.start for rows in store.verify(info.modality, info.name))
    return max(0, info.complete - damaged)


class PaddedFile:
    """An open file as h5py wants one, at least `size` bytes long: what is cut off reads as zeros.

    HDF5 refuses a file that is shorter than its superblock says; this way the rest of it is still found.
    """

    def __init__(self, file: int, size: int) -> None:
        self._file, self._size, self._position = file, size, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; return the new position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, with zeros beyond the end."""
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        block = os.pread(self._file, len(view), self._position)
        view[: len(block)] = block
        self._position += len(view)
        return len(view)

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        block = bytearray(max(0, self._size - self._position) if size < 0 else size)
        self.readinto(block)
        return bytes(block)
