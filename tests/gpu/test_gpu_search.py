"""On a GPU: the same bits as on a processor. Runs where torch or FAISS can use one."""

from __future__ import annotations

import numpy as np
import pytest

from indexes import torch_backend
from indexes.devices import gpu_trouble, usable_gpus
from indexes.exact import exact_score_block
from indexes.faiss_backend import LONGEST_LIST, probe_gpu
from indexes.memory import BlockPlan
from indexes.prefixes import search_prefixes
from indexes.prepared import PRECISIONS
from indexes.protocol import Shard
from indexes.registry import open_backend
from indexes.sources import ArrayRows
from indexes.streaming import open_streamed
from indexes.torch_backend import open_on_devices

pytestmark = pytest.mark.gpu
TORCH = ("torch-cuda", *(f"torch-{name}" for name in sorted(PRECISIONS)))
FAISS = ("faiss", "faiss-float16")


@pytest.fixture(params=(*TORCH, *FAISS))
def name(request):
    if request.param in TORCH and gpu_trouble():
        pytest.skip(str(gpu_trouble()))
    if request.param in FAISS and not probe_gpu().usable:
        pytest.skip(probe_gpu().found)
    return request.param


def gallery(kind, count, dim):
    random = np.random.default_rng([count, dim])
    rows = random.standard_normal((count, dim)) + 0.3
    if kind != "plain":
        rows = rows[random.integers(0, count // 3, count)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if kind == "near":
        rows += random.uniform(-1e-7, 1e-7, rows.shape)
    return rows.astype(np.float32)


@pytest.mark.parametrize("kind", ["plain", "tied", "near"])
@pytest.mark.parametrize("k", [1, 10, 1000, LONGEST_LIST + 50])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gpu_gives_the_same_bits(name, kind, k, dtype):
    rows = gallery(kind, 20_000, 256).astype(dtype)
    queries = np.ascontiguousarray(rows[::97][:200], np.float32)
    exact = exact_score_block(queries, rows)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    backend = open_backend(name, Shard("rows", "original", ArrayRows(rows)))
    found = backend.topk(queries, k)
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == np.take_along_axis(exact, order, axis=1).tobytes()
    thresholds = found.scores[:, min(k, 10) - 1].copy()
    counts = backend.counts(queries, thresholds)
    assert counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
    assert counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()
    check_survey(backend.survey(queries, thresholds), exact, thresholds)


def check_survey(survey, exact, thresholds):
    best = exact.max(axis=1)
    assert survey.counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
    assert survey.counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()
    assert survey.leaders.scores.tobytes() == best.tobytes()
    assert survey.leaders.rows.tolist() == exact.argmax(axis=1).tolist()
    assert survey.leaders.tied.tolist() == (exact == best[:, None]).sum(axis=1).tolist()


@pytest.mark.skipif(bool(gpu_trouble()), reason=str(gpu_trouble()))
@pytest.mark.parametrize("kind", ["plain", "tied", "near"])
def test_every_size_of_a_gallery_streamed_to_a_gpu_in_one_pass(kind):
    rows = gallery(kind, 20_000, 256)
    queries = rows[::97].copy()
    exact = exact_score_block(queries, rows)
    thresholds = exact[:, 5].copy()
    stream = open_streamed(Shard("rows", "original", ArrayRows(rows)), BlockPlan(3000, 1024), "torch-cuda")
    sizes = (1, 2999, 3000, 7001, 20_000)
    for prefix in search_prefixes(stream, queries, thresholds, sizes):
        check_survey(prefix.survey, exact[:, : prefix.rows], thresholds)


@pytest.mark.skipif(bool(gpu_trouble()), reason=str(gpu_trouble()))
@pytest.mark.parametrize("precision", sorted(PRECISIONS))
def test_rows_that_do_not_fit_are_streamed_with_the_same_bits(monkeypatch, precision):
    rows = gallery("near", 50_000, 256)
    queries = rows[::97].copy()
    monkeypatch.setattr(torch_backend, "fits_on", lambda *_: False)
    backend = open_on_devices(usable_gpus(), precision, Shard("rows", "original", ArrayRows(rows)), 3000)
    assert "streamed" in backend.device
    expected = open_backend("numpy", Shard("rows", "original", ArrayRows(rows)))
    found, known = backend.topk(queries, 10), expected.topk(queries, 10)
    assert found.rows.tolist() == known.rows.tolist()
    assert found.scores.tobytes() == known.scores.tobytes()
    thresholds = known.scores[:, 3].copy()
    exact = exact_score_block(queries, rows)
    check_survey(backend.survey(queries, thresholds), exact, thresholds)


@pytest.mark.skipif(len(usable_gpus()) < 2, reason="needs two GPUs of one kind")
def test_several_gpus_share_the_rows():
    rows = gallery("near", 50_000, 256)
    queries = rows[::97].copy()
    shard = Shard("rows", "original", ArrayRows(rows))
    backend = open_on_devices(usable_gpus(), None, shard, share_rows=1000)
    assert backend.device.count("cuda:") == len(usable_gpus())
    assert (
        backend.topk(queries, 10).rows.tolist()
        == open_backend("numpy", shard).topk(queries, 10).rows.tolist()
    )


def test_a_million_rows_that_all_tie(name):
    rows = np.repeat(np.array([[0.6, 0.8]], np.float32), 1_000_000, axis=0)
    backend = open_backend(name, Shard("same", "original", ArrayRows(rows)))
    found = backend.topk(rows[:3], 10)
    assert found.rows.tolist() == [list(range(10))] * 3
    assert backend.counts(rows[:3], found.scores[:, 0].copy()).tied.tolist() == [1_000_000] * 3
