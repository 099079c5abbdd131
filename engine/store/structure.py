"""The structure of a store file: what datasets a set has, laying out a new file, finding them in an old one.

Laying out goes through a temporary file beside the store that is moved in place when it is whole: HDF5 writes
the groups and the headers of contiguous, early allocated datasets; the space is reserved (`posix_fallocate`,
where the platform has it); everything that is known before encoding is written. From then on the structure
never changes. A file made by anyone is read: every link, type, shape and place is checked before it is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError, naming
from engine.store.raw import Region, copy_region, pack_texts, read_region, write_rows
from engine.store.schema import (
    BYTES,
    CHECKSUMS,
    LONGEST_ATTRIBUTE,
    MODALITIES,
    ORIGINAL,
    REASON_BYTES,
    ROW_NUMBERS,
    SCHEMA_VERSION,
    STORED_DTYPES,
    UNSAID,
    RowKind,
    SetPlan,
    StoreHeader,
    check_set_name,
)
from engine.variants.variant import Modality

KIND = "itrstress store"
EMBEDDINGS: RowKind = "embeddings"
MUTABLE = ("embeddings", "state", "checksums", "reason")
METADATA_BLOCK_BYTES = 1 << 16  # HDF5 puts the headers of all datasets together, ahead of the rows
STRUCTURE_BYTES_A_SET = 1 << 14
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
H5_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
)


@dataclass(frozen=True)
class Part:
    """One dataset to lay out; its content an array, a part of the old file, or zeros (None)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    origin: NDArray[Any] | Region | None


@dataclass(frozen=True)
class SetLayout:
    """One set to lay out, new or kept from the old file."""

    label: str
    content_key: str
    metadata_digest: str
    parts: Mapping[str, Part]


@dataclass(frozen=True)
class StoredSet:
    """One set found in a file, its structure checked."""

    modality: Modality
    name: str
    content_key: str
    metadata_digest: str
    regions: Mapping[str, Region]

    @property
    def label(self) -> str:
        """``<modality>/<name>``: the group in the file."""
        return f"{self.modality}/{self.name}"

    @property
    def rows(self) -> int:
        """How many items it has."""
        return self.regions["state"].shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all its datasets."""
        return sum(region.nbytes for region in self.regions.values())


class DamagedSetError(ValueError):
    """A set whose structure cannot be used; the message says why."""


# ---------------------------------------------------------------- what a set has


def expected_parts(modality: Modality, name: str, dtype: str) -> dict[str, tuple[np.dtype[Any], str]]:
    """Dataset -> (dtype, shape): "rows" [n], "bytes" [any], "table" [n, dim], "reasons" [n, 96]."""
    parts = {
        "embeddings": (STORED_DTYPES[dtype], "table"),
        "state": (BYTES, "rows"),
        "checksums": (CHECKSUMS, "rows"),
        "source": (ROW_NUMBERS, "rows"),
        "made": (BYTES, "bytes"),
    }
    texts = ["ids", "content"]
    if modality == "images":
        parts["reason"] = (BYTES, "reasons")
    elif name == ORIGINAL:
        parts["image"] = (ROW_NUMBERS, "rows")
    if name != ORIGINAL:
        parts |= {"changed": (BYTES, "rows"), "variant": (BYTES, "bytes")}
        texts.append("change")
    for text in texts:
        parts |= text_parts(text)
    return parts


def text_parts(text: str) -> dict[str, tuple[np.dtype[Any], str]]:
    """The two datasets of a text."""
    return {text: (BYTES, "bytes"), f"{text}_ends": (ROW_NUMBERS, "rows")}


def metadata_digest(content_key: str, tables: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 (hex) of the content key and of the bytes of all datasets that never change."""
    digest = hashlib.sha256(content_key.encode())
    for name in sorted(tables):
        digest.update(f"{name} {tables[name].dtype.str} {tables[name].shape}".encode())
        digest.update(np.ascontiguousarray(tables[name]).view(np.uint8).data)
    return digest.hexdigest()


