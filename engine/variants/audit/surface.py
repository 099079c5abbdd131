"""Surface cues: what tells fakes from originals without a look at what they say.

RoCOCO's published captions were made from tokenised text, so that a full stop alone tells most of them from
their originals. Here every such cue is counted, and a logistic regression on nothing but the cues says how
well fakes are told apart: as the area under the ROC curve, 0.5 for not at all, 1 for always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
_APART = re.compile(r"\s(?:[^\w\s\"'(\[{#$@&*+/<=>~-]|'(?:s|m|d|re|ve|ll)\b|n't\b)")

CUES: Mapping[str, Callable[[str], bool]] = {
    "final full stop": lambda text: text.rstrip().endswith("."),
    "capital first letter": lambda text: text.lstrip()[:1].isupper(),
    "upper case": lambda text: text != text.lower(),
    "space before punctuation": lambda text: _APART.search(text) is not None,
    "space at the ends": lambda text: text != text.strip(),
    "double space or line break": lambda text: re.search(r"\s{2}|[^\S ]", text.strip()) is not None,
    "other punctuation": lambda text: re.search(r"[^\w\s.,'-]", text) is not None,
}
"""Cue -> whether a text has it. White space before punctuation also means a clitic apart (``dog 's``)."""


@dataclass(frozen=True)
class Surface:
    """`shares` has, for every cue, the share of originals and of fakes that have it, in [0, 1].

    `auc` is the cross-validated area under the ROC curve; None where there are too few images to
    cross-validate.
    """

    shares: Mapping[str, tuple[float, float]]
    auc: float | None


def audit_surface(
    originals: Sequence[str],
    fakes: Sequence[str],
    original_images: NDArray[np.int64],
    fake_images: NDArray[np.int64],
) -> Surface:
    """Count the cues of the texts, and tell them apart by these alone.

    `original_images` and `fake_images` (int64 [texts]) are the rows of the images: all texts of an image are
    in one fold.
    """
    before, after = cue_table(originals), cue_table(fakes)
    shares = {
        cue: (float(before[:, number].mean()), float(after[:, number].mean()))
        for number, cue in enumerate(CUES)
    }
    groups = np.concatenate([original_images, fake_images])
    return Surface(shares, told_apart(before, after, groups))


def cue_table(texts: Sequence[str]) -> NDArray[np.float64]:
    """float64 [texts, cues]: 1.0 where a text has the cue."""
    rows = [[float(has(text)) for has in CUES.values()] for text in texts]
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(CUES))


def told_apart(
    before: NDArray[np.float64], after: NDArray[np.float64], groups: NDArray[np.int64]
) -> float | None:
    """The area under the ROC curve of a logistic regression (fakes against originals), averaged over folds.

    `before` and `after` are cue tables, `groups` (int64 [rows of both]) what must not be split over folds;
    groups without both kinds are left out. Folds, and so the result, do not depend on chance.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_score

    both = np.intersect1d(groups[: len(before)], groups[len(before) :])
    folds = min(FOLDS, len(both))
    if folds < 2:
        return None
    used = np.isin(groups, both)
    scores = cross_val_score(
        LogisticRegression(),
        np.concatenate([before, after])[used],
        np.repeat([0, 1], [len(before), len(after)])[used],
        groups=groups[used],
        cv=GroupKFold(folds),
        scoring="roc_auc",
    )
    return float(scores.mean())
