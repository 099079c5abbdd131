"""Scores of (image, text) pairs on the disk: what was scored once is never scored again.

The file only grows. After a head (`MAGIC` and the digest of the scorer's fingerprint) follow blocks, one an
image: `MARK`, its key, how many texts, the CRC-32 of what follows, the CRC-32 of all that, then the texts'
keys and the scores; all little-endian. A block that a kill cut off is dropped on opening, so its pairs are
scored again: the file of a run that was killed and resumed is the file of one that was not. A damaged block
is passed over, it alone: reading goes on at the next place where the head of a block keeps its checksum.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.outputs.lock import WriterLock
from engine.store.structure import storage_error

MAGIC = b"itrstress pair scores 2\n"
OLDER = b"itrstress pair scores 1\n"
MARK = b"pair"
FIELDS = struct.Struct("<4sQII")  # mark, key of the image, texts, CRC-32 of keys and scores
CHECKSUM = struct.Struct("<I")  # of the fields
BLOCK_HEAD = FIELDS.size + CHECKSUM.size
KEYS, SCORES = np.dtype("<u8"), np.dtype("<f4")
PAIR_BYTES = KEYS.itemsize + SCORES.itemsize
ELSEWHERE = "name another file with --pair-scores"

Keys = NDArray[np.uint64]
Scores = NDArray[np.float32]


def content_key(content: str | bytes) -> int:
    """The 64-bit key of a text, or of what identifies an image.

    Among a hundred thousand items the chance that any two share one is below 1e-9.
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class PairFile:
    """The scores of one scorer, open for reading and growing; a context manager.

    Holds 12 bytes a pair in memory. `lost` says how many pairs were damaged or cut off when it was opened, at
    least (where no head of a block tells, from the bytes). Raises `InputError` when the file is of another
    scorer, is something else, cannot be written, or when another process has it open.
    """

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path = Path(path)
        self._head = MAGIC + hashlib.sha256(fingerprint.encode()).digest()
        self._known: dict[int, tuple[Keys, Scores]] = {}
        self.lost = 0
        if not self.path.parent.is_dir():
            raise InputError(f"cannot write {self.path}: the folder {self.path.parent} is not there")
        if self.path.exists():
            check_regular_file(self.path, "a file of pair scores")
        self._lock = WriterLock(self.path)
        try:
            self._file = self._open()
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> int:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise storage_error(self.path, len(self._head), error, ELSEWHERE) from error
        try:
            whole = self._read(file)
            os.ftruncate(file, whole)
            os.lseek(file, whole, os.SEEK_SET)
            if not whole:
                self._write(file, self._head)
        except BaseException:
            os.close(file)
            raise
        return file

    def _read(self, file: int) -> int:
        """Take up all sound blocks; where the next one belongs."""
        size = os.fstat(file).st_size
        head = os.pread(file, len(self._head), 0)
        if size < len(self._head) and self._head.startswith(head):  # cut off in the head, or new
            return 0
        if head.startswith(OLDER):
            raise InputError(
                f"{self.path} holds pair scores in the form of an earlier version; remove it, or {ELSEWHERE}"
            )
        if not head.startswith(MAGIC):
            raise InputError(f"{self.path} is no file of pair scores; {ELSEWHERE}")
        if head != self._head:
            raise InputError(
                f"{self.path} holds pair scores of another scorer (weights, vocabulary or precision); "
                f"{ELSEWHERE}"
            )
        if size == len(head):
            return size
        with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
            for part in read_parts(data, len(head)):
                if part.pairs is not None:
                    self._learn(*part.pairs)
                    continue
                self.lost += part.lost
                if part.cut_off:
                    return part.start
        return size

    @property
    def loss(self) -> str | None:
        """What could not be read, for people; None where all could."""
        if not self.lost:
            return None
        return f"{self.path}: at least {self.lost:,} pairs in it are damaged or cut off, and are passed over"

    def _learn(self, image: int, keys: Keys, scores: Scores) -> None:
        if image in self._known:
            old_keys, old_scores = self._known[image]
            keys, scores = np.concatenate([old_keys, keys]), np.concatenate([old_scores, scores])
        keys, first = np.unique(keys, return_index=True)
        self._known[image] = keys, scores[first]

    def __enter__(self) -> PairFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """See everything on the disk, close the file and let go of the lock."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
            self._lock.release()

    def find(self, image: int, texts: Keys) -> tuple[Scores, NDArray[np.bool_]]:
        """Scores float32 [texts] of an image with texts, and which of them are known (the others are 0)."""
        if image not in self._known:
            return np.zeros(len(texts), dtype=np.float32), np.zeros(len(texts), dtype=np.bool_)
        keys, scores = self._known[image]
        place = np.minimum(np.searchsorted(keys, texts), len(keys) - 1)
        there = keys[place] == texts
        return np.where(there, scores[place], np.float32(0)), there

    def add(self, image: int, texts: Keys, scores: Scores) -> None:
        """Keep the scores of an image with texts, none of them twice. When it returns they outlive a kill of
        the process. Raises `InputError` when there is no room."""
        content = texts.astype(KEYS).tobytes() + scores.astype(SCORES).tobytes()
        self._write(self._file, block_head(image, len(texts), zlib.crc32(content)) + content)
        self._learn(image, texts, scores)

    def _write(self, file: int, data: bytes) -> None:
        start = os.lseek(file, 0, os.SEEK_CUR)
        try:
            rest = memoryview(data)
            while len(rest):
                rest = rest[os.write(file, rest) :]
        except OSError as error:
            os.ftruncate(file, start)
            raise storage_error(self.path, len(data), error, ELSEWHERE) from error


@dataclass(frozen=True)
class Part:
    """Bytes [start, stop) of a file: a block with the key of its image, its texts' and the scores, or none.

    Where it is none, `lost` says how many pairs it held (at least 1), and `cut_off` whether it is the
    beginning of a block that the end of the file cuts off.
    """

    start: int
    stop: int
    pairs: tuple[int, Keys, Scores] | None = None
    lost: int = 0
    cut_off: bool = False


def read_parts(data: mmap.mmap, start: int) -> Iterator[Part]:
    """All of a file from `start` on."""
    while start < len(data):
        part = read_block(data, start)
        yield part
        start = part.stop


def read_block(data: mmap.mmap, start: int) -> Part:
    """The block that begins at `start`, or the bytes up to the next one."""
    head = read_head(data, start)
    if head is None:
        stop = find_head(data, start + 1)
        lost = max(1, (stop - start - BLOCK_HEAD) // PAIR_BYTES)
        return Part(start, stop, lost=lost, cut_off=len(data) - start < BLOCK_HEAD)
    image, texts, checksum = head
    stop = start + BLOCK_HEAD + texts * PAIR_BYTES
    content = data[start + BLOCK_HEAD : stop] if stop <= len(data) else b""
    if content and zlib.crc32(content) == checksum:
        keys = np.frombuffer(content, KEYS, texts).astype(np.uint64)
        scores = np.frombuffer(content, SCORES, texts, offset=texts * KEYS.itemsize).astype(np.float32)
        return Part(start, stop, (image, keys, scores))
    # bytes may be missing in the middle: a block that begins before this one ends is still a sound one
    after = find_head(data, start + 1)
    return Part(start, after, lost=texts, cut_off=stop > len(data) and after == len(data))


def block_head(image: int, texts: int, checksum: int) -> bytes:
    """What stands before the keys and scores of a block."""
    fields = FIELDS.pack(MARK, image, texts, checksum)
    return fields + CHECKSUM.pack(zlib.crc32(fields))


def read_head(data: mmap.mmap, start: int) -> tuple[int, int, int] | None:
    """Image, texts and checksum of the content, where a block's head begins; None where it does not."""
    fields, checksum = data[start : start + FIELDS.size], data[start + FIELDS.size : start + BLOCK_HEAD]
    if len(checksum) < CHECKSUM.size or CHECKSUM.unpack(checksum)[0] != zlib.crc32(fields):
        return None
    mark, image, texts, content = FIELDS.unpack(fields)
    return (image, texts, content) if mark == MARK and texts else None


def find_head(data: mmap.mmap, start: int) -> int:
    """Where the next head of a block begins; the end of the file where none does."""
    place = data.find(MARK, start)
    while place >= 0 and read_head(data, place) is None:
        place = data.find(MARK, place + 1)
    return len(data) if place < 0 else place