def new_layout(plan: SetPlan, header: StoreHeader) -> SetLayout:
    """The layout of a planned set. Raises `InputError` for text that has no UTF-8 form."""
    texts = {"ids": plan.ids, "content": plan.content, "digest": plan.content_digest, "change": plan.change}
    tables: dict[str, NDArray[Any]] = {"source": np.asarray(plan.source, dtype=ROW_NUMBERS)}
    for name, text in texts.items():
        if text is not None:
            tables[name], tables[f"{name}_ends"] = pack_texts(f"{plan.label} {name}", text)
    if plan.image is not None:
        tables["image"] = np.asarray(plan.image, dtype=ROW_NUMBERS)
    if plan.changed is not None:
        tables["changed"] = np.asarray(plan.changed, dtype=BYTES)
    if plan.variant is not None:
        tables["variant"] = np.frombuffer(plan.variant.to_json(), dtype=BYTES)
    tables["made"] = np.frombuffer(json.dumps(dict(plan.made), sort_keys=True).encode(), dtype=BYTES)
    parts = {name: Part(table.dtype, table.shape, table) for name, table in tables.items()}
    parts["state"] = Part(BYTES, (plan.rows,), None)
    parts["checksums"] = Part(CHECKSUMS, (plan.rows,), None)
    if plan.modality == "images":
        parts["reason"] = Part(BYTES, (plan.rows, REASON_BYTES), None)
    width = header.dim if plan.width is None else plan.width
    parts["embeddings"] = Part(STORED_DTYPES[header.dtype], (plan.rows, width), None)
    key = plan.content_key(header.encoder_fingerprint)
    return SetLayout(plan.label, key, metadata_digest(key, tables), parts)


def kept_layout(stored: StoredSet) -> SetLayout:
    """The layout that copies a set of the old file as it is."""
    parts = {name: Part(region.dtype, region.shape, region) for name, region in stored.regions.items()}
    return SetLayout(stored.label, stored.content_key, stored.metadata_digest, parts)


# ---------------------------------------------------------------- laying out


def lay_out(
    path: Path, shown: Path, header: StoreHeader, layouts: Sequence[SetLayout], old: int | None
) -> None:
    """Write a whole new file at `path` (`shown` in errors); kept sets are copied from the descriptor `old`.

    The cost is the size of the new file: kept bytes are read and written once, the rest is reserved.
    Raises `InputError` when there is no room; the file at `path` is then removed.
    """
    needed = METADATA_BLOCK_BYTES + sum(
        STRUCTURE_BYTES_A_SET
        + sum(Region(0, part.dtype, part.shape).nbytes for part in layout.parts.values())
        for layout in layouts
    )
    try:
        reserve_ahead(path, needed)
        create_structure(path, header, layouts)
        fill(path, layouts, old)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise storage_error(shown, needed, error) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def reserve_ahead(path: Path, needed: int) -> None:
    """Ask for the space before HDF5 is at work, so that a full disk is met outside of it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        reserve(file, needed)
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def reserve(file: int, size: int) -> None:
    """Reserve `size` bytes where the platform can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


def storage_error(
    path: Path, needed: int, error: OSError, instead: str = "choose another place with --out"
) -> InputError:
    """The one line for a write that failed; `instead` is what to do where no space can be freed."""
    if error.errno in OUT_OF_SPACE:
        free = shutil.disk_usage(path.parent).free
        return InputError(
            f"no space left for {path}: {needed:,} bytes are needed, {free:,} are free"
            f" (or a limit or quota is lower); free some or {instead}"
        )
    return InputError(f"cannot write {path}: {error.strerror or error}")


def create_structure(path: Path, header: StoreHeader, layouts: Sequence[SetLayout]) -> None:
    """Groups, attributes and early allocated contiguous datasets; no values. The rows come last."""
    with h5py.File(path, "w", libver="earliest", meta_block_size=METADATA_BLOCK_BYTES, locking=False) as file:
        for name, value in header_attributes(header).items():
            write_attribute(file, name, value)
        for modality in MODALITIES:
            file.create_group(modality)
        for layout in layouts:
            group = file.create_group(layout.label)
            write_attribute(group, "content_key", layout.content_key)
            write_attribute(group, "metadata_digest", layout.metadata_digest)
            for name in sorted(set(layout.parts) - {"embeddings"}):
                create_dataset(group, name, layout.parts[name])
        for layout in layouts:
            create_dataset(file[layout.label], "embeddings", layout.parts["embeddings"])


