"""The file of a run's per-query outcomes, and the tie between it and the run in the results.

The run names the file's SHA-256, the file's metadata hold the identity of the run. Outcomes are read with
their run only, so a file of another run under the right name is never taken for them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.corpus.shape import shorten
from engine.errors import InputError
from engine.evaluate.outcomes import differing_columns
from engine.evaluate.results import Run
from engine.outputs.own import write_own

OUTCOMES_HEAD = b"PAR1"  # how a Parquet file begins
RUN_METADATA = b"itrstress.run"
HASH_BLOCK = 1 << 20
DIGEST = re.compile("[0-9a-f]{64}")
DIGEST_SHOWN = 12

Identity = Mapping[str, Any]


def identity(variant: str | None, distractors: int, key: Mapping[str, str]) -> dict[str, Any]:
    """What tells a run from others: its names, and everything that the outcome depends on (`run_key`)."""
    return {"variant's name": variant, "number of distractors": distractors, **key}


def identity_of(run: Run) -> dict[str, Any]:
    """The `identity` of a run."""
    return identity(run.variant, run.distractors, run.key)


def write_outcomes(table: pa.Table, path: Path, run: Run) -> str:
    """Write a run's table whole or not at all; the file's SHA-256 (hex), for `Run.outcomes_sha256`.

    Raises `InputError` when the system does not let it be written.
    """
    said = json.dumps(identity_of(run), sort_keys=True).encode()
    bound = table.replace_schema_metadata({**(table.schema.metadata or {}), RUN_METADATA: said})
    sink = pa.BufferOutputStream()
    pq.write_table(bound, sink, compression="zstd")
    data = sink.getvalue()
    write_own(path, lambda temporary: temporary.write_bytes(data))
    return hashlib.sha256(data).hexdigest()


def read_outcomes(path: Path, run: Run) -> pa.Table:
    """The table of a run. Raises `InputError` (one line, the file named) when the file is another one than
    the run was written with, cannot be read, or has other columns."""
    wrong = outcomes_problem(path, run)
    if wrong is not None:
        raise InputError(f"{wrong}; evaluate again, or put back the file that the results were written with")
    try:
        with path.open("rb") as file:  # Arrow does not open a name that is no UTF-8
            table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: not a readable Parquet file ({error}); evaluate again to write it anew"
        ) from error
    detail = differing_columns(table.schema)
    if detail is not None:
        raise InputError(f"{path}: not per-query outcomes of this itrstress ({detail}); evaluate again")
    return table


def outcomes_problem(path: Path, run: Run) -> str | None:
    """Why a file is not the outcomes that a run was written with, the file named; None when it is.

    The file is not taken into memory.
    """
    if not path.is_file():
        return f"{path}: not there"
    if run.outcomes_sha256 is None:
        return f"{path}: the results do not say which file is theirs (they hold no outcomes_sha256)"
    try:
        same = file_sha256(path) == run.outcomes_sha256
        other = identity_difference(read_identity(path), identity_of(run))
    except (OSError, pa.ArrowException, ValueError):
        return f"{path}: cut off or damaged"
    if other is not None:
        return f"{path}: of another run ({other})"
    return None if same else f"{path}: changed since the results were written"


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_identity(path: Path) -> Identity:
    """The identity in a file's metadata, empty where there is none.

    Raises OSError, ArrowException or ValueError when the file is no whole Parquet table.
    """
    with path.open("rb") as file:
        metadata = pq.read_schema(file).metadata or {}
    found = json.loads(metadata.get(RUN_METADATA, b"{}"))
    return found if isinstance(found, dict) else {}


def identity_difference(there: Identity, wanted: Identity) -> str | None:
    """The first part in which two runs differ, in words; None when they are the same."""
    for part in {**wanted, **there}:
        if there.get(part) != wanted.get(part):
            return f"its {part} is {in_short(there.get(part))}, expected {in_short(wanted.get(part))}"
    return None


def in_short(value: object) -> str:
    """A part of an identity for people; of a digest, its beginning."""
    text = str(value)
    return text[:DIGEST_SHOWN] if DIGEST.fullmatch(text) else shorten(repr(value))
