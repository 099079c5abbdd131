"""Metrics against their definitions, on values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluate import metrics
from engine.evaluate.ties import Standing, Top, tie_policy


def standing(above: list[int], tied: list[int], positives: list[int]) -> Standing:
    return Standing(*(np.array(values, dtype=np.int64) for values in (above, tied, positives)))


def top(genuine: list[int], adversarial: list[int], own: list[int]) -> Top:
    return Top(*(np.array(values, dtype=np.int64) for values in (genuine, adversarial, own)))


FOUR = standing([0, 0, 4, 30], [1, 2, 1, 1], [1, 1, 1, 1])
FOUR_TOP = top([1, 2, 0, 0], [0, 0, 1, 2], [0, 0, 1, 1])


def test_recalls_ranks_and_rsum() -> None:
    values = metrics.rank_metrics(metrics.outcome(tie_policy("expected"), FOUR, FOUR_TOP))
    assert values["recall@1"] == pytest.approx(100 * (1 + 0.5) / 4)
    assert values["recall@5"] == pytest.approx(100 * 3 / 4)
    assert values["recall@10"] == pytest.approx(100 * 3 / 4)
    assert values["rsum"] == pytest.approx(37.5 + 75 + 75)
    assert values["median_rank"] == pytest.approx((1.5 + 5) / 2)
    assert values["mean_rank"] == pytest.approx((1 + 1.5 + 5 + 31) / 4)


def test_incorrect_recall_splits_into_own_and_other() -> None:
    values = metrics.fooled_metrics(metrics.outcome(tie_policy("expected"), FOUR, FOUR_TOP))
    assert values == pytest.approx(
        {"incorrect_recall@1": 50.0, "incorrect_recall@1/own": 37.5, "incorrect_recall@1/other": 12.5}
    )


def test_drop_rate_is_relative_and_undefined_without_a_base() -> None:
    assert metrics.drop_rate(50.0, 40.0) == pytest.approx(20.0)
    assert metrics.drop_rate(50.0, 0.0) == 100.0
    assert metrics.drop_rate(0.0, 0.0) is None


def test_changed_rate_is_a_percentage() -> None:
    assert metrics.changed_rate(np.array([True, False, True, True])) == 75.0


def test_tie_counts_name_the_decision() -> None:
    one = standing([0, 3, 9, 0], [2, 3, 2, 3], [1, 1, 1, 3])
    at_top = top([1, 1, 2, 3], [1, 0, 3, 0], [0, 0, 0, 0])
    assert metrics.tie_counts(one, at_top) == {
        "rank": 3,
        "recall@1": 1,
        "recall@5": 1,
        "recall@10": 1,
        "incorrect_recall@1": 2,
        "tied_queries": 3,
    }


@pytest.mark.parametrize("policy", ["optimistic", "pessimistic", "expected"])
def test_a_query_counted_as_undecided_is_one_where_policies_differ(policy: str) -> None:
    one = standing([0, 4, 12], [1, 1, 1], [1, 1, 1])
    at_top = top([1, 0, 1], [0, 2, 0], [0, 1, 0])
    assert set(metrics.tie_counts(one, at_top).values()) == {0}
    reference = metrics.outcome(tie_policy("expected"), one, at_top)
    other = metrics.outcome(tie_policy(policy), one, at_top)
    assert np.array_equal(other.ranks, reference.ranks)
    assert np.array_equal(other.fooled, reference.fooled)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Standing, Top]:
    """One query: where its positive stands, and what is at the top."""
    above, positives, others = draw(st.integers(0, 12)), draw(st.integers(1, 3)), draw(st.integers(0, 12))
    genuine, adversarial = draw(
        st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda counts: sum(counts) > 0)
    )
    own = draw(st.integers(0, adversarial))
    return standing([above], [positives + others], [positives]), top([genuine], [adversarial], [own])


@given(situations())
def test_a_decision_is_counted_as_undecided_exactly_when_policies_differ(
    situation: tuple[Standing, Top],
) -> None:
    results = [
        metrics.outcome(tie_policy(name), *situation) for name in ("optimistic", "pessimistic", "expected")
    ]
    values = {
        "rank": {float(one.ranks[0]) for one in results},
        **{f"recall@{k}": {float(one.hits[k][0]) for one in results} for k in (1, 5, 10)},
        "incorrect_recall@1": {float(one.fooled[0]) for one in results},
    }
    differ = {decision: int(len(found) > 1) for decision, found in values.items()}
    assert metrics.tie_counts(*situation) == {**differ, "tied_queries": max(differ.values())}
