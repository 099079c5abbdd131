"""Opening an index: its record and its gallery, held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from engine.errors import InputError
from engine.store.fixed_index.record import GALLERY_FILE, IndexRecord, read_record, record_of
from engine.store.reader import Store, open_store


@dataclass(frozen=True)
class FixedIndex:
    """An open index; a context manager. Made by `open_index`.

    `gallery` is the store of its gallery sets. `fingerprint` is of everything that a search in it depends on.
    """

    path: Path
    record: IndexRecord
    gallery: Store

    @property
    def name(self) -> str:
        """What to call it: the name of its folder."""
        return self.path.resolve().name

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex)."""
        return self.record.fingerprint

    def __enter__(self) -> FixedIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gallery.close()


def open_index(folder: str | Path) -> FixedIndex:
    """Open the index in a folder.

    The rows are not read: each is held against its checksum when it is searched, and the checksums are held
    against the record here. Raises `InputError` for a folder that is no index, another schema, a gallery that
    is missing, damaged, cut off or not the one that the index was made with.
    """
    folder = Path(folder)
    record = read_record(folder)
    gallery = open_store(folder / GALLERY_FILE)
    try:
        check_gallery(folder, record, gallery)
    except BaseException:
        gallery.close()
        raise
    return FixedIndex(folder, record, gallery)


def check_gallery(folder: Path, record: IndexRecord, gallery: Store) -> None:
    """Raise `InputError` unless the gallery is the one of the record."""
    there = record_of(gallery, record.command)
    if there.fingerprint == record.fingerprint:
        return
    labels = {one.label for one in record.sets} | {one.label for one in there.sets}
    wanted, found = ({one.label: one for one in sets} for sets in (record.sets, there.sets))
    differing = [label for label in sorted(labels) if wanted.get(label) != found.get(label)]
    what = f"set {', '.join(differing)}" if differing else "header"
    raise InputError(
        f"{folder}: {GALLERY_FILE} is not the gallery that the index was made with (another {what}); "
        "build the index again"
    )
