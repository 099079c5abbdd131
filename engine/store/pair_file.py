"""Scores of (image, text) pairs on the disk: what was scored once is never scored again.

The file only grows. After a head (`MAGIC` and the digest of the scorer's fingerprint) follow blocks, one an
image: its key, how many texts, the CRC-32 of what follows, the texts' keys, the scores; all little-endian. A
block that a kill cut off, and what follows a block that does not keep its checksum, is dropped on opening, so
its pairs are scored again: the file of a run that was killed and resumed is the file of one that was not.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.outputs.lock import WriterLock
from engine.store.structure import storage_error

MAGIC = b"itrstress pair scores 1\n"
BLOCK = struct.Struct("<QII")  # key of the image, texts, CRC-32 of keys and scores
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

    Holds 12 bytes a pair in memory. Raises `InputError` when the file is of another scorer, is something
    else, cannot be written, or when another process has it open.
    """

    def __init__(self, path: str | Path, fingerprint: str) -> None:
        self.path = Path(path)
        self._head = MAGIC + hashlib.sha256(fingerprint.encode()).digest()
        self._known: dict[int, tuple[Keys, Scores]] = {}
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
        """Take up all sound blocks; where they end."""
        size = os.fstat(file).st_size
        head = os.pread(file, len(self._head), 0)
        if size < len(self._head) and self._head.startswith(head):  # cut off in the head, or new
            return 0
        if not head.startswith(MAGIC):
            raise InputError(f"{self.path} is no file of pair scores; {ELSEWHERE}")
        if head != self._head:
            raise InputError(
                f"{self.path} holds pair scores of another scorer (weights, vocabulary or precision); "
                f"{ELSEWHERE}"
            )
        end = len(head)
        for image, keys, scores, stop in read_blocks(file, end, size):
            self._learn(image, keys, scores)
            end = stop
        return end

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
        self._write(self._file, BLOCK.pack(image, len(texts), zlib.crc32(content)) + content)
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


def read_blocks(file: int, start: int, size: int) -> Iterator[tuple[int, Keys, Scores, int]]:
    """Key of the image, keys of the texts, scores and the end of every block, as long as they are sound."""
    while start + BLOCK.size <= size:
        image, texts, checksum = BLOCK.unpack(os.pread(file, BLOCK.size, start))
        stop = start + BLOCK.size + texts * PAIR_BYTES
        if not texts or stop > size:
            return
        content = os.pread(file, texts * PAIR_BYTES, start + BLOCK.size)
        if zlib.crc32(content) != checksum:
            return
        keys = np.frombuffer(content, KEYS, texts).astype(np.uint64)
        scores = np.frombuffer(content, SCORES, texts, offset=texts * KEYS.itemsize).astype(np.float32)
        yield image, keys, scores, stop
        start = stop
