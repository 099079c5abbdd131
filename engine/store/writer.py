"""Writing a store so that a kill at any moment loses nothing that was complete.

The structure of the file is laid out before the first row (see `engine.store.structure`), in a temporary file
that is moved in place. From then on a batch is four plain writes into places that exist: the rows; then, when
they are on the disk (`fdatasync`), their checksums and their state. A row counts when its state says complete
and its checksum holds; whatever step a kill comes after, every row that counted before still does. HDF5 has
no part in this, so there is no half-written HDF5 structure, and no consistency flag or file lock of HDF5 that
a dead process could leave behind.

Adding sets to a store (or replacing some) lays out a new file with all sets and copies the kept ones, so it
costs reading and writing the bytes of the kept sets once; all sets of one `open_writer` call share one copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.outputs.atomic import flush_path
from engine.outputs.lock import WriterLock
from engine.packages import package_versions
from engine.store.place import check_store_place
from engine.store.raw import flush, read_region, row_checksums, runs, write_rows
from engine.store.reader import Store, find_damaged_rows, open_store
from engine.store.schema import (
    BYTES,
    COMPLETE,
    ORIGINAL,
    PENDING,
    REASON_BYTES,
    SKIPPED,
    RowKind,
    SetPlan,
    StoreHeader,
)
from engine.store.structure import StoredSet, kept_layout, lay_out, new_layout, storage_error
from indexes.validate import NORM_TOLERANCE

COMPUTED, FULL_PRECISION = "computed", "fp32"
# topics of an encoder's description that decide an embedding
ENCODER_TOPICS = {"images": "preprocessing", "texts": "reading of texts", COMPUTED: "precision"}


class OtherStoreError(InputError):
    """The store at a path is of another checkpoint or corpus; `difference` says in what."""

    def __init__(self, path: Path, difference: str) -> None:
        self.difference = difference
        super().__init__(f"{path} {difference}; choose another --out, or --force replaces the store")


def open_writer(
    path: str | Path, header: StoreHeader, plans: Sequence[SetPlan], *, force: bool = False
) -> StoreWriter:
    """Create a store, or go on with one: sets there under the same key are resumed, missing ones added.

    Raises `InputError` when the store is of another checkpoint or corpus, when a set of the same name has
    another content key (it says which part differs), when the file is damaged or no store, when another
    process writes it, or when there is no room. With `force` such a set is replaced, and a file that cannot
    be continued at all is replaced whole (see `engine.store.place` for what never is); other sets are kept.
    A store with no declared space gets that of the header; one that has differs from a header that declares
    none. A link is followed. Nothing changes on the disk when it raises.
    """
    path = check_store_place(Path(path))
    lock = WriterLock(path)
    try:
        lay_out_missing(path, header, plans, force)
        return StoreWriter(path, lock, plans)
    except BaseException:
        lock.release()
        raise


def lay_out_missing(path: Path, header: StoreHeader, plans: Sequence[SetPlan], force: bool) -> None:
    """Bring the file to a state where every planned set has its place."""
    if len({plan.label for plan in plans}) < len(plans):
        raise InputError(f"{path}: two sets of the same name are to be written; name each variant once")
    existing = open_existing(path, header, plans, force)
    if existing is None:
        replace_file(path, header, plans, None, [])
        return
    with existing:
        kept = {info.label: existing.stored(info.modality, info.name) for info in existing.sets}
        missing = [plan for plan in plans if plan.label not in kept]
        for plan in plans:
            difference = set_difference(existing, plan) if plan.label in kept else None
            if difference is None:
                continue
            if not force:
                raise InputError(f"{path}: {plan.label} is there with {difference}; --force replaces it")
            missing.append(plan)
            del kept[plan.label]
        declared = header.space if header.space != existing.header.space else ""
        if missing or declared:
            there = replace(existing.header, space=declared) if declared else existing.header
            replace_file(path, there, missing, existing, list(kept.values()))


def open_existing(path: Path, header: StoreHeader, plans: Sequence[SetPlan], force: bool) -> Store | None:
    """The store at `path` when it can be continued; None when there is none or all is to be replaced."""
    if not path.exists():
        return None
    try:
        store = open_store(path)
    except InputError:
        if force:
            return None
        raise
    difference = encoder_difference(store, header, plans) or header_difference(store.header, header)
    if difference is None:
        return store
    store.close()
    if force:
        return None
    raise OtherStoreError(path, difference)


def encoder_difference(store: Store, wanted: StoreHeader, plans: Sequence[SetPlan]) -> str | None:
    """In what the encoder of a store differs from the wanted one, both named; None when it is the same.

    Where the spec is the same, what else decides an embedding is compared as far as the store's sets and the
    plans say it (`made`): the precision, and how images and texts are prepared.
    """
    there = store.header
    if there.encoder_fingerprint == wanted.encoder_fingerprint:
        return None
    old, new = (made_with([one.made for one in sets]) for sets in (store.sets, plans))
    differing = [
        f"another {kind}: {old[topic]}, not {new[topic]}"
        for topic, kind in ENCODER_TOPICS.items()
        if topic in old and topic in new and old[topic] != new[topic]
    ]
    if there.encoder_spec == wanted.encoder_spec:
        what = " and ".join(differing) or (
            f"other weights or another configuration ({there.encoder_fingerprint[:12]}, "
            f"not {wanted.encoder_fingerprint[:12]})"
        )
        return f"is of the checkpoint {there.encoder_spec} with {what}"
    return " with ".join(
        [
            f"is of the checkpoint {there.encoder_spec} ({there.encoder_fingerprint[:12]}),"
            f" not {wanted.encoder_spec} ({wanted.encoder_fingerprint[:12]})",
            *differing[:1],
        ]
    )


def made_with(made: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """What sets say of their encoder, by topic.

    In fp32 neither device nor batch changes an embedding, so the precision is all that is said of it.
    """
    found = (one["encoder"] for one in made if isinstance(one.get("encoder"), Mapping))
    said: Mapping[str, str] = next(found, {})
    computed = str(said.get(COMPUTED, ""))
    return {**said, COMPUTED: FULL_PRECISION} if computed.startswith(FULL_PRECISION) else said


def header_difference(there: StoreHeader, wanted: StoreHeader) -> str | None:
    """Which part of a store's identity beside the encoder differs, both named; None when it is the same."""
    same_text = there.normalisation == wanted.normalisation
    if there.corpus_fingerprint != wanted.corpus_fingerprint or not same_text:
        return f"is of the corpus {corpus_words(there)}, not {corpus_words(wanted)}"
    for part in ("dim", "dtype"):
        if getattr(there, part) != getattr(wanted, part):
            return f"has {part} {getattr(there, part)}, not {getattr(wanted, part)}"
    if there.space and there.space != wanted.space:
        now = (
            f"not {wanted.space!r}"
            if wanted.space
            else "none is declared now (--space, `space:` in a run file)"
        )
        return f"is of the space {there.space!r}, {now}"
    return None


