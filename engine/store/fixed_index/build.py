"""From a store to an index: complete gallery sets are copied byte for byte, with their keys and checksums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.errors import InputError, unknown_name
from engine.outputs.atomic import output_folder
from engine.store.fixed_index.record import GALLERY_FILE, INDEX_FILE, IndexRecord, record_of
from engine.store.reader import SetInfo, Store, check_embeddings, open_store
from engine.store.schema import MODALITIES, ORIGINAL
from engine.store.writer import replace_file
from engine.variants.variant import Modality


def build_index(
    store: Store,
    out: Path,
    *,
    sides: Sequence[Modality] = (),
    variants: Sequence[str] | None = None,
    space: str = "",
    force: bool = False,
    command: Sequence[str] = (),
    inputs: Iterable[Path] = (),
) -> IndexRecord:
    """Freeze the gallery sets of a store in the folder `out`, whole or not at all.

    `sides` are the modalities of the galleries (none: all that the store has), `variants` names of gallery
    variants (None: all of these sides). `space` declares the space of a store that does not say its own; one
    that says another is an error. Raises `InputError` also for a store of scores, for a set that is not
    there, not complete or damaged, and as `engine.outputs.atomic.output_folder` does.
    """
    check_embeddings(store)
    header = store.header
    if space and header.space and space != header.space:
        raise InputError(f"{store.path} is of the space {header.space!r}, not {space!r}; leave out --space")
    sets = gallery_sets(store, sides, variants)
    for info in sets:
        check_whole(store, info)
    with output_folder(out, INDEX_FILE, force=force, inputs=inputs) as folder:
        kept = [store.stored(info.modality, info.name) for info in sets]
        stamped = replace(header, space=space or header.space)
        replace_file(folder / GALLERY_FILE, stamped, [], store, kept)
        return finish(folder, command)


def finish(folder: Path, command: Sequence[str]) -> IndexRecord:
    """Write the record of a folder's gallery, and protect both from being written."""
    with open_store(folder / GALLERY_FILE) as gallery:
        record = record_of(gallery, command)
    (folder / INDEX_FILE).write_text(record.to_json(), encoding="utf-8")
    for name in (GALLERY_FILE, INDEX_FILE):
        (folder / name).chmod(0o444)
    return record


def gallery_sets(store: Store, sides: Sequence[Modality], variants: Sequence[str] | None) -> list[SetInfo]:
    """The originals of each side and its gallery variants, in the order of the store.

    Raises `InputError` for a side that the store lacks and for a variant that no chosen side's gallery has.
    """
    there = [one for one in MODALITIES if any(info.modality == one for info in store.sets)]
    for side in sides or there or MODALITIES:
        store.stored(side, ORIGINAL)
    known = [
        info
        for info in store.sets
        if info.modality in (sides or there) and (info.variant is None or info.variant.side == "gallery")
    ]
    names = {info.name for info in known if info.variant is not None}
    for name in variants or ():
        if name not in names:
            raise InputError(
                f"{store.path}: {unknown_name('gallery variant', name, sorted(names))}"
                if names
                else f"{store.path} holds no gallery variant {name!r} of {', '.join(sides or there)}"
            )
    return [info for info in known if info.variant is None or variants is None or info.name in variants]


def check_whole(store: Store, info: SetInfo) -> None:
    """Raise `InputError` when rows of a set are missing, or do not keep their checksum."""
    store.load(info.modality, info.name)
    damaged = store.verify(info.modality, info.name)
    if damaged:
        raise InputError(
            f"{store.path} is damaged: the checksum of {info.label} row {damaged[0].start} does not hold; "
            "run embed again to repair the row, then build the index"
        )
