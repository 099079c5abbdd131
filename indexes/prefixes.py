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

from indexes.certify import BLOCK_SCORES, add_counts, check_excess, no_counts
from indexes.errors import SearchInputError
from indexes.kernels import HALVES, lead
from indexes.protocol import Counts
from indexes.streaming import StreamedBackend, StreamScan, spans
from indexes.validate import as_stored, check_queries, check_thresholds

NO_ROW = -1


@dataclass(frozen=True)
class Leaders:
    """The best row of every query; arrays [queries].

    `scores` float32, `rows` int64 the lowest row with that score, `tied` int64 how many rows have it.
    """

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]
    tied: NDArray[np.int64]

    @classmethod
    def nobody(cls, queries: int) -> Leaders:
        """No row yet: -inf, `NO_ROW`, 0."""
        return cls(
            np.full(queries, -np.inf, np.float32),
            np.full(queries, NO_ROW, np.int64),
            np.zeros(queries, np.int64),
        )

    def copy(self) -> Leaders:
        """Arrays of their own."""
        return Leaders(self.scores.copy(), self.rows.copy(), self.tied.copy())


@dataclass(frozen=True)
class Prefix:
    """What the first `rows` rows of a shard are to every query: counts at its threshold, and the best row."""

    rows: int
    counts: Counts
    leaders: Leaders


@dataclass(frozen=True)
class PrefixScan:
    """The running answers for all queries [n, d] over the rows seen so far; changed in place."""

    scan: StreamScan
    queries: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    bounds: NDArray[np.float64]
    counts: Counts
    leaders: Leaders

    @classmethod
    def start(
        cls, scan: StreamScan, queries: NDArray[np.float32], thresholds: NDArray[np.float32]
    ) -> PrefixScan:
        """No row seen yet."""
        bounds = scan.proposer.bound(queries, scan.largest_norm)
        counts, limits = no_counts(len(queries)), np.ascontiguousarray(thresholds)
        return cls(scan, queries, limits, bounds, counts, Leaders.nobody(len(queries)))

    def so_far(self, rows: int) -> Prefix:
        """The answers at this moment."""
        counts = Counts(self.counts.above.copy(), self.counts.tied.copy())
        return Prefix(rows, counts, self.leaders.copy())

    def see(self, first: int, rows: NDArray[np.float32]) -> None:
        """Take in a block of rows, the number of the first being `first`."""
        step = max(1, min(self.scan.query_block, BLOCK_SCORES // len(rows)))
        for start in range(0, len(self.queries), step):
            self._see(slice(start, min(start + step, len(self.queries))), first, rows)

    def _see(self, part: slice, first: int, rows: NDArray[np.float32]) -> None:
        """Rescore what may tie with the threshold or lead, count the rest as it is."""
        asked, stored, bounds = as_stored(self.queries[part]), as_stored(rows), self.bounds[part]
        tile = self.scan.proposer.propose(self.queries[part], rows)
        counts = Counts(self.counts.above[part], self.counts.tied[part])
        add_counts(counts, tile, bounds, np.zeros(len(asked)), asked, stored, self.thresholds[part])
        leaders = (self.leaders.scores[part], self.leaders.rows[part], self.leaders.tied[part])
        check_excess(lead(tile, bounds, asked, stored, HALVES, first, *leaders))


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
    running = PrefixScan.start(backend.scan, valid, check_thresholds(thresholds, len(valid)))
    found: list[Prefix] = []
    with backend.scan.prefetch(spans(sizes[-1], backend.scan.block_rows, sizes)) as blocks:
        for (first, stop), rows in blocks:
            running.see(first, rows)
            if stop in sizes:
                found.append(running.so_far(stop))
            advance(stop - first)
    return tuple(found)


def check_sizes(sizes: Sequence[int], rows: int, name: str) -> None:
    """Raise `SearchInputError` unless the sizes ascend from at least 1 to at most `rows`."""
    if not sizes or sizes[0] < 1 or any(later <= size for size, later in pairwise(sizes)):
        raise SearchInputError(
            f"sizes {list(sizes)} of shard {name!r}: expected them to ascend from 1 or more"
        )
    if sizes[-1] > rows:
        raise SearchInputError(f"size {sizes[-1]:,} of shard {name!r}: it has {rows:,} rows; ask for fewer")
