"""What cannot be searched is refused with one line that names it."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.devices import gpu_trouble
from indexes.errors import SearchInputError
from indexes.faiss_backend import probe_gpu
from indexes.merge import merge_topk
from indexes.protocol import Shard, TopK
from indexes.registry import open_backend
from indexes.sources import ArrayRows

BACKENDS = ("numpy", "faiss", "torch")


def shard_of(rows, name="base", origin="original"):
    return Shard(name, origin, ArrayRows(rows))


def refused(message, call, *args, **options):
    """The call raises one line that holds the message."""
    with pytest.raises(SearchInputError) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text


def rows_with(value, at=4):
    rows = np.zeros((9, 3), np.float32)
    rows[:, 0] = 1
    rows[at] = value
    return rows


BAD_ROWS = [
    ((np.nan, 0, 0), "row 4 holds NaN"),
    ((np.inf, 0, 0), "row 4 holds an infinite value"),
    ((0, -np.inf, np.nan), "row 4 holds NaN"),
    ((0, 0, 0), "row 4 is all zeros"),
    ((2, 0, 0), "row 4 has norm 2"),
    ((0.99, 0, 0), "row 4 has norm 0.99"),
]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("value", "message"), BAD_ROWS)
def test_bad_rows(name, value, message):
    refused(f"shard 'base': {message}", open_backend, name, shard_of(rows_with(value)), block_rows=3)
    backend = open_backend(name, shard_of(rows_with((1, 0, 0))))
    refused(f"queries: {message}", backend.topk, rows_with(value), 2)
    refused(f"queries: {message}", backend.counts, rows_with(value), np.zeros(9, np.float32))


@pytest.mark.parametrize("name", BACKENDS)
def test_float16_rounding_and_the_tolerance_are_accepted(name):
    rows = np.full((2, 777), 777**-0.5, np.float16)
    assert open_backend(name, shard_of(rows)).topk(rows, 1).rows.tolist() == [[0], [0]]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.ones((1, 2), np.float32), "queries: dimension 2, expected 3"),
        (np.ones(3, np.float32), "queries: shape (3,)"),
        (np.eye(3), "queries: dtype float64"),
        (np.eye(3, dtype=int), "queries: dtype int64"),
        ([[1.0, 0.0, 0.0]], "queries: list"),
    ],
)
def test_bad_queries(name, queries, message):
    backend = open_backend(name, shard_of(np.eye(3, dtype="f4")))
    refused(message, backend.topk, queries, 1)
    refused(message, backend.counts, queries, np.zeros(1, np.float32))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True, None])
def test_bad_k(name, k):
    backend = open_backend(name, shard_of(np.eye(3, dtype="f4")))
    refused(f"k is {k!r}", backend.topk, np.eye(3, dtype="f4"), k)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        (np.zeros(2, np.float32), "thresholds: shape (2,), expected (3,)"),
        (np.zeros((3, 1), np.float32), "thresholds: shape (3, 1), expected (3,)"),
        (np.zeros(3), "thresholds: dtype float64"),
        ([0, 0, 0], "thresholds: list"),
        (np.array([0, np.nan, 0], np.float32), "thresholds: entry 1 is NaN"),
    ],
)
def test_bad_thresholds(name, thresholds, message):
    refused(
        message, open_backend(name, shard_of(np.eye(3, dtype="f4"))).counts, np.eye(3, dtype="f4"), thresholds
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_empty_shard(name):
    refused("shard 'base': 0 rows", open_backend, name, shard_of(np.empty((0, 3), np.float32)))


class Reader:
    """A reader that gives what it is told to."""

    shape = (4, 3)

    def __init__(self, answer):
        self.answer = answer

    def read(self, start, stop):
        return self.answer


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.eye(3, dtype="f4"), "its reader gave 3 rows for [0, 4), expected 4"),
        (np.eye(4, dtype="f4"), "dimension 4, expected 3"),
        (np.eye(4, 3), "dtype float64"),
        (np.ones(4, "f4"), "shape (4,)"),
    ],
)
def test_readers_that_do_not_keep_their_word(name, answer, message):
    refused(message, open_backend, name, Shard("base", "original", Reader(answer)))


def test_unknown_backend_and_block_sizes():
    shard = shard_of(np.eye(3, dtype="f4"))
    refused(
        "unknown search backend 'fais'; did you mean 'faiss'? known: auto, faiss,",
        open_backend,
        "fais",
        shard,
    )
    refused("unknown search backend 'x'; known: auto", open_backend, "x", shard)
    refused("block_rows is 0", open_backend, "numpy", shard, block_rows=0)
    refused("query_block is -1", open_backend, "numpy", shard, query_block=-1)


@pytest.mark.skipif(gpu_trouble() is None, reason="torch has a GPU here")
def test_a_gpu_asked_for_and_absent():
    shard = shard_of(np.eye(3, dtype="f4"))
    refused("backend torch-cuda needs a GPU that torch can use: torch", open_backend, "torch-cuda", shard)


@pytest.mark.skipif(probe_gpu().usable, reason="FAISS has a GPU here")
def test_float16_storage_asked_of_faiss_without_a_gpu():
    shard = shard_of(np.eye(3, dtype="f4"))
    refused("backend faiss-float16 needs a GPU that FAISS can use", open_backend, "faiss-float16", shard)


def test_bad_merges():
    one = TopK(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int64))
    two = TopK(np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int64))
    refused("merge of 0 answers", merge_topk, [], 3)
    refused("k = 0", merge_topk, [(0, one)], 0)
    refused("offsets [5, 0]", merge_topk, [(5, one), (0, one)], 1)
    refused("offsets [0, 0]", merge_topk, [(0, one), (0, one)], 1)
    refused("answers for [1, 2] queries", merge_topk, [(0, one), (1, two)], 1)


def test_bad_arrays():
    refused("rows: dtype float64", ArrayRows, np.eye(3))
    refused("rows: shape (3,)", ArrayRows, np.ones(3, "f4"))
    refused("rows: dimension 0", ArrayRows, np.ones((3, 0), "f4"))
