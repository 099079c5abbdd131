"""A pass in low precision stays within its proven bound, and nothing within the bound changes an answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes import device_scan, device_tiles, host_scan
from indexes.certify import Best, ProposerError, Tile
from indexes.device_scan import DeviceScan
from indexes.device_tiles import DeviceRows
from indexes.exact import exact_score_block
from indexes.few_queries import FEW, few_products, fits_few
from indexes.host_scan import HostScan, shares
from indexes.prepared import PRECISIONS, bound, prepare_queries, prepare_rows
from indexes.protocol import Counts, Shard
from indexes.registry import open_backend
from indexes.sources import ArrayRows
from indexes.validate import as_stored

KINDS = ("plain", "tied", "near", "sparse", "tiny")
seeds = st.integers(0, 2**32 - 1)
precisions = st.sampled_from(sorted(PRECISIONS))
CPU = torch.device("cpu")


def expected(exact, k):
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(exact, order, axis=1), order


def scans(rows, precision, block_rows):
    """The scan for processors and the one for GPUs, over the same rows in blocks."""
    chosen = PRECISIONS[precision]
    blocks = [
        prepare_rows(rows[first : first + block_rows], 1.001, chosen, first)
        for first in range(0, len(rows), block_rows)
    ]
    placed = tuple(DeviceRows.place(block, CPU) for block in blocks)
    return HostScan(chosen, lambda: blocks), DeviceScan(chosen, lambda: placed, CPU)


def check(scan, queries, rows, k, thresholds=None):
    exact = exact_score_block(queries, rows)
    scores, order = expected(exact, k)
    found = scan.topk(queries, min(k, len(rows)))
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == scores.tobytes()
    limits = scores[:, -1].copy() if thresholds is None else thresholds
    counts = scan.counts(queries, limits)
    assert counts.above.tolist() == (exact > limits[:, None]).sum(axis=1).tolist()
    assert counts.tied.tolist() == (exact == limits[:, None]).sum(axis=1).tolist()
    survey = scan.survey(queries, limits)
    assert survey.counts.above.tolist() == counts.above.tolist()
    assert survey.counts.tied.tolist() == counts.tied.tolist()
    assert survey.leaders.scores.tobytes() == exact.max(axis=1, initial=-np.inf).tobytes()
    assert survey.leaders.rows.tolist() == exact.argmax(axis=1).tolist()
    assert survey.leaders.tied.tolist() == (exact == exact.max(axis=1)[:, None]).sum(axis=1).tolist()


# ---------------------------------------------------------------- the bound


@settings(max_examples=80, deadline=None)
@given(
    seed=seeds,
    dim=st.sampled_from((1, 2, 33, 200, 700)),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(("float32", "float16")),
    precision=precisions,
)
def test_the_product_of_low_values_is_within_the_bound(unit_rows, seed, dim, kind, dtype, precision):
    queries = unit_rows(seed, 5, dim, kind=kind)
    rows = unit_rows(seed + 1, 20, dim, "float32" if kind == "tiny" else dtype, kind)
    chosen = PRECISIONS[precision]
    asked, prepared = prepare_queries(queries, chosen), prepare_rows(rows, 1.001, chosen)
    exact = exact_score_block(queries, rows).astype(np.float64)
    bounds = bound(asked, prepared, chosen)[:, None]
    ideal = (asked.low.double() @ prepared.low.double().T).numpy() + asked.offsets(prepared)[:, None]
    assert (np.abs(ideal - exact) <= bounds).all()
    stored = (asked.low @ prepared.low.T).double().numpy()
    rounding = np.abs(stored) * 2.0**-8 if precision == "bfloat16" else 0.0
    assert (np.abs(stored + asked.offsets(prepared)[:, None] - exact) <= bounds + rounding).all()


def test_the_bound_is_nearly_reached_where_every_rounding_points_one_way():
    # 256 components a hair below the middle of two bfloat16 values, and a query that is all along them
    row = np.full(258, (1 + 0.99 * 2.0**-8) * 2.0**-5)
    row[256] = 221 / 256
    row[257] = float(torch.tensor(np.sqrt(1 - row[:257] @ row[:257])).bfloat16())
    rows = np.stack([row, -row]).astype(np.float32)  # their mean is zero
    query = np.full((1, 258), 1 / 16, np.float32)
    query[0, 256:] = 0
    chosen = PRECISIONS["bfloat16"]
    asked, prepared = prepare_queries(query, chosen), prepare_rows(rows, 1.001, chosen)
    ideal = float(asked.low.double() @ prepared.low[0].double())
    error = abs(ideal - float(exact_score_block(query, rows)[0, 0]))
    allowed = float(bound(asked, prepared, chosen)[0])
    assert 0.9 * allowed < error <= allowed
    for scan in scans(rows, "bfloat16", 2):
        check(scan, np.repeat(query, 3, axis=0), rows, 1)


def test_centering_shrinks_the_bound_and_moves_no_answer(unit_rows):
    random = np.random.default_rng(0)
    together = random.standard_normal((3000, 64)) * 0.2 + random.standard_normal(64)
    rows = (together / np.linalg.norm(together, axis=1, keepdims=True)).astype("f4")
    chosen = PRECISIONS["bfloat16"]
    prepared = prepare_rows(rows, 1.001, chosen)
    plain = (torch.from_numpy(rows) - torch.from_numpy(rows).bfloat16().float()).norm(dim=1).max()
    assert prepared.residue < 0.5 * float(plain)
    for scan in scans(rows, "bfloat16", 1000):
        check(scan, rows[:20].copy(), rows, 10)


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    dim=st.sampled_from((1, 2, 33, 200, 700)),
    kind=st.sampled_from(KINDS),
    queries=st.integers(1, FEW + 1),
    precision=precisions,
)
def test_the_products_of_a_few_queries_are_within_the_bound(unit_rows, seed, dim, kind, queries, precision):
    asked_rows, rows = unit_rows(seed, queries, dim, kind=kind), unit_rows(seed + 1, 70, dim, kind=kind)
    chosen = PRECISIONS[precision]
    asked, prepared = prepare_queries(asked_rows, chosen), prepare_rows(rows, 1.001, chosen)
    assert fits_few(asked.low) == (queries <= FEW and precision != "float16")
    if not fits_few(asked.low):
        return
    found = few_products(asked.low, prepared.low)
    exact = exact_score_block(asked_rows, rows).astype(np.float64)
    error = np.abs(found + asked.offsets(prepared)[:, None] - exact)
    assert (error <= bound(asked, prepared, chosen)[:, None]).all()


# ---------------------------------------------------------------- entries at the edge of the bound


def as_bfloat16(values, direction):
    """bfloat16 bits of float64 values, int16: rounded down, up, or toward zero, as hardware might."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    toward_zero = (bits >> 16).astype(np.uint16)
    away = toward_zero + ((bits & 0xFFFF) != 0).astype(np.uint16)
    positive = single >= 0
    if direction == "zero":
        return toward_zero.view(np.int16)
    take_away = positive if direction == "up" else ~positive
    return np.where(take_away, away, toward_zero).astype(np.uint16).view(np.int16)


