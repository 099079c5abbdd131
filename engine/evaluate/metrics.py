"""The metrics of a run, as pure functions of per-query values. Shares are in percent, 0 to 100.

Definitions: ``spec/rococo.md``, section Metrics (RoCOCO, sections 3 and 4); rsum as in the cross-modal
retrieval literature since VSE++. Per-query values come from a tie policy (`engine.evaluate.ties`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.ties import Standing, TiePolicy, Top, own_share

CUTOFFS = (1, 5, 10)

RECALL = {k: f"recall@{k}" for k in CUTOFFS}
MEDIAN_RANK = "median_rank"
MEAN_RANK = "mean_rank"
RSUM = "rsum"
SET_RECALL = {k: f"set_recall@{k}" for k in CUTOFFS}
SET_RSUM = "set_rsum"
DCG = "dcg@10"
DROP_RATE = "drop_rate"
INCORRECT_RECALL = "incorrect_recall@1"
INCORRECT_RECALL_OWN = "incorrect_recall@1/own"
INCORRECT_RECALL_OTHER = "incorrect_recall@1/other"
TIED_QUERIES = "tied_queries"
CHANGED_RATE = "changed_rate"
RSUM_BOTH = "rsum_both_directions"
RANK_METRICS = (*RECALL.values(), MEDIAN_RANK, MEAN_RANK, RSUM)
QUERIES_DOWN, QUERIES_UP, QUERIES_SAME = QUERY_MOVES = ("queries_down", "queries_up", "queries_same")
FOOLED_BLIND = "incorrect_without_query"
EXTENDED_RECALL_1, R_PRECISION, MAP_AT_R = EXTENDED = ("extended_recall@1", "r_precision", "map@r")
# beyond those that every run has
ADDED = (*QUERY_MOVES, FOOLED_BLIND, *SET_RECALL.values(), SET_RSUM, DCG, *EXTENDED)


@dataclass(frozen=True)
class Outcome:
    """Per-query values of one run under one tie policy; float64 [queries].

    `hits` maps each cutoff k to the share of hit@k in [0, 1], `ranks` count from 1, `fooled` is the share of
    IR@1 in [0, 1] and `fooled_by_own` the part of it that goes to fakes of the query's own image.
    """

    hits: Mapping[int, NDArray[np.float64]]
    ranks: NDArray[np.float64]
    fooled: NDArray[np.float64]
    fooled_by_own: NDArray[np.float64]


def outcome(policy: TiePolicy, standing: Standing, top: Top) -> Outcome:
    """What every query is worth under the policy."""
    fooled = policy.fooled(top)
    hits = {k: policy.hits(standing, k) for k in CUTOFFS}
    return Outcome(hits, policy.ranks(standing), fooled, own_share(fooled, top))


def recall(hits: NDArray[np.float64]) -> float:
    """R@k: ``100 * mean(hit@k)``, a hit being the best-ranked positive within the first k."""
    return percent(hits)


def median_rank(ranks: NDArray[np.float64]) -> float:
    """The median over queries of the best positive's rank (from 1), or of its expectation (`expected`)."""
    return float(np.median(ranks))


def mean_rank(ranks: NDArray[np.float64]) -> float:
    """The mean over queries of the best positive's rank (from 1)."""
    return float(np.mean(ranks))


def rsum(recalls: Mapping[int, float]) -> float:
    """``R@1 + R@5 + R@10`` of one direction; the usual sum of six is the sum of both directions' values."""
    return sum(recalls[k] for k in CUTOFFS)


def rsum_both(by_direction: Mapping[str, float]) -> float | None:
    """The sum of six: rsum of i2t plus rsum of t2i; None when one of them is not there."""
    return sum(by_direction.values()) if len(by_direction) == 2 else None


def drop_rate(base_recall: float, new_recall: float) -> float | None:
    """``100 * (R@1 - R@1_new) / R@1``; None, undefined, when the base R@1 is 0."""
    return 100.0 * (base_recall - new_recall) / base_recall if base_recall > 0 else None


def incorrect_recall(fooled: NDArray[np.float64]) -> float:
    """IR@1: ``100 * mean(first row is adversarial)``, whichever image it was made from."""
    return percent(fooled)


def changed_rate(changed: NDArray[np.bool_]) -> float:
    """``100 * mean(item differs from its original)`` over a variant's items in the gallery."""
    return percent(changed.astype(np.float64))


def percent(values: NDArray[np.float64]) -> float:
    """``100 * mean(values)``."""
    return 100.0 * float(np.mean(values))


def rank_metrics(result: Outcome) -> dict[str, float]:
    """The metrics that need ranks alone: recalls, median and mean rank, rsum."""
    recalls = {k: recall(result.hits[k]) for k in CUTOFFS}
    return {
        **{RECALL[k]: recalls[k] for k in CUTOFFS},
        MEDIAN_RANK: median_rank(result.ranks),
        MEAN_RANK: mean_rank(result.ranks),
        RSUM: rsum(recalls),
    }


def fooled_metrics(result: Outcome) -> dict[str, float]:
    """IR@1, and its parts from fakes of the query's own image and of other images; own + other = IR@1."""
    return {
        INCORRECT_RECALL: incorrect_recall(result.fooled),
        INCORRECT_RECALL_OWN: percent(result.fooled_by_own),
        INCORRECT_RECALL_OTHER: percent(result.fooled - result.fooled_by_own),
    }


def tie_counts(standing: Standing, top: Top) -> dict[str, int]:
    """How many queries' values depend on the policy, by decision: the rank, each R@k, IR@1, and any of them.

    Hit@k depends on it where the policies differ by a place: ``above < k <= above + tied - tied_positives``.
    """
    at_cutoff = {RECALL[k]: int(np.sum((standing.above < k) & (standing.misses >= k))) for k in CUTOFFS}
    return {
        "rank": int(np.sum(standing.undecided)),
        **at_cutoff,
        INCORRECT_RECALL: int(np.sum(top.undecided)),
        TIED_QUERIES: int(np.sum(standing.undecided | top.undecided)),
    }