def corpus_words(header: StoreHeader) -> str:
    """A corpus for an error line: name, start of the fingerprint, normalisation."""
    return f"{header.corpus_name} ({header.corpus_fingerprint[:12]}, text {header.normalisation})"


def set_difference(store: Store, plan: SetPlan) -> str | None:
    """Which part of a stored set differs from the plan; None when their keys are equal."""
    if store.stored(plan.modality, plan.name).content_key == plan.content_key(
        store.header.encoder_fingerprint
    ):
        return None
    there = store.load(plan.modality, plan.name, complete=False)
    if len(there.ids) != plan.rows:
        return f"{len(there.ids):,} items, not {plan.rows:,}"
    none = [None] * plan.rows
    columns: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
        "id": (there.ids, plan.ids),
        "source": (there.source.tolist(), plan.source.tolist()),
        "content": (there.content, plan.content),
        "digest": (there.content_digest or none, plan.content_digest or none),
        "image": (
            none if there.image is None else there.image.tolist(),
            none if plan.image is None else plan.image.tolist(),
        ),
    }
    for row in range(plan.rows):
        for part, (old, new) in columns.items():
            if old[row] != new[row]:
                found = f"{shortened(old[row])}, not {shortened(new[row])}"
                return f"another {part} at row {row}{of_file(plan, part, row)}: {found}"
    return "another content key for the same items"


