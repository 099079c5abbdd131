"""The exact score equals integer arithmetic, however it is called."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.errors import SearchInputError
from indexes.exact import exact_score_block, exact_scores
from indexes.validate import NORM_TOLERANCE

KINDS = ("plain", "tied", "near", "sparse", "tiny")
kinds = st.sampled_from(KINDS)
dtypes = st.sampled_from(("float32", "float16"))
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, dim=st.sampled_from((1, 2, 3, 17, 64)), kind=kinds, query_type=dtypes, row_type=dtypes)
def test_pairs_equal_integer_arithmetic(slow_score, unit_rows, seed, dim, kind, query_type, row_type):
    queries = unit_rows(seed, 9, dim, query_type, kind)
    rows = unit_rows(seed + 1, 9, dim, row_type, kind)
    scores = exact_scores(queries, rows)
    assert scores.dtype == np.float32
    assert scores.tolist() == [slow_score(q, x) for q, x in zip(queries, rows, strict=True)]


@pytest.mark.parametrize("dim", [768, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_long_rows_equal_integer_arithmetic(slow_score, unit_rows, dim, kind):
    queries, rows = unit_rows(1, 6, dim, kind=kind), unit_rows(2, 6, dim, kind=kind)
    assert exact_scores(queries, rows).tolist() == [
        slow_score(q, x) for q, x in zip(queries, rows, strict=True)
    ]


@settings(max_examples=60, deadline=None)
@given(seed=seeds, dim=st.sampled_from((1, 2, 17, 256)), kind=kinds, dtype=dtypes, data=st.data())
def test_bits_do_not_depend_on_how_it_is_called(unit_rows, seed, dim, kind, dtype, data):
    queries, rows = unit_rows(seed, 8, dim, "float32", kind), unit_rows(seed + 1, 30, dim, dtype, kind)
    block = exact_score_block(queries, rows)
    query_numbers, row_numbers = np.divmod(np.arange(8 * 30), 30)
    pairs = exact_scores(queries[query_numbers], rows[row_numbers]).reshape(8, 30)
    assert block.tobytes() == pairs.tobytes()
    cut = data.draw(st.integers(1, 29))
    halves = [exact_score_block(queries, rows[:cut]), exact_score_block(queries, rows[cut:])]
    assert np.hstack(halves).tobytes() == block.tobytes()
    order = np.random.default_rng(seed).permutation(dim)
    assert exact_score_block(queries[:, order], rows[:, order]).tobytes() == block.tobytes()


@settings(max_examples=40, deadline=None)
@given(seed=seeds, dim=st.sampled_from((1, 3, 100, 700)), kind=kinds)
def test_precision_is_as_documented(unit_rows, seed, dim, kind):
    queries, rows = unit_rows(seed, 5, dim, kind=kind), unit_rows(seed + 1, 5, dim, kind=kind)
    for query, row, score in zip(queries, rows, exact_scores(queries, rows), strict=True):
        true = math.fsum(float(q) * float(x) for q, x in zip(query, row, strict=True))
        assert abs(float(score) - true) <= dim * 2.0**-63 + 2.0**-24 * abs(true) + 2.0**-53


def test_the_sum_is_rounded_once():
    # 1/2 + half a unit in its last place + 2**-62: float64 drops the last term, then rounds the tie down
    query = np.array([[0.5, 2.0**-12, 2.0**-31, math.sqrt(0.75)]], np.float32)
    row = np.array([[1.0, 2.0**-13, 2.0**-31, 0.0]], np.float32)
    assert exact_scores(query, row)[0] == np.float32(0.5 + 2.0**-24)
    assert exact_score_block(query, row)[0, 0] == np.float32(0.5 + 2.0**-24)


def test_opposite_terms_give_plain_zero():
    query = np.array([[math.sqrt(0.5), -math.sqrt(0.5)]], np.float32)
    row = np.abs(query)
    for score in (exact_scores(query, row)[0], exact_score_block(query, row)[0, 0]):
        assert score == 0
        assert not np.signbit(score)


def test_norms_at_the_tolerance_do_not_overflow():
    row = np.array([[1 + 0.999 * NORM_TOLERANCE]], np.float32)
    assert exact_scores(row, row)[0] == np.float32(float(row[0, 0]) ** 2)
    assert exact_scores(row, -row)[0] == -np.float32(float(row[0, 0]) ** 2)


@pytest.mark.parametrize(
    ("queries", "rows", "message"),
    [
        (np.ones((2, 1), "f4"), np.ones((3, 1), "f4"), "2 queries and 3 rows"),
        (np.ones((2, 1), "f4"), np.ones((2, 2), "f4"), "dimension 2, expected 1"),
        (np.ones((2, 1)), np.ones((2, 1), "f4"), "queries: dtype float64"),
        (np.ones(2, "f4"), np.ones((2, 1), "f4"), r"shape \(2,\)"),
        (np.ones((2, 1), "f4"), np.array([[1], [np.nan]], "f4"), "rows: row 1 holds NaN"),
        (np.ones((2, 1), "f4"), np.array([[1], [1.1]], "f4"), "rows: row 1 has norm 1.1"),
    ],
)
def test_bad_pairs_are_named(queries, rows, message):
    with pytest.raises(SearchInputError, match=message):
        exact_scores(queries, rows)
