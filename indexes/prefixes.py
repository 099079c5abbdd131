"""One pass over a shard, the answers for many of its prefixes: rows [0, n) for every asked n.

A gallery that grows is a row of prefixes, and what a query finds in a longer one is what it found in the
shorter one and in the rows that came to it: counts add up, leaders are compared. So the whole curve costs one
reading and one search of the largest prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.errors import SearchInputError
from indexes.protocol import Survey
from indexes.streaming import StreamedBackend, spans
from indexes.validate import check_queries, check_thresholds


@dataclass(frozen=True)
class Prefix:
    """What the first `rows` rows of a shard are to every query."""

    rows: int
    survey: Survey


def search_prefixes(
    backend: StreamedBackend,
    queries: NDArray[Any],
    thresholds: NDArray[np.float32],
    sizes: Sequence[int],
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[Prefix, ...]:
    """The answers for the first n rows of a shard, for every n in `sizes`, in one pass over the largest.

    `queries` float32 or float16 [n, d], L2-normalised; `thresholds` float32 [n], exact scores; `sizes` ascend
    from at least 1. `advance` is told how many rows were just searched. Raises `SearchInputError` for sizes
    that do not ascend or that the shard does not have, for queries and rows that are not valid.
    """
    check_sizes(sizes, backend.shard.rows, backend.shard.name)
    valid = check_queries(queries, backend.shard.dim)
    limits = np.ascontiguousarray(check_thresholds(thresholds, len(valid)))
    asked, found = backend.scan.ask(valid), Survey.nothing(len(valid))
    prefixes: list[Prefix] = []
    with backend.scan.prefetch(spans(sizes[-1], backend.scan.block_rows, sizes)) as blocks:
        for (first, stop), block in blocks:
            backend.scan.see(asked, block, first, limits, found)
            if stop in sizes:
                prefixes.append(Prefix(stop, found.copy()))
            advance(stop - first)
    return tuple(prefixes)


def check_sizes(sizes: Sequence[int], rows: int, name: str) -> None:
    """Raise `SearchInputError` unless the sizes ascend from at least 1 to at most `rows`."""
    if not sizes or sizes[0] < 1 or any(later <= size for size, later in pairwise(sizes)):
        raise SearchInputError(
            f"sizes {list(sizes)} of shard {name!r}: expected them to ascend from 1 or more"
        )
    if sizes[-1] > rows:
        raise SearchInputError(f"size {sizes[-1]:,} of shard {name!r}: it has {rows:,} rows; ask for fewer")
