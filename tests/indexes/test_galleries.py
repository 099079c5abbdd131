"""Galleries number their rows by offset; a variant is swapped without searching the base again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.exact import exact_score_block
from indexes.gallery import Gallery, SwapSearch, merge_topk
from indexes.protocol import Counts, Shard, TopK
from indexes.registry import open_backend
from indexes.sources import ArrayRows


def shard_of(rows, name, origin):
    return Shard(name, origin, ArrayRows(rows))


def test_rows_and_origins(unit_rows):
    gallery = Gallery(
        (
            shard_of(unit_rows(1, 4, 3), "base", "original"),
            shard_of(unit_rows(2, 2, 3), "fake", "adversarial"),
            shard_of(unit_rows(3, 3, 3), "more", "distractor"),
            shard_of(unit_rows(4, 1, 3), "rest", "distractor"),
        )
    )
    assert (gallery.rows, gallery.dim, gallery.offsets) == (10, 3, (0, 4, 6, 9))
    rows = np.array([[0, 3, 4, 5], [6, 8, 9, 0]])
    assert gallery.shard_of(rows).tolist() == [[0, 0, 1, 1], [2, 2, 3, 0]]
    assert gallery.origin_of(rows).tolist() == [
        ["original", "original", "adversarial", "adversarial"],
        ["distractor", "distractor", "distractor", "original"],
    ]
    assert gallery.origin_of(np.empty((0, 2), np.int64)).shape == (0, 2)


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


class OnlyOnce:
    """A backend that may be searched once in each way."""

    def __init__(self, backend):
        self.backend, self.shard, self.name, self.asked = backend, backend.shard, backend.name, []

    def topk(self, queries, k):
        assert "topk" not in self.asked
        self.asked.append("topk")
        return self.backend.topk(queries, k)

    def counts(self, queries, thresholds):
        assert "counts" not in self.asked
        self.asked.append("counts")
        return self.backend.counts(queries, thresholds)


@pytest.mark.parametrize("name", ["numpy", "faiss"])
def test_swaps_equal_a_search_of_the_whole_gallery(unit_rows, name):
    base, more = unit_rows(1, 60, 8, kind="tied"), unit_rows(2, 30, 8)
    variants = {"unchanged": base.copy(), "others": unit_rows(3, 25, 8), "one": base[7:8]}
    queries = unit_rows(4, 12, 8)
    thresholds = exact_score_block(queries, base).max(axis=1)
    once = [
        OnlyOnce(open_backend(name, shard_of(base, "base", "original"))),
        OnlyOnce(open_backend(name, shard_of(more, "more", "distractor"))),
    ]
    swap = SwapSearch.start(once[0], queries, thresholds, 5, once[1:])
    cases = {None: (swap.alone(), np.concatenate([base, more]))}
    for variant, rows in variants.items():
        opened = open_backend(name, shard_of(rows, variant, "adversarial"))
        cases[variant] = (swap.beside(opened), np.concatenate([base, rows, more]))
    for variant, ((gallery, answers), everything) in cases.items():
        exact = exact_score_block(queries, everything)
        order = np.argsort(-exact, axis=1, kind="stable")[:, :5]
        assert gallery.rows == len(everything)
        assert answers.topk.rows.tolist() == order.tolist()
        assert answers.topk.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()
        assert answers.counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
        assert answers.counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()
        # the original wins the tie with its own unchanged copy
        if variant == "unchanged":
            assert (gallery.origin_of(answers.topk.rows[:, 0]) != "adversarial").all()
