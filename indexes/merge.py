"""The best rows of several shards, from the best of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexes.errors import SearchInputError
from indexes.protocol import TopK


def merge_topk(parts: Sequence[tuple[int, TopK]], k: int) -> TopK:
    """The k best of several shards, exactly: parts are (offset of the shard in the gallery, its answer).

    Every answer must be for the same queries and hold the shard's k best (all its rows when it has fewer).
    The result has gallery rows and min(k, columns of all parts) columns. Raises `SearchInputError` for no
    parts, k < 1, other query counts, or offsets that do not ascend.
    """
    if not parts or k < 1:
        raise SearchInputError(
            f"merge of {len(parts)} answers with k = {k}: expected one answer or more, k >= 1"
        )
    offsets = [offset for offset, _ in parts]
    if offsets != sorted(set(offsets)):
        raise SearchInputError(f"merge with offsets {offsets}: expected them to ascend")
    if len({len(answer.scores) for _, answer in parts}) > 1:
        sizes = [len(answer.scores) for _, answer in parts]
        raise SearchInputError(f"merge of answers for {sizes} queries: expected the same queries in all")
    scores = np.concatenate([answer.scores for _, answer in parts], axis=1)
    rows = np.concatenate([answer.rows + offset for offset, answer in parts], axis=1)
    # within and across parts, equal scores stand in order of their rows: a stable sort keeps them so
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return TopK(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))