def of_file(plan: SetPlan, part: str, row: int) -> str:
    """The file, or the item made from several, whose bytes a digest is of; nothing for other parts."""
    if part != "digest":
        return ""
    return f" (the bytes of {plan.content[row] if plan.name == ORIGINAL else plan.ids[row]})"


def shortened(value: object) -> str:
    """A value for an error line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def replace_file(
    path: Path, header: StoreHeader, new: Sequence[SetPlan], old: Store | None, kept: Sequence[StoredSet]
) -> None:
    """Lay out a new file with the kept and the new sets beside the old one, and move it in place."""
    # one name, not a random one: what a kill left there is overwritten next time
    temporary = path.with_name(f".{path.name}.new")
    stamped = header if old is not None else replace(header, created=now(), versions=package_versions())
    layouts = [*(kept_layout(stored) for stored in kept), *(new_layout(plan, stamped) for plan in new)]
    try:
        lay_out(temporary, path, stamped, layouts, None if old is None else old.fileno())
        temporary.replace(path)
        flush_path(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise storage_error(path, 0, error) from error


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class StoreWriter:
    """Fills the sets of a store; a context manager. Made by `open_writer`, used from one thread at a time."""

    def __init__(self, path: Path, lock: WriterLock, plans: Sequence[SetPlan]) -> None:
        self.path = path
        self._lock = lock
        self._handle = path.open("r+b", buffering=0)
        self._file = self._handle.fileno()
        self._sets: dict[tuple[str, str], StoredSet] = {}
        self._states: dict[tuple[str, str], NDArray[np.uint8]] = {}
        self._damaged: dict[str, int] = {}
        try:
            with open_store(path) as store:
                self._check = CHECKS[store.header.rows]
                for plan in plans:
                    self._take_up(store.stored(plan.modality, plan.name))
        except BaseException:
            self._handle.close()
            raise

    def _take_up(self, stored: StoredSet) -> None:
        """Find out what of a set counts; rows whose checksum does not hold become pending again."""
        state = read_region(self._file, stored.regions["state"])
        damaged = find_damaged_rows(self._file, stored)
        if len(damaged):
            self._damaged[stored.label] = len(damaged)
            state[damaged] = PENDING
            write_rows(self._file, stored.regions["state"], 0, state)
        self._sets[stored.modality, stored.name] = stored
        self._states[stored.modality, stored.name] = state

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """See everything on the disk, close the file and let go of the lock. May be called twice."""
        if self._handle.closed:
            return
        try:
            flush(self._file)
        finally:
            self._handle.close()
            self._lock.release()

    @property
    def damaged(self) -> dict[str, int]:
        """Set -> rows that were complete, did not keep their checksum, and are pending again."""
        return dict(self._damaged)

    def pending(self, modality: str, name: str) -> NDArray[np.int64]:
        """int64: rows still to be written, in order."""
        self._stored(modality, name)
        return np.flatnonzero(self._states[modality, name] == PENDING).astype(np.int64)

    def is_pending(self, modality: str, name: str, rows_index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [m]: which of the rows are still to be written."""
        self._stored(modality, name)
        pending: NDArray[np.bool_] = self._states[modality, name][rows_index] == PENDING
        return pending

    def write(
        self, modality: str, name: str, rows_index: NDArray[np.int64], embeddings: NDArray[np.floating[Any]]
    ) -> None:
        """Write rows and mark them complete. When it returns, they outlive a kill.

        `rows_index` int64 [m], any order, none twice; `embeddings` float [m, dim], rows L2-normalised within
        1e-3, or scores. Raises `InputError` naming the row that is not finite or not normalised, or when
        there is no space left; ValueError for shapes and row numbers that do not fit.
        """
        stored = self._stored(modality, name)
        numbers = self._check_numbers(stored, rows_index)
        region = stored.regions["embeddings"]
        if embeddings.shape != (len(numbers), region.shape[1]):
            raise ValueError(f"embeddings are {embeddings.shape}, expected {(len(numbers), region.shape[1])}")
        self._check(stored.label, numbers, embeddings)
        self._put(stored, numbers, "embeddings", embeddings.astype(region.dtype), COMPLETE)

    def skip(self, modality: str, name: str, rows_index: NDArray[np.int64], reasons: Sequence[str]) -> None:
        """Mark images that have no embedding, with one reason each (cut to 96 bytes of UTF-8)."""
        stored = self._stored(modality, name)
        if "reason" not in stored.regions:
            raise ValueError(f"{stored.label}: only images can be skipped")
        numbers = self._check_numbers(stored, rows_index)
        if len(reasons) != len(numbers):
            raise ValueError(f"{len(reasons)} reasons for {len(numbers)} rows")
        table = np.zeros((len(numbers), REASON_BYTES), dtype=BYTES)
        for row, reason in enumerate(reasons):
            cut = reason.encode(errors="replace")[:REASON_BYTES].decode(errors="ignore").encode()
            table[row, : len(cut)] = np.frombuffer(cut, dtype=BYTES)
        self._put(stored, numbers, "reason", table, SKIPPED)

    def _put(
        self, stored: StoredSet, numbers: NDArray[np.int64], part: str, rows: NDArray[Any], state: int
    ) -> None:
        order = np.argsort(numbers)
        numbers, rows = numbers[order], rows[order]
        try:
            self._write_part(stored, part, numbers, rows)
            flush(self._file)
            self._write_part(stored, "checksums", numbers, row_checksums(rows, numbers))
            self._write_part(stored, "state", numbers, np.full(len(numbers), state, dtype=BYTES))
        except OSError as error:
            raise storage_error(self.path, rows.nbytes, error) from error
        self._states[stored.modality, stored.name][numbers] = state

    def _write_part(
        self, stored: StoredSet, part: str, numbers: NDArray[np.int64], rows: NDArray[Any]
    ) -> None:
        for start, stop in runs(numbers):
            write_rows(self._file, stored.regions[part], int(numbers[start]), rows[start:stop])

    def _stored(self, modality: str, name: str) -> StoredSet:
        if (modality, name) not in self._sets:
            raise ValueError(f"{modality}/{name} is not one of the sets this writer was opened for")
        return self._sets[modality, name]

    def _check_numbers(self, stored: StoredSet, rows_index: NDArray[np.int64]) -> NDArray[np.int64]:
        numbers = np.asarray(rows_index, dtype=np.int64)
        if numbers.ndim != 1 or len(np.unique(numbers)) < len(numbers):
            raise ValueError("row numbers are one list without repeats")
        if len(numbers) and not (int(numbers.min()) >= 0 and int(numbers.max()) < stored.rows):
            raise ValueError(
                f"{stored.label} has rows 0 to {stored.rows - 1}, not {numbers.min()} to {numbers.max()}"
            )
        return numbers


def check_rows(label: str, numbers: NDArray[np.int64], rows: NDArray[np.floating[Any]]) -> None:
    """Raise `InputError` naming the first row that is not finite or not L2-normalised within 1e-3."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    bad = np.flatnonzero(~(np.abs(norms - 1.0) <= NORM_TOLERANCE))
    if not len(bad):
        return
    row = int(bad[0])
    if not np.isfinite(rows[row]).all():
        raise InputError(
            f"{label} row {numbers[row]}: the embedding has NaN or infinite values, expected finite ones"
        )
    raise InputError(
        f"{label} row {numbers[row]}: the embedding has length {norms[row]:.6g}, expected L2-normalised rows"
    )


def check_scores(label: str, numbers: NDArray[np.int64], rows: NDArray[np.floating[Any]]) -> None:
    """Raise `InputError` naming the first row and column whose score is not finite as float32."""
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(rows.astype(np.float32)))
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(
            f"{label} row {numbers[row]}: the score in column {column} is {rows[row, column]}, "
            "expected a finite number"
        )


CHECKS: Mapping[RowKind, Callable[[str, NDArray[np.int64], NDArray[np.floating[Any]]], None]] = {
    "embeddings": check_rows,
    "scores": check_scores,
}
