"""Perturbed queries between processes (`engine.variants.cache`): in ``queries``, one file a corpus and
perturbation, so that the next process tags and draws nothing.

The name of a file is a digest of all that its content depends on: the corpus, the perturbation with its
parameters and tools (such as WordNet), the versions of packages, and the source of this package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from engine.corpus.corpus import Corpus
from engine.packages import package_versions
from engine.variants.cache import cache_folder, files_digest, read_cached, unusable, write_cached

FOLDER = "queries"
WHAT = "queries"

Record = Sequence[Any]
"""A query's text, what was done, and why it is unchanged if it is."""


def cache_file(name: str, tools: Callable[[], str], corpus: Corpus) -> Path | None:
    """Where the queries of a corpus by the perturbation of that name, made with those tools, are kept; None
    without a cache, which does not ask for `tools`."""
    folder = cache_folder()
    if folder is None:
        return None
    parts = [corpus.fingerprint, name, tools(), source_digest(), *sorted(package_versions().items())]
    return folder / FOLDER / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.json"


@cache
def source_digest() -> str:
    """SHA-256 (hex) of the modules of this package: no file outlives a change of a rule."""
    return files_digest(Path(__file__).parent, "*.py")


def read_queries(file: Path | None, count: int) -> list[Record] | None:
    """The `count` records in a file, None when there is no such file; `InputError` for a damaged one."""
    data = None if file is None else read_cached(file, WHAT)
    if file is None or data is None:
        return None
    records: list[Record] = json.loads(data)
    if len(records) != count:
        raise unusable(file, WHAT, "another size")
    return records


def write_queries(file: Path | None, records: Sequence[Record]) -> None:
    """Keep the records, if there is a cache. Raises `InputError` when it cannot be written."""
    if file is not None:
        write_cached(file, json.dumps(records, separators=(",", ":")).encode())