def create_dataset(group: Any, name: str, part: Part) -> None:
    """A contiguous dataset whose place is fixed at once and that HDF5 never fills."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    dtype, space = h5py.h5t.py_create(part.dtype), h5py.h5s.create_simple(part.shape)
    h5py.h5d.create(group.id, name.encode(), dtype, space, properties)


def write_attribute(target: Any, name: str, value: str | int) -> None:
    """A fixed-length UTF-8 or int64 attribute. Raises `InputError` for text too long to be an attribute."""
    if isinstance(value, int):
        target.attrs.create(name, value, dtype=ROW_NUMBERS)
        return
    encoded = pack_texts(f"store attribute {name}", [value])[0].tobytes()
    if len(encoded) > LONGEST_ATTRIBUTE:
        raise InputError(
            f"{name} has {len(encoded):,} bytes, at most {LONGEST_ATTRIBUTE:,} fit in a store's header"
        )
    dtype = h5py.string_dtype("utf-8", max(1, len(encoded)))
    target.attrs.create(name, np.array(encoded, dtype=dtype), dtype=dtype)


def fill(path: Path, layouts: Sequence[SetLayout], old: int | None) -> None:
    """Reserve the space of the new file, write what is known, copy what is kept, and see it on the disk."""
    with path.open("r+b") as handle:
        file = handle.fileno()
        reserve(file, os.fstat(file).st_size)
        with h5py.File(path, "r", locking=False) as structure:
            places = {layout.label: group_regions(structure[layout.label]) for layout in layouts}
        for layout in layouts:
            for name, part in layout.parts.items():
                place = places[layout.label][name]
                if isinstance(part.origin, Region) and old is not None:
                    copy_region(old, part.origin, file, place.offset)
                elif isinstance(part.origin, np.ndarray):
                    write_rows(file, place, 0, part.origin)
        os.fsync(file)


# ---------------------------------------------------------------- the header


def header_attributes(header: StoreHeader) -> dict[str, str | int]:
    """The attributes of the file."""
    normalised = int(header.rows == EMBEDDINGS)
    values: dict[str, str | int] = {"kind": KIND, "schema_version": SCHEMA_VERSION, "normalised": normalised}
    told = {name: value for name, value in asdict(header).items() if UNSAID.get(name) != value}
    for name, value in told.items():
        values[name] = json.dumps(value, sort_keys=True) if name == "versions" else value
    values["header_digest"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return values


def read_header(path: Path, file: Any) -> StoreHeader:
    """The header of an open file.

    Raises `InputError` for an HDF5 file that is no store, a newer schema, or a header whose digest does not
    hold.
    """
    if "kind" not in file.attrs or read_attribute(file, "kind") != KIND:
        raise InputError(
            f"{path} is an HDF5 file but not an itrstress store; make one with `itrstress embed` or `import`"
        )
    version = read_attribute(file, "schema_version")
    if version != SCHEMA_VERSION:
        remedy = (
            "update itrstress" if isinstance(version, int) and version > SCHEMA_VERSION else "write it again"
        )
        raise InputError(
            f"{path} has store schema {version}, this itrstress reads schema {SCHEMA_VERSION}; {remedy}"
        )
    names = [one.name for one in fields(StoreHeader) if one.name not in UNSAID or one.name in file.attrs]
    values: dict[str, Any] = {name: read_attribute(file, name) for name in names}
    if values.get("rows", EMBEDDINGS) not in get_args(RowKind):
        raise DamagedSetError(f"rows of a kind {values['rows']!r} that is not known")
    values["versions"] = json.loads(values["versions"])
    with naming(path):
        header = StoreHeader(**values)
    if header_attributes(header)["header_digest"] != read_attribute(file, "header_digest"):
        raise DamagedSetError("the header does not have the digest it was written with")
    return header


def read_attribute(target: Any, name: str) -> str | int:
    """A fixed-length text or integer attribute. Raises `DamagedSetError` for any other kind of attribute."""
    attribute = target.attrs.get_id(name)
    if (
        attribute.shape != ()
        or attribute.dtype.kind not in "Si"
        or attribute.dtype.itemsize > LONGEST_ATTRIBUTE
    ):
        raise DamagedSetError(f"attribute {name} is not a short text or an integer")
    value = target.attrs[name]
    return value.decode() if isinstance(value, bytes) else int(value)


# ---------------------------------------------------------------- finding


@dataclass(frozen=True)
class FileEnds:
    """Bytes the file has, and bytes it had when it was written (more, when it was cut off)."""

    actual: int
    stored: int


def find_sets(file: Any, header: StoreHeader, ends: FileEnds) -> tuple[list[StoredSet], dict[str, str]]:
    """The sets of an open file whose structure holds, images first; label -> what is wrong for the others.

    Of a file that was cut off, a set is found when only embeddings are lost.
    """
    found: list[StoredSet] = []
    damaged: dict[str, str] = {}
    for modality in MODALITIES:
        try:
            names = sorted(own_members(file, modality), key=lambda name: (name != ORIGINAL, name))
        except H5_ERRORS as error:
            damaged[modality] = reason_of(error)
            continue
        for name in names:
            try:
                found.append(find_set(file[modality], modality, name, header, ends))
            except (*H5_ERRORS, InputError) as error:
                damaged[printable(f"{modality}/{name}")] = reason_of(error)
        if names and ORIGINAL not in names:
            damaged[f"{modality}/{ORIGINAL}"] = "it is not there, though variants of it are"
    return found, damaged


def reason_of(error: BaseException) -> str:
    """What an exception says, on one line of ours."""
    if isinstance(error, DamagedSetError | InputError):
        return printable(str(error))
    return f"its HDF5 structure cannot be read ({printable(str(error))})"


def printable(text: str) -> str:
    """The text with control characters (names in a file may hold any) as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def own_members(parent: Any, name: str) -> Iterator[str]:
    """Names in a group that lies in this file. Raises `DamagedSetError` when a link leads elsewhere."""
    check_link(parent, name)
    group = parent[name]
    if not isinstance(group, h5py.Group):
        raise DamagedSetError(f"{name} is not a group")
    return iter(list(group))


