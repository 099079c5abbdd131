"""What an index says of itself: ``index.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.path_text import storable
from engine.store.raw import read_region
from engine.store.reader import SetInfo, Store
from engine.store.schema import StoredDtype
from engine.store.writer import now
from engine.variants.variant import Modality

KIND = "itrstress index"
SCHEMA_VERSION = 1
INDEX_FILE = "index.json"
GALLERY_FILE = "gallery.h5"
LARGEST_RECORD = 16 << 20  # bytes
MAKE_ONE = "make one with `itrstress index build`"


class Part(BaseModel):
    """A part of the file: frozen, nothing converted, no unknown field."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class IndexedSet(Part):
    """One gallery set: its rows, how many of them were skipped, its content key.

    `rows_sha256` is the SHA-256 (hex) of the states and checksums of its rows, in their order. Every row is
    held against its checksum when it is read, so it stands for the rows without a pass over them.
    """

    modality: Modality
    name: str
    rows: int
    skipped: int
    content_key: str
    rows_sha256: str

    @property
    def label(self) -> str:
        """``<modality>/<name>``."""
        return f"{self.modality}/{self.name}"


class IndexRecord(Part):
    """What an index is of. `space` is the id of its vectors' space (`StoreHeader.space_id`), `command` what
    made it, `created` ISO 8601 in UTC."""

    kind: Literal["itrstress index"] = "itrstress index"
    schema_version: Literal[1] = 1
    space: str
    encoder_spec: str
    encoder_fingerprint: str
    corpus_name: str
    corpus_fingerprint: str
    normalisation: str
    dim: int
    dtype: StoredDtype
    sets: tuple[IndexedSet, ...]
    command: tuple[str, ...] = ()
    created: str
    versions: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that a search in it depends on: space, encoder, corpus, sets and rows."""
        names = ("space", "encoder_fingerprint", "corpus_fingerprint", "normalisation", "dim", "dtype")
        sets = [one.model_dump() for one in self.sets]
        told = [KIND, SCHEMA_VERSION, *(getattr(self, name) for name in names), sets]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of the file; the fingerprint is told for people and other programs."""
        return json.dumps({**self.model_dump(mode="json"), "fingerprint": self.fingerprint}, indent=2) + "\n"


def record_of(gallery: Store, command: Sequence[str]) -> IndexRecord:
    """The record of an index with this gallery."""
    header = gallery.header
    return IndexRecord(
        space=header.space_id,
        encoder_spec=header.encoder_spec,
        encoder_fingerprint=header.encoder_fingerprint,
        corpus_name=header.corpus_name,
        corpus_fingerprint=header.corpus_fingerprint,
        normalisation=header.normalisation,
        dim=header.dim,
        dtype=header.dtype,
        sets=tuple(indexed_set(gallery, info) for info in gallery.sets),
        command=tuple(storable(list(command))),
        created=now(),
        versions=dict(header.versions),
    )


def indexed_set(gallery: Store, info: SetInfo) -> IndexedSet:
    """A set as the record says it."""
    regions = gallery.stored(info.modality, info.name).regions
    digest = hashlib.sha256()
    for name in ("state", "checksums"):
        digest.update(np.ascontiguousarray(read_region(gallery.fileno(), regions[name])).tobytes())
    return IndexedSet(
        modality=info.modality,
        name=info.name,
        rows=info.rows,
        skipped=info.skipped,
        content_key=info.content_key,
        rows_sha256=digest.hexdigest(),
    )


def read_record(folder: Path) -> IndexRecord:
    """The record of the index in a folder.

    Raises `InputError` when the folder holds none, or one that is cut off, changed or of another schema.
    """
    file = folder / INDEX_FILE
    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise InputError(f"{folder}: {found}, expected the folder of an index; {MAKE_ONE}")
    if not file.exists():
        raise InputError(f"{folder}: no index, it holds no {INDEX_FILE}; {MAKE_ONE}")
    size = check_regular_file(file, "the record of an index").st_size
    if size > LARGEST_RECORD:
        raise InputError(f"{file}: {size:,} bytes, the record of an index has at most {LARGEST_RECORD:,}")
    document = load(file)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"{file}: not the record of an index; {MAKE_ONE}")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"{file}: index schema {version!r}, this itrstress reads schema {SCHEMA_VERSION}; "
            "build the index again, or use the itrstress that made it"
        )
    told = document.pop("fingerprint", None)
    try:
        record = IndexRecord.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise InputError(f"{file}: {place}: {problem['msg']}; build the index again") from error
    if record.fingerprint != told:
        raise InputError(
            f"{file}: changed since it was written (its fingerprint does not hold); build it again"
        )
    return record


def load(file: Path) -> Any:
    """The JSON value of a file. Raises `InputError`."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON, or cut off ({error}); build the index again") from error
