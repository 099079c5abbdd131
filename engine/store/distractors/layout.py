"""The file of a distractor set: its header, laying it out, finding its parts again.

One group ``<modality>/<name>`` with three contiguous, little-endian datasets, blocks being `BLOCK_ROWS` rows
(the last one may have fewer):

==============  ===================  =====================================
dataset         dtype, shape         meaning
==============  ===================  =====================================
``embeddings``  float16 or float32   L2-normalised rows ``[n, dim]``
``state``       uint8 ``[blocks]``   0 pending, 1 complete
``checksums``   uint32 ``[blocks]``  CRC-32 of the bytes of the block
==============  ===================  =====================================

As in a store, HDF5 lays out the file and is then left alone; space is reserved at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.store.raw import Region
from engine.store.schema import BYTES, CHECKSUMS, MODALITIES, STORED_DTYPES, StoredDtype
from engine.store.structure import (
    METADATA_BLOCK_BYTES,
    DamagedSetError,
    FileEnds,
    Part,
    create_dataset,
    group_regions,
    own_members,
    read_attribute,
    reserve,
    reserve_ahead,
    storage_error,
    write_attribute,
)
from engine.variants.variant import Modality

KIND = "itrstress distractors"
SCHEMA_VERSION = 1
BLOCK_ROWS = 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,99}")


@dataclass(frozen=True)
class DistractorHeader:
    """What a distractor set is of.

    `recipe` says where the rows come from; equal recipes for one checkpoint mean equal rows. `created` (ISO
    8601, UTC) and `versions` are filled in by the writer.
    """

    modality: Modality
    name: str
    encoder_spec: str
    encoder_fingerprint: str
    rows: int
    dim: int
    dtype: StoredDtype
    recipe: Mapping[str, Any]
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `InputError` for what no set can have."""
        if not NAME.fullmatch(self.name):
            raise InputError(
                f"a distractor set cannot have the name {self.name!r}; "
                "expected at most 100 letters, digits, and . _ = - inside"
            )
        if self.modality not in MODALITIES or self.dtype not in STORED_DTYPES:
            raise InputError(f"distractors cannot be {self.modality!r} of {self.dtype!r}")
        if self.rows < 1 or self.dim < 1:
            raise InputError(f"{self.label} would have {self.rows} rows of {self.dim}; expected at least one")

    @property
    def label(self) -> str:
        """``<modality>/<name>``: the group in the file."""
        return f"{self.modality}/{self.name}"

    @property
    def blocks(self) -> int:
        """How many blocks the rows are in."""
        return -(-self.rows // BLOCK_ROWS)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the rows in the file."""
        return STORED_DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of all datasets."""
        return sum(Region(0, part.dtype, part.shape).nbytes for part in parts_of(self).values())

    def content_key(self, checksums: NDArray[np.uint32]) -> str:
        """SHA-256 (hex) of the encoder's fingerprint, what the set is, and the checksums of all blocks."""
        same = (self.encoder_fingerprint, self.modality, self.rows, self.dim, self.dtype, dict(self.recipe))
        digest = hashlib.sha256(json.dumps([KIND, SCHEMA_VERSION, *same], sort_keys=True).encode())
        digest.update(np.ascontiguousarray(checksums, dtype=CHECKSUMS).tobytes())
        return digest.hexdigest()


def set_folder(store: Path) -> Path:
    """The folder of the distractor sets of a store."""
    return store.with_suffix(".distractors")


def set_file(store: Path, modality: str, name: str) -> Path:
    """The file of a set. The header checks the name before anything is written."""
    return set_folder(store) / set_file_name(modality, name)


def set_file_name(modality: str, name: str) -> str:
    """What the file of a set is called."""
    return f"{modality}.{name}.h5"


def parts_of(header: DistractorHeader) -> dict[str, Part]:
    """The datasets."""
    return {
        "state": Part(BYTES, (header.blocks,), None),
        "checksums": Part(CHECKSUMS, (header.blocks,), None),
        "embeddings": Part(header.stored_dtype, (header.rows, header.dim), None),
    }


def lay_out(path: Path, header: DistractorHeader) -> None:
    """Make the file, all blocks pending, its space reserved; an older one is replaced in one step.

    Raises `InputError` when there is no room; nothing is left behind then.
    """
    needed = header.nbytes + 2 * METADATA_BLOCK_BYTES
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_free(path, needed)
        reserve_ahead(temporary, needed)
        create_structure(temporary, header)
        with temporary.open("r+b") as file:
            reserve(file.fileno(), os.fstat(file.fileno()).st_size)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise storage_error(path, needed, error, "ask for fewer --rows") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_free(path: Path, needed: int) -> None:
    """Raise `InputError` when the disk has less than that many bytes."""
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise InputError(
            f"no space for {path}: {needed:,} bytes are needed, {free:,} are free; "
            "free some, or ask for fewer --rows"
        )


def create_structure(path: Path, header: DistractorHeader) -> None:
    """The group, its attributes and datasets; no values."""
    with h5py.File(path, "w", libver="earliest", meta_block_size=METADATA_BLOCK_BYTES, locking=False) as file:
        for name, value in header_attributes(header).items():
            write_attribute(file, name, value)
        group = file.create_group(header.label)
        for name, part in parts_of(header).items():
            create_dataset(group, name, part)


def header_attributes(header: DistractorHeader) -> dict[str, str | int]:
    """The attributes of the file."""
    values: dict[str, str | int] = {"kind": KIND, "schema_version": SCHEMA_VERSION, "normalised": 1}
    for name, value in asdict(header).items():
        values[name] = json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
    values["header_digest"] = hashlib.sha256(json.dumps(asdict(header), sort_keys=True).encode()).hexdigest()
    return values


def read_header(path: Path, file: Any) -> DistractorHeader:
    """The header of an open file. Raises `InputError` for another kind of file or a newer schema."""
    if "kind" not in file.attrs or read_attribute(file, "kind") != KIND:
        raise InputError(
            f"{path} is an HDF5 file but no distractor set; make one with `itrstress distractors`"
        )
    version = read_attribute(file, "schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path} has distractor schema {version}, this itrstress reads {SCHEMA_VERSION}; "
            "update itrstress, or make the set again"
        )
    values: dict[str, Any] = {one.name: read_attribute(file, one.name) for one in fields(DistractorHeader)}
    for name in ("recipe", "versions"):
        values[name] = json.loads(values[name])
    header = DistractorHeader(**values)
    if header_attributes(header)["header_digest"] != read_attribute(file, "header_digest"):
        raise DamagedSetError("the header does not have the digest it was written with")
    return header


def find_regions(file: Any, header: DistractorHeader, ends: FileEnds) -> dict[str, Region]:
    """Where the datasets lie. Raises `DamagedSetError` when they are not those of the header."""
    own_members(file, header.modality)
    own_members(file[header.modality], header.name)
    regions = group_regions(file[header.label])
    expected = parts_of(header)
    if set(regions) != set(expected):
        raise DamagedSetError("its datasets are not those of the schema")
    for name, part in expected.items():
        region = regions[name]
        if (region.dtype, region.shape) != (part.dtype, part.shape):
            raise DamagedSetError(
                f"{name} is {region.dtype} {region.shape}, expected {part.dtype} {part.shape}"
            )
        if region.offset + region.nbytes > ends.actual:
            raise DamagedSetError(f"cut off, it has {ends.actual:,} of {max(ends.stored, 1):,} bytes")
    return regions
