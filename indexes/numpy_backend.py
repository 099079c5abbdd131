"""The numpy backend: float32 matrix products of the BLAS that numpy comes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.certify import BlockScan, inner_product_bound
from indexes.protocol import Counts, Shard, Survey, TopK
from indexes.validate import check_k, check_queries, check_rows, check_shard, check_thresholds, read_rows


class NumpyProposer:
    """Approximate scores by `numpy.matmul` in float32."""

    def propose(self, queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [n, m]."""
        scores: NDArray[np.float32] = queries @ rows.T
        return scores

    def bound(self, queries: NDArray[np.float32], largest_norm: float) -> NDArray[np.float64]:
        """float64 [n], valid for any order of summation."""
        return inner_product_bound(queries, largest_norm)


@dataclass(frozen=True)
class NumpyBackend:
    """Reads the shard again in every call: it costs no memory beside what its source holds."""

    shard: Shard
    scan: BlockScan
    name: str = "numpy"

    def topk(self, queries: NDArray[Any], k: int) -> TopK:
        """The k best rows; raises `indexes.errors.SearchInputError`."""
        return self.scan.topk(check_queries(queries, self.shard.dim), check_k(k, self.shard.rows))

    def counts(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Counts:
        """Rows above and tied with the thresholds; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.counts(valid, check_thresholds(thresholds, len(valid)))

    def survey(self, queries: NDArray[Any], thresholds: NDArray[np.float32]) -> Survey:
        """Those counts and the best row; raises `indexes.errors.SearchInputError`."""
        valid = check_queries(queries, self.shard.dim)
        return self.scan.survey(valid, check_thresholds(thresholds, len(valid)))


def open_shard(shard: Shard, block_rows: int, query_block: int) -> NumpyBackend:
    """Validate the shard in one pass over its rows and make it searchable."""
    check_shard(shard)
    largest = 0.0
    for first in range(0, shard.rows, block_rows):
        rows = read_rows(shard, first, min(first + block_rows, shard.rows))
        largest = max(largest, float(check_rows(rows, f"shard {shard.name!r}", first).max()))
    return NumpyBackend(shard, BlockScan(NumpyProposer(), shard, largest, block_rows, query_block))