def check_link(parent: Any, name: str) -> None:
    """Only hard links stay inside the file for sure; soft and external ones are refused."""
    link = parent.get(name, getlink=True)
    if link is None:
        raise DamagedSetError(f"{name} is not there")
    if not isinstance(link, h5py.HardLink):
        raise DamagedSetError(f"{name} is a link to elsewhere ({type(link).__name__}); refused")


def find_set(parent: Any, modality: Modality, name: str, header: StoreHeader, ends: FileEnds) -> StoredSet:
    """One set, checked. Raises `DamagedSetError` (or one of `H5_ERRORS`) saying what does not fit."""
    check_set_name(name)
    own_members(parent, name)
    group = parent[name]
    regions = group_regions(group)
    check_regions(regions, modality, name, header, ends)
    key, digest = read_attribute(group, "content_key"), read_attribute(group, "metadata_digest")
    return StoredSet(modality, name, str(key), str(digest), regions)


def group_regions(group: Any) -> dict[str, Region]:
    """Where every dataset of a group lies. Raises `DamagedSetError` for data not in one piece in the file."""
    return {name: dataset_region(group, name) for name in group}


def dataset_region(group: Any, name: str) -> Region:
    """Where one dataset lies."""
    check_link(group, name)
    dataset = group[name]
    if not isinstance(dataset, h5py.Dataset):
        raise DamagedSetError(f"{name} is not a dataset")
    properties = dataset.id.get_create_plist()
    if (
        properties.get_layout() != h5py.h5d.CONTIGUOUS
        or properties.get_external_count()
        or properties.get_nfilters()
    ):
        raise DamagedSetError(
            f"{name} is not kept in one piece inside the file (virtual, external, chunked); refused"
        )
    offset = dataset.id.get_offset()
    if offset is None and dataset.size:
        raise DamagedSetError(f"{name} has no place in the file")
    return Region(int(offset or 0), dataset.dtype, tuple(int(size) for size in dataset.shape))


def check_regions(
    regions: Mapping[str, Region], modality: Modality, name: str, header: StoreHeader, ends: FileEnds
) -> None:
    """Raise `DamagedSetError` unless names, dtypes, shapes and places are those of such a set."""
    expected = expected_parts(modality, name, header.dtype)
    if "digest" in regions:
        expected |= text_parts("digest")
    if set(regions) != set(expected):
        odd = ", ".join(sorted(set(regions) ^ set(expected)))
        raise DamagedSetError(f"its datasets are not those of the schema (too many or missing: {odd})")
    rows = regions["state"].shape[0] if len(regions["state"].shape) == 1 else 0
    if rows < 1:
        raise DamagedSetError("it has no rows")
    for part, (dtype, kind) in expected.items():
        region = regions[part]
        any_bytes = region.shape[0] if len(region.shape) == 1 else -1
        shape = {
            "rows": (rows,),
            "bytes": (any_bytes,),
            "table": (rows, row_width(modality, name, header, region)),
            "reasons": (rows, REASON_BYTES),
        }[kind]
        if region.dtype != dtype or region.shape != shape:
            raise DamagedSetError(f"{part} is {region.dtype} {region.shape}, expected {dtype} {shape}")
        if region.offset + region.nbytes > (ends.stored if part == "embeddings" else ends.actual):
            raise DamagedSetError(f"{part} lies beyond the end of the file")


def row_width(modality: Modality, name: str, header: StoreHeader, region: Region) -> int:
    """How long a row has to be; of the scores of an image variant whatever it is."""
    if header.rows == EMBEDDINGS or modality == "captions":
        return header.dim
    return 0 if name == ORIGINAL else max(1, region.shape[-1] if region.shape else 1)


def read_metadata(file: int, stored: StoredSet) -> dict[str, NDArray[Any]]:
    """All datasets that never change. Raises `DamagedSetError` when their digest does not hold."""
    tables = {
        name: read_region(file, region) for name, region in stored.regions.items() if name not in MUTABLE
    }
    if metadata_digest(stored.content_key, tables) != stored.metadata_digest:
        raise DamagedSetError("its ids, texts or row numbers do not have the digest they were written with")
    return tables
