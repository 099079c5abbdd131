"""What a file of `itrstress bench --json` says, as far as the page shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import InputError
from engine.evaluate.results import first_problem
from engine.inputs import check_regular_file

LARGEST = 64 << 20  # bytes of a file that is read


class Part(BaseModel):
    """A part of the file: frozen; what the page does not show is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Machine(Part):
    """Where it was measured."""

    processor: str
    cores: int
    gpu: str | None = None
    load_before: float | None = None
    versions: dict[str, str] = {}


class Latency(Part):
    """Seconds of a single query."""

    p50: float
    p95: float
    p99: float


class Measurement(Part):
    """One contestant or job: seconds, queries a second, bytes."""

    name: str
    median_seconds: float = Field(gt=0)
    spread: tuple[float, float] | None = None
    queries_per_second: float | None = None
    exact: bool | None = None
    agreement: float | None = None
    peak_rss_bytes: int | None = None
    one_query_seconds: Latency | None = None
    batches: dict[str, float] = {}


class Benchmark(Part):
    """A file: what was measured, where, and the figures."""

    file: str
    command: str = ""
    task: dict[str, Any] = {}
    machine: Machine
    rows: tuple[Measurement, ...] = Field(min_length=1)


def read_benchmark(path: Path) -> Benchmark:
    """The measurements in a file.

    Raises `InputError` when it cannot be read or is not what `itrstress bench --json` writes.
    """
    size = check_regular_file(path, "a file that `itrstress bench --json` wrote").st_size
    if size > LARGEST:
        raise InputError(
            f"--bench {path}: {size:,} bytes, expected {LARGEST:,} at most; is it the right file?"
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"--bench {path}: not JSON, or cut off ({error}); measure again") from error
    if not isinstance(document, Mapping):
        raise InputError(f"--bench {path}: no JSON object; name a file that `itrstress bench --json` wrote")
    try:
        return Benchmark.model_validate({**document, "file": path.name})
    except ValidationError as error:
        raise InputError(
            f"--bench {path}: {first_problem(error)}; name a file that `itrstress bench --json` wrote"
        ) from error
