"""Every backend gives the same bits, whatever the threads, batches, blocks and shards."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from indexes import registry, torch_backend
from indexes.auto_backend import fastest_backend
from indexes.exact import exact_score_block, exact_scores
from indexes.faiss_backend import LONGEST_LIST, probe_gpu
from indexes.merge import merge_topk
from indexes.protocol import Shard, Survey
from indexes.sources import ArrayRows
from indexes.torch_backend import gpu_trouble, open_on_devices

PRECISION_NAMES = ("bfloat16", "float16", "float32", "tf32")
BACKENDS = (
    "numpy",
    "faiss",
    *(f"torch-{precision}" for precision in PRECISION_NAMES),
    # what runs on GPUs, on the processor: rows that stay there, shared out, streamed
    *(f"device-{precision}" for precision in PRECISION_NAMES),
    "shared-bfloat16",
    "streamed-bfloat16",
)
ON_DEVICES = ("device", "shared", "streamed")
CPU = torch.device("cpu")
KINDS = ("plain", "tied", "near", "sparse", "tiny")
seeds = st.integers(0, 2**32 - 1)


def shard_of(rows, name="rows", origin="original"):
    return Shard(name, origin, ArrayRows(rows))


def open_backend(name, shard, *, block_rows=8192, query_block=1024):
    """As the registry does, and what searches on GPUs, on the processor, in blocks of `block_rows`."""
    kind, _, precision = name.partition("-")
    if kind not in ON_DEVICES:
        return registry.open_backend(name, shard, block_rows=block_rows, query_block=query_block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_backend, "fits_on", lambda *_: kind != "streamed")
        devices = (CPU,) * (3 if kind == "shared" else 1)
        return open_on_devices(devices, precision, shard, block_rows, share_rows=1)


def same_as(answer, scores, rows):
    """Equal bits; float32 values are compared as Python floats, and a score is never -0.0."""
    assert answer.scores.dtype == np.float32
    assert answer.rows.dtype == np.int64
    assert answer.scores.tolist() == scores
    assert answer.rows.tolist() == rows
    assert not np.signbit(answer.scores[answer.scores == 0]).any()


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    name=st.sampled_from(BACKENDS),
    dim=st.sampled_from((1, 2, 6)),
    count=st.sampled_from((1, 2, 13, 40)),
    queries=st.sampled_from((1, 2, 5)),
    k=st.integers(1, 60),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(("float32", "float16")),
    block_rows=st.sampled_from((1, 3, 16, 100)),
    query_block=st.sampled_from((1, 2, 100)),
)
def test_answers_equal_integer_arithmetic(
    slow_search,
    slow_counts,
    unit_rows,
    seed,
    name,
    dim,
    count,
    queries,
    k,
    kind,
    dtype,
    block_rows,
    query_block,
):
    rows = unit_rows(seed, count, dim, dtype, kind)
    asked = unit_rows(seed + 1, queries, dim, "float32", kind)
    backend = open_backend(name, shard_of(rows), block_rows=block_rows, query_block=query_block)
    same_as(backend.topk(asked, k), *slow_search(asked, rows, k))
    thresholds = exact_scores(asked, rows[np.arange(queries) * 7 % count])
    for limits in (
        thresholds,
        np.nextafter(thresholds, np.float32(2)),
        np.nextafter(thresholds, np.float32(-2)),
        np.full(queries, np.inf, np.float32),
        np.full(queries, -np.inf, np.float32),
    ):
        expected = slow_counts(asked, rows, limits)
        counts = backend.counts(asked, limits)
        assert (counts.above.tolist(), counts.tied.tolist()) == expected
        survey = backend.survey(asked, limits)
        assert (survey.counts.above.tolist(), survey.counts.tied.tolist()) == expected
    best, first = slow_search(asked, rows, 1)
    assert survey.leaders.scores.tolist() == [scores[0] for scores in best]
    assert survey.leaders.rows.tolist() == [numbers[0] for numbers in first]
    assert survey.leaders.tied.tolist() == slow_counts(asked, rows, survey.leaders.scores)[1]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("dim", [768, 1024])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_long_rows_equal_integer_arithmetic(slow_search, slow_counts, unit_rows, name, dim, dtype):
    rows, asked = unit_rows(1, 24, dim, dtype, "near"), unit_rows(2, 3, dim)
    backend = open_backend(name, shard_of(rows), block_rows=10)
    same_as(backend.topk(asked, 7), *slow_search(asked, rows, 7))
    thresholds = exact_scores(asked, rows[:3])
    counts = backend.counts(asked, thresholds)
    assert (counts.above.tolist(), counts.tied.tolist()) == slow_counts(asked, rows, thresholds)


@pytest.fixture(scope="module", params=["plain", "tied", "near", "sparse"])
def case(request, unit_rows):
    """Rows and queries of a middling size, and the answers by scoring everything exactly and sorting."""
    rows = unit_rows(11, 2_500, 48, kind=request.param)
    queries = np.concatenate([unit_rows(12, 300, 48), unit_rows(13, 50, 48, kind="sparse")])
    exact = exact_score_block(queries, rows)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :20]
    thresholds = np.take_along_axis(exact, order, axis=1)[:, 3].copy()
    above = (exact > thresholds[:, None]).sum(axis=1)
    tied = (exact == thresholds[:, None]).sum(axis=1)
    return rows, queries, thresholds, np.take_along_axis(exact, order, axis=1), order, above, tied


def check_case(case, found, counts, survey=None):
    """The lists, the counts, and what `survey` says beside equal counts."""
    rows, queries, _, scores, order, above, tied = case
    if survey is not None:
        check_case(case, found, survey.counts)
        assert survey.leaders.scores.tobytes() == scores[:, 0].tobytes()
        assert survey.leaders.rows.tolist() == order[:, 0].tolist()
        exact = exact_score_block(queries, rows)
        assert survey.leaders.tied.tolist() == (exact == scores[:, :1]).sum(axis=1).tolist()
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == scores.tobytes()
    assert counts.above.tolist() == above.tolist()
    assert counts.tied.tolist() == tied.tolist()


@pytest.fixture(params=[1, 2])
def threads(request):
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(request.param)
    with threadpool_limits(request.param):
        assert torch.get_num_threads() == request.param
        yield request.param
    faiss.omp_set_num_threads(before)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("batch", [1, 7, 1024])
def test_threads_and_batches_do_not_matter(case, threads, name, batch):
    rows, queries, thresholds, *_ = case
    backend = open_backend(name, shard_of(rows))
    parts = [slice(first, first + batch) for first in range(0, len(queries), batch)]
    found = [backend.topk(queries[part], 20) for part in parts]
    counts = [backend.counts(queries[part], thresholds[part]) for part in parts]
    surveys = Survey.nothing(len(queries))
    for part in parts:
        surveys.part(part).add(backend.survey(queries[part], thresholds[part]))
    check_case(
        case,
        type(found[0])(*(np.concatenate([getattr(f, field) for f in found]) for field in ("scores", "rows"))),
        type(counts[0])(
            *(np.concatenate([getattr(c, field) for c in counts]) for field in ("above", "tied"))
        ),
        surveys,
    )


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("block_rows", "query_block"), [(1, 1024), (97, 33), (1000, 1), (10**6, 10**6)])
def test_block_sizes_do_not_matter(case, name, block_rows, query_block):
    rows, queries, thresholds, *_ = case
    if block_rows == 1 and name.startswith(ON_DEVICES):
        pytest.skip("a GPU's blocks are large; one row each takes a minute")
    if block_rows == 1:  # slow: a slice of the queries is enough
        queries, thresholds = queries[:4], thresholds[:4]
        case = (rows, queries, thresholds, *(part[:4] for part in case[3:]))
    backend = open_backend(name, shard_of(rows), block_rows=block_rows, query_block=query_block)
    answers = backend.topk(queries, 20), backend.counts(queries, thresholds)
    check_case(case, *answers, backend.survey(queries, thresholds))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shards", [1, 3, 17])
def test_a_split_into_shards_does_not_matter(case, name, shards):
    rows, queries, thresholds, *_ = case
    ends = np.linspace(0, len(rows), shards + 1).astype(int)
    origins = ["original", *["distractor"] * (shards - 1)]
    parts = tuple(
        shard_of(rows[first:last], f"shard {first}", origin)
        for (first, last), origin in zip(itertools.pairwise(ends), origins, strict=True)
    )
    offsets = [first for first, _ in itertools.pairwise(ends)]
    backends = [open_backend(name, shard) for shard in parts]
    answers = [(offset, b.topk(queries, 20)) for offset, b in zip(offsets, backends, strict=True)]
    counts = [backend.counts(queries, thresholds) for backend in backends]
    survey = Survey.nothing(len(queries))
    for offset, backend in zip(offsets, backends, strict=True):
        part = backend.survey(queries, thresholds)
        survey.add(Survey(part.counts, replace(part.leaders, rows=part.leaders.rows + offset)))
    check_case(case, merge_topk(answers, 20), sum(counts[1:], counts[0]), survey)


@pytest.mark.parametrize("name", BACKENDS)
def test_two_threads_use_one_backend_at_once(case, name):
    case = (case[0], *(part[:120] for part in case[1:]))
    rows, queries, thresholds, *_ = case
    backend = open_backend(name, shard_of(rows), block_rows=300, query_block=50)
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(backend.topk, queries, 20) for _ in range(2)]
        counts = [pool.submit(backend.counts, queries, thresholds) for _ in range(2)]
        surveys = [pool.submit(backend.survey, queries, thresholds) for _ in range(2)]
        for answer, count, survey in zip(found, counts, surveys, strict=True):
            check_case(case, answer.result(), count.result(), survey.result())


@pytest.mark.parametrize("name", BACKENDS)
def test_identical_rows_are_listed_in_their_order(unit_rows, name):
    count = 400 if name.startswith(ON_DEVICES) else 20_000  # exact scores in torch are fast on a GPU only
    rows = np.repeat(unit_rows(1, 1, 512), count, axis=0)
    queries = unit_rows(2, 100, 512)
    backend = open_backend(name, shard_of(rows))
    found = backend.topk(queries, 10)
    expected = exact_scores(queries, rows[:100])
    assert found.rows.tolist() == [list(range(10))] * 100
    assert (found.scores == expected[:, None]).all()
    counts = backend.counts(queries, expected)
    assert not counts.above.any()
    assert (counts.tied == count).all()
    survey = backend.survey(queries, expected)
    assert (survey.leaders.tied == count).all()
    assert not survey.leaders.rows.any()


@pytest.mark.parametrize("tied", [30, 400, 3 * LONGEST_LIST])
@pytest.mark.parametrize("name", BACKENDS)
def test_more_near_ties_than_a_list_holds(unit_rows, name, tied):
    # the near-ties are within the bound of each other: no list shorter than all of them is certified
    random = np.random.default_rng(tied)
    rows = unit_rows(1, 8_000, 64)
    rows[random.permutation(8_000)[:tied]] = rows[0] + random.uniform(-1e-7, 1e-7, (tied, 64)).astype("f4")
    queries = np.stack([rows[0], rows[5]])
    exact = exact_score_block(queries, rows)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :10]
    found = open_backend(name, shard_of(rows)).topk(queries, 10)
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()


@pytest.mark.parametrize("k", [1, 2, 500, LONGEST_LIST + 1, 2_999, 3_000, 10**9])
@pytest.mark.parametrize("name", BACKENDS)
def test_any_k_up_to_everything(unit_rows, name, k):
    rows, queries = unit_rows(3, 3_000, 16, kind="tied"), unit_rows(4, 3, 16)
    exact = exact_score_block(queries, rows)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    found = open_backend(name, shard_of(rows), block_rows=700).topk(queries, k)
    assert found.rows.shape == (3, min(k, 3_000))
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()


@pytest.mark.parametrize("name", BACKENDS)
def test_no_queries_give_no_answers(unit_rows, name):
    backend = open_backend(name, shard_of(unit_rows(1, 5, 4)))
    nothing = np.empty((0, 4), np.float32)
    assert backend.topk(nothing, 3).rows.shape == (0, 3)
    assert backend.counts(nothing, np.empty(0, np.float32)).above.shape == (0,)
    assert backend.survey(nothing, np.empty(0, np.float32)).leaders.rows.shape == (0,)


class CountingRows(ArrayRows):
    """Counts how many rows were read."""

    def __init__(self, array):
        super().__init__(array)
        self.rows_read = 0

    def read(self, start, stop):
        self.rows_read += stop - start
        return super().read(start, stop)


def test_sources_are_read_once_a_call_by_numpy_and_once_by_faiss_and_torch(unit_rows):
    queries = unit_rows(2, 50, 8)
    for name, later_reads in (("numpy", 2), ("faiss", 0), ("torch-cpu", 0)):
        source = CountingRows(unit_rows(1, 100, 8))
        backend = open_backend(name, Shard("s", "original", source), block_rows=30, query_block=7)
        opened = source.rows_read
        assert opened == 100
        found = backend.topk(queries, 5)
        backend.counts(queries, found.scores[:, 0].copy())
        assert source.rows_read == opened + later_reads * 100


def test_names_and_auto(unit_rows):
    shard = shard_of(unit_rows(1, 3, 2))
    assert open_backend("numpy", shard).name == "numpy"
    backend = open_backend("faiss", shard)
    assert backend.name == "faiss"
    assert backend.shard is shard
    assert backend.device == ("gpu" if probe_gpu().usable else "cpu")
    assert open_backend("torch", shard).device == ("cpu" if gpu_trouble() else "cuda:0")
    assert open_backend("auto", shard).name == open_backend(fastest_backend(), shard).name


def test_the_probe_says_what_it_found():
    probe = probe_gpu()
    assert probe.found
    assert "\n" not in probe.found
    assert probe.usable or faiss.get_num_gpus() == 0 or "failed" in probe.found or "took" in probe.found
