"""The certified pass on a processor: products in a low precision by torch, scans by `indexes.kernels`.

Work is cut into tasks of some queries and some rows (`indexes.workers`). A task multiplies a tile, small
enough for a core's cache, scans it while it is there, and goes on with the next rows in the same buffer.
Where queries are many each task has all rows of a block, so its limits rise as high as they can; where they
are few the rows are shared out, and what the tasks found is merged; very few are multiplied by
`indexes.few_queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.certify import Best, Tile
from indexes.few_queries import FEW_BYTES, few_products, fits_few
from indexes.float32_products import float32_products
from indexes.prepared import Precision, PreparedQueries, PreparedRows, bound, prepare_queries
from indexes.protocol import Counts, Survey, TopK
from indexes.workers import run_tasks, thread_count

TILE_QUERIES = 512  # a library lays out a tile's rows anew in every product: more queries share that
TILE_BYTES = 2 << 20
LEAST_COLUMNS = 1024
Result = TypeVar("Result")

QUERIES_A_THREAD = 64  # with fewer, a product of a task's queries would not keep its core busy


@dataclass(frozen=True)
class HostScan:
    """Exact search in prepared blocks of rows; any number of threads may use one at once.

    `blocks` gives the blocks of the shard in order, in each call anew: the same ones where they stay in
    memory, or prepared as they are read. A call holds about 2 MiB of scores a thread, and its answer.
    """

    precision: Precision
    blocks: Callable[[], Iterable[PreparedRows]]

    def topk(self, queries: NDArray[np.float32], k: int) -> TopK:
        """The k best rows of validated queries [n, d]; 1 <= k <= rows of the shard."""
        best = Best.start(len(queries), k)
        asked = prepare_queries(queries, self.precision)
        for rows in self.blocks():
            parts, spans = shares(len(queries), len(rows), thread_count())
            work = Work.of(self.precision, asked, rows)
            tasks = [
                partial(work.improve, part, span, best.part(part) if len(spans) == 1 else None, k)
                for part in parts
                for span in spans
            ]
            found = run_products(tasks)
            if len(spans) > 1:
                for number, other in enumerate(found):
                    best.part(parts[number // len(spans)]).add(other)
        return best.finish()

    def counts(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds [n] of validated queries [n, d]."""
        counts = Counts.nothing(len(queries))
        asked = prepare_queries(queries, self.precision)
        limits = np.ascontiguousarray(thresholds)
        for rows in self.blocks():
            parts, spans = shares(len(queries), len(rows), thread_count())
            work = Work.of(self.precision, asked, rows)
            tasks = [partial(work.count, part, span, limits[part]) for part in parts for span in spans]
            for number, found in enumerate(run_products(tasks)):
                part = parts[number // len(spans)]
                counts.above[part] += found.above
                counts.tied[part] += found.tied
        return counts

    def survey(self, queries: NDArray[np.float32], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row of validated queries [n, d]."""
        found = Survey.nothing(len(queries))
        asked = prepare_queries(queries, self.precision)
        limits = np.ascontiguousarray(thresholds)
        for rows in self.blocks():
            survey_block(Work.of(self.precision, asked, rows), limits, found)
        return found


def survey_block(work: Work, thresholds: NDArray[np.float32], found: Survey) -> None:
    """Add a block of later rows to `found`; thresholds [n] in one piece."""
    parts, spans = shares(len(thresholds), len(work.rows), thread_count())
    tasks = [partial(work.survey, part, span, thresholds[part]) for part in parts for span in spans]
    for number, later in enumerate(run_products(tasks)):
        found.part(parts[number // len(spans)]).add(later)


def run_products(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """What the tasks give, in order, shared by the threads; their float32 products are float32."""
    with float32_products(torch.device("cpu"), tf32=False):
        return run_tasks(tasks, thread_count())


def shares(queries: int, rows: int, threads: int) -> tuple[list[slice], list[slice]]:
    """Slices of the queries and of the rows; a task for every pair of them."""
    if queries < QUERIES_A_THREAD * threads:
        return cut(queries, TILE_QUERIES), cut(rows, max(-(-rows // threads), LEAST_COLUMNS))
    return query_shares(queries, threads), [slice(0, rows)]


def query_shares(queries: int, threads: int) -> list[slice]:
    """Slices of the queries, equally long and as many for each thread, for tiles of all rows."""
    rounds = -(-queries // (TILE_QUERIES * threads))
    return cut(queries, -(-queries // (rounds * threads)))


def cut(count: int, size: int) -> list[slice]:
    """[0, count) in slices of that size, the last one shorter."""
    return [slice(start, min(start + size, count)) for start in range(0, count, max(1, size))]


@dataclass(frozen=True)
class Work:
    """Queries over a block of rows; bounds and offsets float64 [n]."""

    precision: Precision
    queries: PreparedQueries
    rows: PreparedRows
    bounds: NDArray[np.float64]
    offsets: NDArray[np.float64]

    @classmethod
    def of(cls, precision: Precision, queries: PreparedQueries, rows: PreparedRows) -> Work:
        """With the bounds and offsets that they have."""
        return cls(precision, queries, rows, bound(queries, rows, precision), queries.offsets(rows))

    def improve(self, part: slice, span: slice, best: Best | None, k: int) -> Best:
        """The best of some rows for some queries, in `best` or, without one, in a new one."""
        found = Best.start(part.stop - part.start, k) if best is None else best
        for tile in self.tiles(part, span):
            tile.improve(found)
        return found

    def count(self, part: slice, span: slice, thresholds: NDArray[np.float32]) -> Counts:
        """The counts of some rows for some queries."""
        counts = Counts.nothing(part.stop - part.start)
        for tile in self.tiles(part, span):
            tile.count(counts, thresholds)
        return counts

    def survey(self, part: slice, span: slice, thresholds: NDArray[np.float32]) -> Survey:
        """What some rows are to some queries."""
        found = Survey.nothing(part.stop - part.start)
        for tile in self.tiles(part, span):
            tile.survey(found, thresholds)
        return found

    def tiles(self, part: slice, span: slice) -> Iterator[Tile]:
        """The tiles of a task; each is used before the next is made, in the same buffer."""
        known = self.bounds[part], self.offsets[part], self.queries.stored[part]
        for columns, scores in self._products(part, span):
            yield Tile(scores, *known, self.rows.stored[columns], self.rows.first + columns.start)

    def _products(self, part: slice, span: slice) -> Iterator[tuple[slice, NDArray[np.generic]]]:
        """(columns, approximate scores less the offset)."""
        queries = self.queries.low[part]
        few = fits_few(queries)
        room = TILE_BYTES // ((FEW_BYTES if few else queries.element_size()) * len(queries))
        width = min(max(LEAST_COLUMNS, room), span.stop - span.start)
        buffer = torch.empty(len(queries) * width, dtype=queries.dtype)
        for start in range(span.start, span.stop, width):
            columns = slice(start, min(start + width, span.stop))
            rows = self.rows.low[columns]
            if few:
                yield columns, few_products(queries, rows)
                continue
            product = buffer[: len(queries) * len(rows)].view(len(queries), len(rows))
            torch.matmul(queries, rows.T, out=product)
            yield columns, as_scores(product)


def as_scores(product: torch.Tensor) -> NDArray[np.generic]:
    """A product as `indexes.kernels` takes them: float32, or bfloat16 seen as int16."""
    if product.dtype == torch.bfloat16:
        bits: NDArray[np.generic] = product.view(torch.int16).numpy()
        return bits
    values: NDArray[np.generic] = product.float().numpy()
    return values