@settings(max_examples=150, deadline=None)
@given(
    seed=seeds,
    kind=st.sampled_from(KINDS),
    k=st.sampled_from((1, 3, 10, 150)),
    width=st.sampled_from((1e-6, 1e-3, 0.05, 1.5)),
    direction=st.sampled_from(("down", "up", "zero", "float32")),
    shift=st.sampled_from((0.0, 0.3, -0.9)),
)
def test_entries_exactly_at_the_bound_change_nothing(unit_rows, seed, kind, k, width, direction, shift):
    queries, rows = unit_rows(seed, 5, 6, kind=kind), unit_rows(seed + 1, 300, 6, kind=kind)
    exact = exact_score_block(queries, rows)
    random = np.random.default_rng(seed)
    entries = exact - shift + random.choice([-width, 0.0, width], exact.shape)
    slack = 0.0
    if direction == "float32":
        tile, slack = entries.astype(np.float32), 2.0**-22
    else:  # rounding to float32 first would be a second rounding: keep float32 values
        entries = entries.astype(np.float32).astype(np.float64)
        tile, slack = as_bfloat16(entries, direction), 2.0**-22
    bounds, offsets = np.full(5, width + slack), np.full(5, shift)
    best = Best.start(5, k)
    thresholds = exact[np.arange(5), np.arange(5) * 40].copy()
    counts = Counts.nothing(5)
    for part in (slice(0, 170), slice(170, 300)):
        cells = np.ascontiguousarray(tile[:, part])
        known = bounds, offsets, as_stored(queries), as_stored(rows[part])
        scanned = Tile(cells, *known, part.start)
        scanned.improve(best)
        scanned.count(counts, thresholds)
    found = best.finish()
    scores, order = expected(exact, k)
    assert found.rows.tolist() == order.tolist()
    assert found.scores.tobytes() == scores.tobytes()
    assert counts.above.tolist() == (exact > thresholds[:, None]).sum(axis=1).tolist()
    assert counts.tied.tolist() == (exact == thresholds[:, None]).sum(axis=1).tolist()


