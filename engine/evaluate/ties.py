"""Tie policies: what a query is worth when its best positive, or its top 1, shares its score with other rows.

Exact ties are normal here: perturbations leave captions unchanged, and published sets repeat captions. A
policy is a member of `POLICIES`; every metric is taken from the per-query values of one policy, and every
result names it.

With one policy throughout, the three invariants of the specification (``spec/rococo.md``) hold for every
policy: ``R_new <= R``, ``R_new@1 + IR@1 <= 100`` and ``R@1 - R_new@1 <= IR@1``. For `Optimistic` and
`Pessimistic` they follow from the definitions query by query; for `Expected` because all values are
probabilities of events under the *same* random order (leaving the adversarial rows out of a uniformly random
order leaves a uniformly random order of the rest). The last two speak of k = 1 only. Mixing policies within
one comparison would break them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import unknown_name

TiePolicyName = Literal["optimistic", "pessimistic", "expected"]
DEFAULT_POLICY: Final = "expected"


@dataclass(frozen=True)
class Standing:
    """Where the best positive of every query stands in its gallery; int64 arrays [queries].

    With t the best exact score of a query's positives: `above` counts the rows that score more than t, `tied`
    those that score t (at least 1), `tied_positives` the positives among them (at least 1). A further
    positive with a lower score cannot improve the best rank and is not counted apart.
    """

    above: NDArray[np.int64]
    tied: NDArray[np.int64]
    tied_positives: NDArray[np.int64]

    @property
    def misses(self) -> NDArray[np.int64]:
        """int64 [queries]: the rows that are no positives and score at least t."""
        misses: NDArray[np.int64] = self.above + self.tied - self.tied_positives
        return misses

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """bool [queries]: the best positive ties with a row that is none; its rank depends on the policy."""
        return self.tied > self.tied_positives


@dataclass(frozen=True)
class Top:
    """The rows that share the highest score of every query; int64 arrays [queries].

    `genuine` counts the originals and distractors among them, `adversarial` the adversarial rows, and `own`
    those of the adversarial rows that were made from the query's own image (or from a caption of it).
    """

    genuine: NDArray[np.int64]
    adversarial: NDArray[np.int64]
    own: NDArray[np.int64]

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """bool [queries]: an adversarial row shares the top with one that is not."""
        return (self.genuine > 0) & (self.adversarial > 0)


class TiePolicy(Protocol):
    """One way to value ties. Arrays are float64 [queries]."""

    @property
    def name(self) -> TiePolicyName:
        """Name in the registry."""

    def hits(self, standing: Standing, k: int) -> NDArray[np.float64]:
        """In [0, 1]: the best positive is within the first k rows."""

    def ranks(self, standing: Standing) -> NDArray[np.float64]:
        """The rank of the best positive, from 1."""

    def fooled(self, top: Top) -> NDArray[np.float64]:
        """In [0, 1]: the first row is adversarial."""


@dataclass(frozen=True)
class Optimistic:
    """Ties are decided for the query: its positive is listed first, an adversarial row last."""

    name: TiePolicyName = "optimistic"

    def hits(self, standing: Standing, k: int) -> NDArray[np.float64]:
        """1 where ``above + 1 <= k``."""
        return (self.ranks(standing) <= k).astype(np.float64)

    def ranks(self, standing: Standing) -> NDArray[np.float64]:
        """``above + 1``."""
        return standing.above.astype(np.float64) + 1.0

    def fooled(self, top: Top) -> NDArray[np.float64]:
        """1 where all rows at the top are adversarial."""
        return np.equal(top.genuine, 0).astype(np.float64)


@dataclass(frozen=True)
class Pessimistic:
    """Ties are decided against the query: every other row of the same score is listed before it."""

    name: TiePolicyName = "pessimistic"

    def hits(self, standing: Standing, k: int) -> NDArray[np.float64]:
        """1 where ``above + tied - tied_positives + 1 <= k``."""
        return (self.ranks(standing) <= k).astype(np.float64)

    def ranks(self, standing: Standing) -> NDArray[np.float64]:
        """``above + tied - tied_positives + 1``."""
        return standing.misses.astype(np.float64) + 1.0

    def fooled(self, top: Top) -> NDArray[np.float64]:
        """1 where any row at the top is adversarial."""
        return np.greater(top.adversarial, 0).astype(np.float64)


@dataclass(frozen=True)
class Expected:
    """The expectation over a uniformly random order of the rows that share a score."""

    name: TiePolicyName = "expected"

    def hits(self, standing: Standing, k: int) -> NDArray[np.float64]:
        """``1 - C(T - P, m) / C(T, m)`` for T tied rows, P of them positives, and m places for them within k.

        That is one minus the chance that none of the m first of the tied rows is a positive, a hypergeometric
        distribution; ``m = min(max(k - above, 0), T)``.
        """
        places = np.clip(k - standing.above, 0, standing.tied)
        return 1.0 - miss_probability(standing.tied, standing.tied_positives, places)

    def ranks(self, standing: Standing) -> NDArray[np.float64]:
        """``above + (T + 1) / (P + 1)``: the expected first of P among T in random order."""
        ranks: NDArray[np.float64] = standing.above + (standing.tied + 1) / (standing.tied_positives + 1)
        return ranks

    def fooled(self, top: Top) -> NDArray[np.float64]:
        """The adversarial share of the rows at the top."""
        share: NDArray[np.float64] = top.adversarial / (top.genuine + top.adversarial)
        return share


def miss_probability(
    total: NDArray[np.int64], marked: NDArray[np.int64], drawn: NDArray[np.int64]
) -> NDArray[np.float64]:
    """``C(total - marked, drawn) / C(total, drawn)``: none of the marked is among the drawn; float64 [n].

    The ratio is symmetric in `marked` and `drawn`. With a the smaller of the two and b the larger it is the
    product of ``(total - b - i) / (total - i)`` over i < a: no binomial is ever formed, every factor lies in
    [0, 1], and there are at most min(k, positives) of them, however many rows are tied.
    """
    fewer, more = np.minimum(marked, drawn), np.maximum(marked, drawn)
    result = np.ones(len(total), dtype=np.float64)
    for i in range(int(fewer.max(initial=0))):
        active = i < fewer
        remaining = np.maximum(total[active] - more[active] - i, 0)
        result[active] *= remaining / (total[active] - i)
    return result


POLICIES: Mapping[str, TiePolicy] = {
    policy.name: policy for policy in (Optimistic(), Pessimistic(), Expected())
}


def tie_policy(name: str) -> TiePolicy:
    """The policy of that name. Raises `engine.errors.InputError` with the nearest name for an unknown one."""
    if name not in POLICIES:
        raise unknown_name("tie policy", name, POLICIES)
    return POLICIES[name]


def own_share(fooled: NDArray[np.float64], top: Top) -> NDArray[np.float64]:
    """float64 [queries]: the part of `fooled` that goes to adversarial rows of the query's own image.

    Among the adversarial rows at the top no policy prefers one, so their part is their share:
    ``fooled * own / adversarial``, and 0 where no adversarial row is at the top.
    """
    return fooled * top.own / np.maximum(top.adversarial, 1)
