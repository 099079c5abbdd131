"""The bound holds for any summation, and no proposer within its bound can change an answer."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.certify import BlockScan, ProposerError, inner_product_bound
from indexes.exact import exact_score_block, exact_scores
from indexes.numpy_backend import NumpyProposer
from indexes.protocol import Shard
from indexes.sources import ArrayRows

seeds = st.integers(0, 2**32 - 1)
KINDS = ("plain", "tied", "near", "sparse", "tiny")


class Off:
    """Scores that are anywhere within a bound of the exact ones, chosen by a seed."""

    def __init__(self, seed, bound, overshoot=1.0):
        self.random = np.random.default_rng(seed)
        self.width, self.overshoot = bound, overshoot

    def propose(self, queries, rows):
        exact = exact_score_block(queries, rows)
        error = self.random.choice([-1.0, -0.5, 0.0, 1.0], exact.shape) * self.width * self.overshoot
        return (exact + error).astype(np.float32)

    def bound(self, queries, largest_norm):
        return np.full(len(queries), self.width + 2.0**-23)


def scan_of(rows, proposer, block_rows=50, query_block=4):
    return BlockScan(proposer, Shard("s", "original", ArrayRows(rows)), 1.001, block_rows, query_block)


def fused_sums(query, row, order):
    """float32 sums of one pair in an order: with fused multiply-adds, rounded products, and in a tree."""
    terms = [(query[i], row[i]) for i in order]
    fused = plain = np.float32(0)
    for q, x in terms:
        fused = np.float32(float(fused) + float(q) * float(x))  # float64 holds the product, nearly the sum
        plain = np.float32(plain + np.float32(q * x))
    tree = [np.float32(q * x) for q, x in terms]
    while len(tree) > 1:
        tree = [np.float32(sum(tree[i : i + 2], np.float32(0))) for i in range(0, len(tree), 2)]
    return fused, plain, tree[0]


@settings(max_examples=40, deadline=None)
@given(seed=seeds, dim=st.sampled_from((1, 2, 5, 33, 200)), kind=st.sampled_from(KINDS))
def test_bound_covers_float32_sums_in_any_order(unit_rows, seed, dim, kind):
    queries, rows = unit_rows(seed, 4, dim, kind=kind), unit_rows(seed + 1, 4, dim, kind=kind)
    random = np.random.default_rng(seed)
    norm = float(np.linalg.norm(rows.astype(float), axis=1).max())
    for query, row, score, bound in zip(
        queries, rows, exact_scores(queries, rows), inner_product_bound(queries, norm), strict=True
    ):
        by_size = np.argsort(np.abs(query * row))
        for order in (by_size, by_size[::-1], random.permutation(dim)):
            for approximate in fused_sums(query, row, order):
                assert abs(Fraction(float(approximate)) - Fraction(float(score))) <= Fraction(float(bound))


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    width=st.sampled_from((1e-7, 1e-4, 1e-2, 0.3)),
    kind=st.sampled_from(KINDS),
    k=st.sampled_from((1, 3, 10, 120)),
    block_rows=st.sampled_from((1, 7, 64, 500)),
)
def test_no_proposer_within_its_bound_changes_an_answer(unit_rows, seed, width, kind, k, block_rows):
    queries, rows = unit_rows(seed, 6, 5, kind=kind), unit_rows(seed + 1, 120, 5, kind=kind)
    exact = exact_score_block(queries, rows)
    scan = scan_of(rows, Off(seed, width), block_rows)
    found = scan.topk(queries, k)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()
    thresholds = exact[np.arange(6), np.arange(6) * 17]
    counts = scan.counts(queries, thresholds)
    assert counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
    assert counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()


def test_few_candidates_among_many_rows_are_certified(unit_rows):
    queries, rows = unit_rows(3, 40, 16), unit_rows(4, 20_000, 16, kind="near")
    exact = exact_score_block(queries, rows)
    scan = scan_of(rows, NumpyProposer(), block_rows=4096, query_block=32)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    found = scan.topk(queries, 10)
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()
    thresholds = exact[:, 5].copy()
    counts = scan.counts(queries, thresholds)
    assert counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
    assert counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()


def test_scores_beyond_their_bound_are_an_error_not_an_answer(unit_rows):
    queries, rows = unit_rows(5, 4, 8), unit_rows(6, 3000, 8)
    scan = scan_of(rows, Off(0, 1e-3, overshoot=3.0), block_rows=3000)
    with pytest.raises(ProposerError, match="off the exact one"):
        scan.topk(queries, 5)
    with pytest.raises(ProposerError, match="off the exact one"):
        scan.counts(queries, exact_scores(queries, rows[:4]))


def test_a_million_tied_rows_stay_within_memory():
    row = np.array([[0.6, 0.8]], np.float32)
    rows = np.repeat(row, 1_000_000, axis=0)
    queries = np.repeat(np.array([[0.28, 0.96]], np.float32), 3, axis=0)
    scan = scan_of(rows, NumpyProposer(), block_rows=65_536, query_block=256)
    tracemalloc.start()
    found = scan.topk(queries, 10)
    counts = scan.counts(queries, found.scores[:, 0].copy())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.rows.tolist() == [list(range(10))] * 3
    assert len(set(found.scores.ravel().tolist())) == 1
    assert counts.above.tolist() == [0, 0, 0]
    assert counts.tied.tolist() == [1_000_000] * 3
    assert peak < 64 << 20