@pytest.mark.parametrize("kind", ["float32", "int16"])
def test_entries_beyond_the_bound_are_an_error(unit_rows, kind):
    queries, rows = unit_rows(1, 3, 8), unit_rows(2, 200, 8)
    exact = exact_score_block(queries, rows)
    off = (exact + 0.2).astype(np.float32)
    tile = off if kind == "float32" else as_bfloat16(off.astype(float), "zero")
    wrong = Tile(tile, np.full(3, 0.1), np.zeros(3), as_stored(queries), as_stored(rows), 0)
    with pytest.raises(ProposerError, match="off the exact one"):
        wrong.improve(Best.start(3, 2))
    with pytest.raises(ProposerError, match="off the exact one"):
        wrong.count(Counts.nothing(3), exact[:, 5] + np.float32(0.2))
    if kind == "float32":
        tile[:] = np.nan
        with pytest.raises(ProposerError):
            wrong.improve(Best.start(3, 2))


def test_positive_and_negative_zero_are_one_score():
    queries = np.eye(2, dtype="f4")
    rows = np.eye(2, dtype="f4")[[1, 1, 0]]
    for zero in (0, -(2**15)):
        tile = np.array([[zero, zero, 0x3F80], [0x3F80, 0x3F80, zero]], np.uint16 if zero >= 0 else np.int16)
        counts = Counts.nothing(2)
        known = (np.full(2, 2.0**-30), np.zeros(2), as_stored(queries), as_stored(rows))
        Tile(tile.view(np.int16), *known, 0).count(counts, np.zeros(2, np.float32))
        assert (counts.above.tolist(), counts.tied.tolist()) == ([1, 2], [2, 1])


def test_a_lower_limit_of_zero_lets_negative_zero_through():
    queries = np.eye(2, dtype="f4")[:1]
    rows = np.array([[0.25, np.sqrt(1 - 0.0625)]], np.float32)
    tile = np.full((1, 1), -(2**15), np.int16)  # -0.0, a quarter below the exact score
    known = (np.full(1, 0.25), np.zeros(1), as_stored(queries), as_stored(rows))
    counts = Counts.nothing(1)
    Tile(tile, *known, 0).count(counts, np.full(1, 0.25, np.float32))
    assert (counts.above.tolist(), counts.tied.tolist()) == ([0], [1])


# ---------------------------------------------------------------- hard galleries


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize("k", [1, 10, 100, 1000])
@pytest.mark.parametrize("kind", ["plain", "near", "tied"])
def test_every_k(unit_rows, precision, k, kind):
    rows, queries = unit_rows(1, 3000, 24, kind=kind), unit_rows(2, 12, 24, kind=kind)
    for scan in scans(rows, precision, 1300):
        check(scan, queries, rows, k)


@pytest.mark.parametrize("precision", sorted(PRECISIONS))
def test_near_ties_below_the_resolution_of_the_pass(unit_rows, precision):
    random = np.random.default_rng(1)
    rows = unit_rows(1, 1, 96).repeat(2000, axis=0) + random.uniform(-1e-7, 1e-7, (2000, 96)).astype("f4")
    queries = np.concatenate([rows[:2], unit_rows(2, 2, 96)])
    for scan in scans(rows, precision, 2000):
        check(scan, queries, rows, 10)


