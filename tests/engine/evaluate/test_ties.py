"""Tie policies against every order of the tied rows, written out."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.ties import POLICIES, Standing, Top, miss_probability, own_share, tie_policy


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def orders(above: int, tied: int, positives: int) -> list[int]:
    """The best positive's rank in every order of the tied rows."""
    rows = ["positive"] * positives + ["other"] * (tied - positives)
    return [above + order.index("positive") + 1 for order in permutations(rows)]


@st.composite
def standings(draw: st.DrawFn) -> tuple[int, int, int]:
    tied = draw(st.integers(1, 6))
    return draw(st.integers(0, 6)), tied, draw(st.integers(1, tied))


@given(standings(), st.integers(1, 14))
def test_policies_are_the_best_the_worst_and_the_mean_of_all_orders(
    one: tuple[int, int, int], k: int
) -> None:
    ranks = orders(*one)
    standing = Standing(*map(ints, one))
    best, worst, mean = min(ranks), max(ranks), Fraction(sum(ranks), len(ranks))
    assert tie_policy("optimistic").ranks(standing)[0] == best
    assert tie_policy("pessimistic").ranks(standing)[0] == worst
    assert tie_policy("expected").ranks(standing)[0] == pytest.approx(float(mean))
    assert tie_policy("optimistic").hits(standing, k)[0] == (best <= k)
    assert tie_policy("pessimistic").hits(standing, k)[0] == (worst <= k)
    within = sum(rank <= k for rank in ranks) / len(ranks)
    assert tie_policy("expected").hits(standing, k)[0] == pytest.approx(within)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_the_top_goes_to_each_row_in_equal_shares(genuine: int, own: int, other: int) -> None:
    rows = ["genuine"] * genuine + ["own"] * own + ["other"] * other
    if not rows:
        return
    top = Top(ints(genuine), ints(own + other), ints(own))
    fooled = {name: policy.fooled(top)[0] for name, policy in POLICIES.items()}
    firsts = [order[0] for order in permutations(rows)]
    assert fooled["expected"] == pytest.approx(sum(first != "genuine" for first in firsts) / len(firsts))
    assert fooled["optimistic"] == all(first != "genuine" for first in firsts)
    assert fooled["pessimistic"] == any(first != "genuine" for first in firsts)
    expected_own = sum(first == "own" for first in firsts) / len(firsts)
    assert own_share(POLICIES["expected"].fooled(top), top)[0] == pytest.approx(expected_own)


@given(st.integers(1, 60), st.data())
def test_miss_probability_is_the_ratio_of_binomials(total: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, total)), data.draw(st.integers(0, total))
    exact = Fraction(comb(total - marked, drawn), comb(total, drawn))
    assert miss_probability(ints(total), ints(marked), ints(drawn))[0] == pytest.approx(
        float(exact), rel=1e-12
    )


def test_a_million_tied_rows_are_no_trouble() -> None:
    total, marked = 1_000_000, 5
    standing = Standing(ints(3, 0), ints(total, total), ints(marked, 1))
    hits = tie_policy("expected").hits(standing, 10)
    assert hits[0] == pytest.approx(float(1 - Fraction(comb(total - marked, 7), comb(total, 7))), rel=1e-9)
    assert hits[1] == pytest.approx(1e-5, rel=1e-9)
    many = Standing(ints(0), ints(total), ints(total // 2))
    exact = 1 - Fraction(comb(total // 2, 10), comb(total, 10))
    assert tie_policy("expected").hits(many, 10)[0] == pytest.approx(float(exact), rel=1e-12)


def test_without_ties_the_policies_agree() -> None:
    standing = Standing(ints(0, 1, 7), ints(1, 2, 1), ints(1, 2, 1))  # two equal positives are no tie
    assert not standing.undecided.any()
    for policy in POLICIES.values():
        assert policy.hits(standing, 1).tolist() == [1.0, 0.0, 0.0]
        assert policy.hits(standing, 5).tolist() == [1.0, 1.0, 0.0]
    assert tie_policy("expected").ranks(standing).tolist() == [1.0, 2.0, 8.0]


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown tie policy 'optimist'; did you mean 'optimistic'"):
        tie_policy("optimist")
