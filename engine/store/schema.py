"""The words of a store: its header, the plan of a set, and the names, dtypes and states that lie in the file.

A store is one HDF5 file for one encoder checkpoint on one corpus. It holds the groups ``images/<set>`` and
``captions/<set>``, a set being ``original`` or the canonical name of a variant. In each group, all contiguous
and little-endian, no filters:

==================  ==================  =====================================================================
dataset             dtype, shape        meaning
==================  ==================  =====================================================================
``embeddings``      float32 or float16  L2-normalised rows ``[n, dim]``, or scores (see below)
``state``           uint8 ``[n]``       0 pending, 1 complete, 2 skipped
``checksums``       uint32 ``[n]``      CRC-32 of the row, started at the row number (see `engine.store.raw`)
``reason``          uint8 ``[n, 96]``   why a row was skipped, UTF-8, padded with zeros (images only)
``ids``             text                id of the item
``source``          int64 ``[n]``       row of the original it was made from; its own row in ``original``
``content``         text                the caption, the image file, or the image recipe as JSON
``digest``          text                digest of what the item refers to, where known (optional)
``image``           int64 ``[n]``       row of the image it describes (``captions/original`` only)
``change``          text                what was done to the original, as JSON (variants only)
``changed``         uint8 ``[n]``       1 where it differs from its original (variants only)
``variant``         uint8 ``[bytes]``   the `VariantRecord`, as JSON (variants only)
``made``            uint8 ``[bytes]``   how its rows were made: command, encoder, versions, texts cut, as JSON
==================  ==================  =====================================================================

In a store of scores (`StoreHeader.rows`) a row holds the scores of an item with every original of the other
modality: a caption's with all images, an image variant's with all captions. ``images/original`` has rows of
length 0: its scores are in the rows of the captions. Scores are float32 and not normalised.

A *text* is two datasets: ``<name>`` holds the UTF-8 bytes of all items one after the other (uint8) and
``<name>_ends`` the end of each (int64 ``[n]``). HDF5's own variable-length strings are not used: they cannot
hold a zero character, and reading them from a damaged file is at the mercy of pointers in the file.

There is one checksum a row, not one a block of rows, because rows become complete one batch at a time and in
any order: a block's checksum and its completion could not be brought up to date in one step, a kill between
the two would spoil rows that were complete before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.variants.variant import Modality, Side

SCHEMA_VERSION = 1
ORIGINAL = "original"
MODALITIES: tuple[Modality, ...] = ("images", "captions")

PENDING, COMPLETE, SKIPPED = 0, 1, 2

StoredDtype = Literal["float32", "float16"]
RowKind = Literal["embeddings", "scores"]
STORED_DTYPES: Mapping[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}

BYTES = np.dtype("u1")
ROW_NUMBERS = np.dtype("<i8")
CHECKSUMS = np.dtype("<u4")
REASON_BYTES = 96

# fields of the header that a file says only where they are not this, as stores older than they do
UNSAID = {"rows": "embeddings", "space": ""}

LONGEST_NAME = 255
LONGEST_ATTRIBUTE = 16_384


@dataclass(frozen=True)
class StoreHeader:
    """What a store is of: one checkpoint on one corpus.

    `dim` is the length of a row (in a store of scores, of a caption's: the number of images), `dtype` how
    rows are kept, `rows` what they are. `space` is the name declared for the space of the vectors, so that
    several checkpoints can share one ("": none is declared). `created` (ISO 8601, UTC) and `versions` are
    filled in by the writer and do not count for the identity of a store.
    """

    encoder_spec: str
    encoder_fingerprint: str
    dim: int
    corpus_name: str
    corpus_fingerprint: str
    normalisation: str
    dtype: StoredDtype = "float32"
    corpus_source: str = ""
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    rows: RowKind = "embeddings"
    space: str = ""

    @property
    def space_id(self) -> str:
        """The space of the vectors: the declared one, else the encoder's own, named by its fingerprint."""
        return self.space or self.encoder_fingerprint

    def __post_init__(self) -> None:
        """Raise `InputError` for a dimension or dtype that no store can have."""
        if self.rows == "scores" and self.dtype != "float32":
            raise InputError(f"scores cannot be kept as {self.dtype}, equal ones would be made; use float32")
        if self.dim < 1:
            raise InputError(f"an embedding has {self.dim} dimensions, expected at least 1")
        if self.dtype not in STORED_DTYPES:
            raise InputError(
                f"a store cannot keep rows as {self.dtype!r}, expected {' or '.join(STORED_DTYPES)}"
            )
        if self.space:
            check_space_name(self.space)


@dataclass(frozen=True)
class VariantRecord:
    """The variant of a set: its canonical name (with seed and parameters), and what became of the originals.

    `changed_rate` is the share of items in [0, 1] that differ from their originals; `left_out` maps rows of
    originals that have no item to the reason.
    """

    name: str
    side: Side
    modality: Modality
    changed_rate: float
    left_out: Mapping[int, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """UTF-8 JSON, keys sorted."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, text: bytes) -> VariantRecord:
        """The record `to_json` wrote. Raises ValueError when the fields are not those of a record."""
        data = json.loads(text)
        if not isinstance(data, dict) or set(data) != set(cls.__dataclass_fields__):
            raise ValueError("not a variant record")
        if data["side"] not in ("gallery", "query") or data["modality"] not in MODALITIES:
            raise ValueError("a variant record of an unknown side or modality")
        if not isinstance(data["left_out"], dict):
            raise ValueError("a variant record whose left-out rows are not an object")
        left_out = {int(row): str(reason) for row, reason in data["left_out"].items()}
        return cls(str(data["name"]), data["side"], data["modality"], float(data["changed_rate"]), left_out)


@dataclass(frozen=True)
class SetPlan:
    """The items of one set, before any is encoded. All sequences have one entry an item.

    `source` int64 [n]: rows of the originals. `image` int64 [n]: rows of the described images, for
    ``captions/original`` only. `variant`, `change` (JSON texts) and `changed` (bool [n]) for variants only.
    `made` says how its embeddings are made (command, encoder, versions), in what JSON can hold; it is no part
    of the key. `content_digest` may say what the content refers to (a digest of the image file's bytes); it
    becomes part of the key. `width` is the length of a row where it is not the store's `dim`. Raises
    `InputError` when the parts do not fit each other.
    """

    modality: Modality
    name: str
    ids: Sequence[str]
    source: NDArray[np.int64]
    content: Sequence[str]
    image: NDArray[np.int64] | None = None
    variant: VariantRecord | None = None
    change: Sequence[str] | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    changed: NDArray[np.bool_] | None = None
    content_digest: Sequence[str] | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        """Check the name, the lengths, and which parts belong to an original or to a variant."""
        check_set_name(self.name)
        if not self.ids:
            raise InputError(f"{self.label} has no items; there is nothing to store")
        for part in ("source", "content", "image", "change", "changed", "content_digest"):
            value = getattr(self, part)
            if value is not None and len(value) != self.rows:
                raise InputError(f"{self.label}: {len(value):,} entries of {part} for {self.rows:,} ids")
        expected = {
            "image": self.label == f"captions/{ORIGINAL}",
            "variant": self.name != ORIGINAL,
            "change": self.name != ORIGINAL,
            "changed": self.name != ORIGINAL,
        }
        for part, needed in expected.items():
            if (getattr(self, part) is not None) != needed:
                raise InputError(f"{self.label}: {part} is {'missing' if needed else 'not part of this set'}")
        check_unique(self.label, self.ids)

    @property
    def label(self) -> str:
        """``<modality>/<name>``: the group in the file."""
        return f"{self.modality}/{self.name}"

    @property
    def rows(self) -> int:
        """How many items it has."""
        return len(self.ids)

    def content_key(self, encoder_fingerprint: str) -> str:
        """SHA-256 (hex) of the encoder fingerprint and of all items: id, source, content, digest, image.

        Equal keys mean equal embeddings in equal order; what was done to an original is told by the content.
        """
        return hash_items(
            encoder_fingerprint, self.ids, self.source, self.content, self.content_digest, self.image
        )


def hash_items(
    encoder_fingerprint: str,
    ids: Sequence[str],
    source: NDArray[np.int64],
    content: Sequence[str],
    digest: Sequence[str] | None,
    image: NDArray[np.int64] | None,
) -> str:
    """The content key of `SetPlan.content_key`, from its parts."""
    key = hashlib.sha256(json.dumps(["itrstress set", SCHEMA_VERSION, encoder_fingerprint]).encode())
    parts: list[Sequence[Any]] = [ids, source.tolist(), content]
    parts.append(digest if digest is not None else [None] * len(ids))
    parts.append(image.tolist() if image is not None else [None] * len(ids))
    for item in zip(*parts, strict=True):
        key.update(json.dumps(item).encode())
    return key.hexdigest()


def check_set_name(name: str) -> None:
    """Raise `InputError` for a name that cannot be a group of the file."""
    if not name or "/" in name or name in (".", "..") or not name.isprintable():
        raise InputError(f"a set cannot have the name {name!r}; expected printable text without '/'")
    if len(name.encode()) > LONGEST_NAME:
        raise InputError(f"the set name {name[:40]!r}... is longer than {LONGEST_NAME} bytes; shorten it")


def check_space_name(name: str) -> None:
    """Raise `InputError` for what cannot be the name of a space."""
    if not name or not name.isprintable() or name != name.strip():
        raise InputError(f"a space cannot have the name {name[:40]!r}; expected printable text")
    if len(name.encode()) > LONGEST_NAME:
        raise InputError(f"the name of the space {name[:40]!r}... is longer than {LONGEST_NAME} bytes")


def check_unique(label: str, ids: Sequence[str]) -> None:
    """Raise `InputError` naming the first id that occurs twice."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, item_id in enumerate(ids):
        if item_id in seen:
            raise InputError(f"{label}: rows {seen[item_id]} and {row} have the same id {item_id!r}")
        seen[item_id] = row