@pytest.mark.parametrize("scale", [1e-18, 1e18])
@pytest.mark.parametrize("precision", sorted(PRECISIONS))
def test_norms_before_normalising_leave_no_trace(precision, scale):
    random = np.random.default_rng(3)
    raw = (random.standard_normal((900, 40)) * scale).astype(np.float32)
    rows = (raw / np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    for scan in scans(rows, precision, 500):
        check(scan, rows[:9].copy(), rows, 5)


@pytest.mark.parametrize("name", ["torch-bfloat16", "torch-float32"])
def test_a_million_rows_that_all_tie(name):
    rows = np.repeat(np.array([[0.6, 0.8]], np.float32), 1_000_000, axis=0)
    backend = open_backend(name, Shard("same", "original", ArrayRows(rows)))
    queries = np.repeat(np.array([[0.28, 0.96]], np.float32), 3, axis=0)
    found = backend.topk(queries, 10)
    counts = backend.counts(queries, found.scores[:, 0].copy())
    assert found.rows.tolist() == [list(range(10))] * 3
    assert counts.above.tolist() == [0, 0, 0]
    assert counts.tied.tolist() == [1_000_000] * 3


@settings(max_examples=40, deadline=None)
@given(
    seed=seeds,
    precision=precisions,
    count=st.sampled_from((1, 63, 64, 65, 129, 700)),
    queries=st.sampled_from((1, 3, 140)),
    k=st.integers(1, 70),
    limit=st.sampled_from((-np.inf, np.inf, 0.0, 3e38, -3e38)),
)
def test_odd_sizes_and_thresholds(unit_rows, seed, precision, count, queries, k, limit):
    rows, asked = unit_rows(seed, count, 7, kind="sparse"), unit_rows(seed + 1, queries, 7, kind="sparse")
    for scan in scans(rows, precision, 300):
        check(scan, asked, rows, k, np.full(queries, limit, np.float32))


# ---------------------------------------------------------------- how the work is cut


@given(queries=st.integers(1, 3000), rows=st.integers(1, 10_000), threads=st.integers(1, 64))
def test_every_query_meets_every_row_once(queries, rows, threads):
    for slices, count in zip(shares(queries, rows, threads), (queries, rows), strict=True):
        assert [place for part in slices for place in range(part.start, part.stop)] == list(range(count))


def test_a_full_device_searches_in_smaller_tiles_and_says_so_once(unit_rows, monkeypatch, caplog):
    rows, queries = unit_rows(1, 500, 16), unit_rows(2, 50, 16)
    _, scan = scans(rows, "bfloat16", 500)
    real, asked = device_tiles.product, []

    def small_memory(left, right, precision):
        asked.append(len(right))
        if len(right) > 128:
            raise torch.OutOfMemoryError("full")
        return real(left, right, precision)

    monkeypatch.setattr(device_tiles, "product", small_memory)
    monkeypatch.setattr(device_scan, "TILE_SCORES", 50 * 1024)
    monkeypatch.setattr(device_scan, "TILE_QUERIES", 30)
    check(scan, queries, rows, 10)
    assert max(asked) > 128 >= asked[-1]
    asked.clear()
    check(scan, queries, rows, 10)
    assert max(asked) <= 128  # what did not fit is not tried again
    assert sum("out of memory" in record.message for record in caplog.records) == 1


def test_few_queries_hold_no_more_scores_than_a_tile(unit_rows, monkeypatch):
    rows, queries = unit_rows(1, 9000, 8), unit_rows(2, 2, 8)
    widths = []

    def watched(left, right):
        widths.append(len(left) * len(right))
        return few_products(left, right)

    monkeypatch.setattr(host_scan, "few_products", watched)
    monkeypatch.setattr(host_scan, "TILE_BYTES", 1 << 14)
    scan, _ = scans(rows, "bfloat16", 9000)
    check(scan, queries, rows, 5)
    assert max(widths) * 4 <= 1 << 14


def test_a_device_that_stays_full_says_so(unit_rows, monkeypatch):
    def no_memory(left, right, precision):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(device_tiles, "product", no_memory)
    _, scan = scans(unit_rows(1, 50, 16), "bfloat16", 50)
    with pytest.raises(torch.OutOfMemoryError):
        scan.topk(unit_rows(2, 5, 16), 3)
