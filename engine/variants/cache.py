"""Files between processes: with ``ITRSTRESS_CACHE=DIR`` in the environment what costs time is kept in DIR.

A file holds the SHA-256 of what follows, then that.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from engine.errors import InputError
from engine.outputs.own import write_own

CACHE_VARIABLE = "ITRSTRESS_CACHE"
DIGEST_BYTES = 32


def cache_folder() -> Path | None:
    """The folder; None where nothing is kept."""
    folder = os.environ.get(CACHE_VARIABLE)
    return Path(folder) if folder else None


def read_cached(file: Path, what: str) -> bytes | None:
    """What was kept in a file, None when there is no such file. Raises `InputError` for a damaged one."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(file, what, error) from None
    if hashlib.sha256(data[DIGEST_BYTES:]).digest() != data[:DIGEST_BYTES]:
        raise unusable(file, what, "another checksum")
    return data[DIGEST_BYTES:]


def write_cached(file: Path, data: bytes) -> None:
    """Keep it. Raises `InputError` when it cannot be written."""
    write_own(file, lambda temporary: temporary.write_bytes(hashlib.sha256(data).digest() + data))


def files_digest(path: Path, pattern: str = "*") -> str:
    """SHA-256 (hex) of a folder's files that fit `pattern`, their names included, or of the archive it is in.

    Raises `OSError` when one cannot be read.
    """
    archive = next((one for one in (path, *path.parents) if one.is_file()), None)
    digest = hashlib.sha256()
    for file in [archive] if archive else sorted(one for one in path.rglob(pattern) if one.is_file()):
        digest.update(file.relative_to(file.parent if archive else path).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def unusable(file: Path, what: str, why: object) -> InputError:
    """The error about a file that holds something else."""
    return InputError(f"{file}: the cached {what} cannot be used ({why}); remove the file")
