"""What was found in shards is put together as if they had been one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.merge import merge_topk
from indexes.protocol import Counts, TopK


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    k=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_merging_equals_sorting_everything(sizes, k, seed):
    random = np.random.default_rng(seed)
    scores = random.integers(-2, 3, (3, sum(sizes))).astype(np.float32)  # many ties, zeros too
    expected = [
        sorted(range(scores.shape[1]), key=lambda row: (-line[row], row))[:k] for line in scores.tolist()
    ]
    parts, offset = [], 0
    for size in sizes:
        own = scores[:, offset : offset + size]
        order = np.argsort(-own, axis=1, kind="stable")[:, :k]
        parts.append((offset, TopK(np.take_along_axis(own, order, axis=1), order)))
        offset += size
    merged = merge_topk(parts, k)
    assert merged.rows.tolist() == expected
    assert merged.scores.tolist() == [
        [line[row] for row in rows] for line, rows in zip(scores, expected, strict=True)
    ]


def test_counts_add():
    total = Counts(np.array([1, 2]), np.array([0, 5])) + Counts(np.array([10, 20]), np.array([1, 1]))
    assert (total.above.tolist(), total.tied.tolist()) == ([11, 22], [1, 6])
