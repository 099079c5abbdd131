"""Where distractor rows come from: files of rows, a folder of clip-retrieval, another store.

A further kind is one more entry of `KINDS`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.store.arrays import normalise
from engine.store.clip_retrieval import numbered
from engine.store.reader import SIGNATURE, EmbeddingSet, Store, open_store
from engine.store.schema import COMPLETE, ORIGINAL, StoreHeader
from engine.variants.variant import Modality
from indexes.files import FileRows, open_fbin, open_npy

NPY_MAGIC = b"\x93NUMPY"
FOLDERS: Mapping[Modality, str] = {"images": "img_emb", "captions": "text_emb"}
IMPORTED = "imported:"


class DistractorSource(Protocol):
    """Rows on offer: `rows` of length `dim`; `recipe` tells them from other rows; `note` is for the user."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def dim(self) -> int:
        """Length of a row."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What identifies the rows."""

    @property
    def note(self) -> str:
        """What was left out, or nothing."""

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows [start, stop), L2-normalised. Raises `InputError` naming a row that cannot be."""

    def close(self) -> None:
        """Close what it reads from."""


@dataclass(frozen=True)
class FileSource:
    """The rows of files, one after the other; `kind` is their format."""

    kind: str
    files: tuple[FileRows, ...]
    note: str = ""

    def __post_init__(self) -> None:
        """Raise `InputError` when the files differ in dimension."""
        for file in self.files:
            if file.shape[1] != self.dim:
                raise InputError(
                    f"{file.path} has {file.shape[1]} dimensions, {self.files[0].path} has {self.dim};"
                    f" expected rows of one model"
                )

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """int64 [files]: the row after the last of each file."""
        return np.cumsum([file.shape[0] for file in self.files], dtype=np.int64)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return int(self.ends[-1])

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.files[0].shape[1]

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Format, and a digest of names, dtypes and shapes; the content is compared when work is resumed."""
        named = [[file.path.name, file.dtype.str, file.shape] for file in self.files]
        return {"from": self.kind, "files": hashlib.sha256(json.dumps(named).encode()).hexdigest()}

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows [start, stop) of at least one, L2-normalised."""
        firsts = self.ends - [file.shape[0] for file in self.files]
        parts = [
            normalised_rows(file, max(start, first) - first, min(stop, end) - first)
            for file, first, end in zip(self.files, firsts.tolist(), self.ends.tolist(), strict=True)
            if max(start, first) < min(stop, end)
        ]
        return np.concatenate(parts)

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.close()


def normalised_rows(file: FileRows, start: int, stop: int) -> NDArray[np.float64]:
    """Rows [start, stop) of a file, L2-normalised."""
    return normalise(file.read(start, stop).astype(np.float64), lambda row: f"{file.path} row {start + row}")


@dataclass(frozen=True)
class StoreSource:
    """Some rows of a set of another store: `kept` int64, ascending."""

    store: Store
    found: EmbeddingSet
    content_key: str
    kept: NDArray[np.int64]
    note: str

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return len(self.kept)

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.store.header.dim

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The set's content key, and which rows of it are kept."""
        kept = hashlib.sha256(self.kept.astype("<i8").tobytes()).hexdigest()
        return {"from": "store", "set": self.content_key, "kept": kept}

    def read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows [start, stop) of at least one, L2-normalised."""
        chosen = self.kept[start:stop]
        first = int(chosen[0])
        found = self.found.rows.read(first, int(chosen[-1]) + 1)[chosen - first].astype(np.float64)
        return normalise(found, lambda row: f"{self.store.path} {self.found.name} row {chosen[row]}")

    def close(self) -> None:
        """Close the store."""
        self.store.close()


# ---------------------------------------------------------------- opening


def open_npy_source(path: Path, modality: Modality, store: Store) -> DistractorSource:
    """One `.npy` file."""
    return FileSource("npy", (open_npy(path),))


def open_fbin_source(path: Path, modality: Modality, store: Store) -> DistractorSource:
    """One `.fbin` file."""
    return FileSource("fbin", (open_fbin(path),))


def open_folder_source(path: Path, modality: Modality, store: Store) -> DistractorSource:
    """The embeddings of a clip-retrieval folder; its metadata are not needed."""
    name = FOLDERS[modality]
    return FileSource(
        "clip-retrieval", tuple(open_npy(file) for file in numbered(path, name, name, "npy").values())
    )


def open_store_source(path: Path, modality: Modality, store: Store) -> DistractorSource:
    """The originals of another store of the same checkpoint, without those that are originals of `store` too.

    Raises `InputError` for another checkpoint. Stores of imported embeddings have a fingerprint of their own
    each; those are taken at the word of their model's name.
    """
    other = open_store(path)
    check_checkpoint(other, store.header)
    found = other.load(modality, ORIGINAL)
    info = next(one for one in other.sets if (one.modality, one.name) == (modality, ORIGINAL))
    usable = np.flatnonzero(found.state == COMPLETE)
    known = set(identities(store.load(modality, ORIGINAL)))
    theirs = identities(found)
    kept = np.array([row for row in usable.tolist() if theirs[row] not in known], dtype=np.int64)
    if not len(kept):
        raise InputError(
            f"{path}: all its {modality} are originals of {store.path} too; nothing is left to add"
        )
    left_out = len(usable) - len(kept)
    note = f"{left_out:,} {modality} of {path} are originals of {store.path} too and were left out"
    return StoreSource(other, found, info.content_key, kept, note if left_out else "")


def check_checkpoint(other: Store, header: StoreHeader) -> None:
    """Raise `InputError` unless both are of one checkpoint, or imported under one model's name."""
    imported = header.encoder_spec.startswith(IMPORTED) and header.encoder_spec == other.header.encoder_spec
    if other.header.encoder_fingerprint != header.encoder_fingerprint and not imported:
        raise InputError(
            f"{other.path} is of the checkpoint {other.header.encoder_spec} "
            f"({other.header.encoder_fingerprint[:12]}), expected {header.encoder_spec} "
            f"({header.encoder_fingerprint[:12]}); distractors must be of the same checkpoint"
        )


def identities(found: EmbeddingSet) -> Sequence[str]:
    """What an item is: the digest of its file where it is known, else its text or file name."""
    return found.content_digest or found.content


@dataclass(frozen=True)
class Kind:
    """One kind of source: how it is recognised and opened."""

    name: str
    matches: Callable[[Path], bool]
    open: Callable[[Path, Modality, Store], DistractorSource]
    both: bool  # it has images and captions


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file; none where it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(SIGNATURE))
    return b""


KINDS = (
    Kind("a clip-retrieval folder", Path.is_dir, open_folder_source, True),
    Kind("a store", lambda path: first_bytes(path) == SIGNATURE, open_store_source, True),
    Kind("a .npy file", lambda path: first_bytes(path).startswith(NPY_MAGIC), open_npy_source, False),
    Kind("an .fbin file", lambda path: path.suffix == ".fbin", open_fbin_source, False),
)


def kind_of(path: Path) -> Kind:
    """The kind of a path. Raises `InputError` when it is not there or of none."""
    if not path.exists():
        raise InputError(f"--from {path}: not there; expected {', '.join(kind.name for kind in KINDS)}")
    if not path.is_dir():
        check_regular_file(path, "distractor rows")
    found = next((kind for kind in KINDS if kind.matches(path)), None)
    if found is None:
        raise InputError(
            f"--from {path}: of no known kind; expected {', '.join(kind.name for kind in KINDS)}"
        )
    return found
