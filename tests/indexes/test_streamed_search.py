"""Search in shards that are read in every call, and the answers for many prefixes in one pass."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes import certify, streaming, torch_backend
from indexes.device_stream import DeviceStream
from indexes.errors import SearchInputError
from indexes.exact import exact_score_block
from indexes.files import open_npy
from indexes.float32_stream import Float32Stream
from indexes.memory import PLANS, RESERVE, BlockPlan, MemoryLimit, parse_bytes, resident_bytes
from indexes.prefixes import search_prefixes
from indexes.protocol import Shard
from indexes.registry import open_backend
from indexes.sources import ArrayRows
from indexes.streaming import DEFAULT_PLAN, LARGEST_NORM, StreamedBackend, open_limited, spans

KINDS = ("plain", "tied", "near", "sparse", "tiny")


class CountedRows:
    """Counts how often every row is read."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.reads = rows, np.zeros(len(rows), int)
        self.shape = rows.shape

    def read(self, start: int, stop: int) -> np.ndarray:
        self.reads[start:stop] += 1
        return self.rows[start:stop]


def shard(rows: np.ndarray, name: str = "distractors") -> Shard:
    return Shard(name, "distractor", ArrayRows(rows))


PASSES = ("numpy", "torch-float32", "torch-bfloat16", "torch-float16")
PASSES_AND_GPU = (*PASSES, "gpu-bfloat16", "gpu-tf32")  # what streams to a GPU, on the processor


def open_streamed(shard: Shard, plan: BlockPlan = DEFAULT_PLAN, name: str = "numpy") -> StreamedBackend:
    """As the package does, and what streams to a GPU, with the processor in its place."""
    kind, _, precision = name.partition("-")
    if kind != "gpu":
        return streaming.open_streamed(shard, plan, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_backend, "usable_gpus", lambda: (torch.device("cpu"),))
        backend = streaming.open_streamed(shard, plan, f"torch-{precision}")
    assert isinstance(backend.scan, DeviceStream)
    return backend


@pytest.mark.parametrize("backend_name", PASSES_AND_GPU)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(["float32", "float16"]),
    count=st.integers(1, 60),
    plan=st.sampled_from([(1, 1), (7, 2), (16, 3), (1000, 1000)]),
    data=st.data(),
)
def test_every_prefix_equals_a_search_of_that_prefix(
    slow_score, unit_rows, backend_name, seed, kind, dtype, count, plan, data
):
    dtype = "float32" if kind == "tiny" else dtype
    rows = unit_rows(seed, count, 6, dtype, kind)
    queries = unit_rows(seed + 1, 4, 6, "float32", kind)
    queries[0] = rows[0]
    table = np.array([[slow_score(query, row) for row in rows] for query in queries], np.float32)
    thresholds = table[np.arange(4), data.draw(st.lists(st.integers(0, count - 1), min_size=4, max_size=4))]
    sizes = sorted(data.draw(st.sets(st.integers(1, count), min_size=1)))
    source = CountedRows(rows)
    backend = open_streamed(Shard("d", "distractor", source), BlockPlan(*plan), backend_name)
    done: list[int] = []
    found = search_prefixes(backend, queries, thresholds, sizes, done.append)
    assert [prefix.rows for prefix in found] == sizes
    assert sum(done) == sizes[-1]
    assert source.reads.tolist() == [1] * sizes[-1] + [0] * (count - sizes[-1])
    for prefix in found:
        part = table[:, : prefix.rows]
        np.testing.assert_array_equal(prefix.survey.counts.above, (part > thresholds[:, None]).sum(axis=1))
        np.testing.assert_array_equal(prefix.survey.counts.tied, (part == thresholds[:, None]).sum(axis=1))
        np.testing.assert_array_equal(prefix.survey.leaders.scores, part.max(axis=1))
        np.testing.assert_array_equal(prefix.survey.leaders.rows, part.argmax(axis=1))
        np.testing.assert_array_equal(
            prefix.survey.leaders.tied, (part == part.max(axis=1)[:, None]).sum(axis=1)
        )


@pytest.mark.parametrize("backend_name", PASSES_AND_GPU)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [8192, 700])
def test_a_larger_shard_gives_the_same_bits_as_in_memory(unit_rows, backend_name, kind, block):
    rows, queries = unit_rows(3, 3000, 24, "float32", kind), unit_rows(4, 40, 24, "float32", kind)
    table = exact_score_block(queries, rows)
    thresholds = np.partition(table, -20, axis=1)[:, -20].copy()
    streamed = open_streamed(shard(rows), BlockPlan(block, 16), backend_name)
    memory = open_backend("numpy", shard(rows))
    for k in (1, 10, 3000):
        ours, theirs = streamed.topk(queries, k), memory.topk(queries, k)
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_array_equal(ours.scores, theirs.scores)
    ours, theirs = streamed.counts(queries, thresholds), memory.counts(queries, thresholds)
    np.testing.assert_array_equal(ours.above, theirs.above)
    np.testing.assert_array_equal(ours.tied, theirs.tied)
    last = search_prefixes(streamed, queries, thresholds, [1, 699, 3000])[-1]
    np.testing.assert_array_equal(last.survey.counts.above, theirs.above)
    np.testing.assert_array_equal(last.survey.leaders.rows, table.argmax(axis=1))


def test_a_proposer_that_is_worse_than_its_bound_is_found_out(unit_rows):
    class Rounding:
        def propose(self, queries, rows):
            return (queries @ rows.T).astype(np.float16).astype(np.float32)

        def bound(self, queries, largest_norm):
            return certify.inner_product_bound(queries, largest_norm)

    rows = unit_rows(1, 200, 24)
    backend = StreamedBackend(shard(rows), Float32Stream(Rounding(), shard(rows), LARGEST_NORM, 64, 8))
    with pytest.raises(certify.ProposerError):
        search_prefixes(backend, unit_rows(2, 8, 24), np.full(8, 0.5, np.float32), [200])


@given(st.integers(1, 40), st.integers(1, 50), st.sets(st.integers(0, 40)))
def test_spans_cover_all_rows_once_and_end_at_every_cut(rows, step, cuts):
    cuts = {cut for cut in cuts if cut <= rows}
    found = spans(rows, step, sorted(cuts))
    assert [row for start, stop in found for row in range(start, stop)] == list(range(rows))
    assert {stop for _, stop in found} >= cuts - {0}
    assert all(0 < stop - start <= step and start // step == (stop - 1) // step for start, stop in found)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("sizes", [[], [0], [-1, 3], [3, 2], [3, 3], [1, 10]])
def test_sizes_ascend_within_the_shard(unit_rows, sizes):
    rows = unit_rows(1, 9, 5)
    with pytest.raises(SearchInputError, match="shard 'distractors'"):
        search_prefixes(open_streamed(shard(rows)), rows[:1], np.ones(1, np.float32), sizes)


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "holds NaN"), (np.inf, "holds an infinite"), (0.0, "is all zeros"), (2.0, "has norm")],
)
def test_a_bad_row_is_named_when_the_search_meets_it(unit_rows, value, message):
    rows = unit_rows(1, 100, 5).copy()
    rows[77] = value
    backend = open_streamed(shard(rows), BlockPlan(10, 8))
    search_prefixes(backend, rows[:2], np.ones(2, np.float32), [77])
    with pytest.raises(SearchInputError, match=f"shard 'distractors': row 77 {message}"):
        search_prefixes(backend, rows[:2], np.ones(2, np.float32), [77, 78])
    with pytest.raises(SearchInputError, match="row 77"):
        backend.topk(rows[:2], 3)


@pytest.mark.parametrize("full", [False, True])
def test_what_a_device_cannot_hold_is_streamed_to_it(unit_rows, monkeypatch, caplog, full):
    def no_memory(rows, device):
        raise torch.OutOfMemoryError("full")

    rows, queries = unit_rows(1, 700, 6).copy(), unit_rows(2, 9, 6)
    if full:  # it seemed to fit
        monkeypatch.setattr(torch_backend.DeviceRows, "place", no_memory)
    else:
        monkeypatch.setattr(torch_backend, "fits_on", lambda *_: False)
    devices = (torch.device("cpu"),) * 2
    backend = torch_backend.open_on_devices(devices, "float32", shard(rows), 100, share_rows=1)
    monkeypatch.undo()
    assert backend.device == "cpu streamed, cpu streamed"
    assert [record.message for record in caplog.records] == [
        "cpu cannot hold distractors: its rows are streamed to it"
    ] * 2
    found, expected = backend.topk(queries, 5), open_backend("numpy", shard(rows)).topk(queries, 5)
    assert found.rows.tolist() == expected.rows.tolist()
    rows[611] = 0
    with pytest.raises(SearchInputError, match="shard 'distractors': row 611 is all zeros"):
        torch_backend.open_on_devices(devices, "float32", shard(rows), 100, share_rows=1)
    monkeypatch.setattr(torch_backend, "fits_on", lambda *_: False)
    with pytest.raises(SearchInputError, match="shard 'distractors': row 611 is all zeros"):
        torch_backend.open_on_devices(devices, "float32", shard(rows), 100, share_rows=1).topk(queries, 5)


def test_bad_queries_and_shards(unit_rows):
    rows = unit_rows(1, 9, 5)
    backend = open_streamed(shard(rows))
    with pytest.raises(SearchInputError, match="dimension 4, expected 5"):
        search_prefixes(backend, unit_rows(1, 2, 4), np.ones(2, np.float32), [3])
    with pytest.raises(SearchInputError, match=r"shape \(1,\), expected \(2,\)"):
        search_prefixes(backend, rows[:2], np.ones(1, np.float32), [3])
    with pytest.raises(SearchInputError, match="0 rows"):
        open_streamed(shard(rows[:0]))


def test_a_file_cut_off_during_the_search_is_an_error(tmp_path, unit_rows):
    rows = unit_rows(1, 5000, 8)
    np.save(tmp_path / "rows.npy", rows)
    backend = open_streamed(Shard("d", "distractor", open_npy(tmp_path / "rows.npy")), BlockPlan(100, 8))

    def cut(done: int) -> None:
        os.truncate(tmp_path / "rows.npy", 4096)

    with pytest.raises(SearchInputError, match=r"rows\.npy: cut off at 4,096 of 160,128 bytes"):
        search_prefixes(backend, rows[:2], np.ones(2, np.float32), [5000], cut)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5GiB", 1610612736), ("800 MB", 800_000_000), ("2000000", 2_000_000), ("1kib", 1024), ("64b", 64)],
)
def test_sizes_of_memory(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "1.5TiBs", "-1GiB", "0", "1e9", "nan", "1,5GiB", "9" * 400])
def test_what_is_no_size_of_memory(text):
    with pytest.raises(SearchInputError, match="is not a size of memory"):
        parse_bytes(text)


def test_blocks_shrink_with_the_limit_and_one_too_small_says_the_least_that_works():
    roomy = MemoryLimit(resident_bytes() + RESERVE + (8 << 30))
    assert roomy.plan("x", 512) == BlockPlan(*PLANS[0])
    assert all(
        BlockPlan(*large).scratch(512) > BlockPlan(*small).scratch(512) for large, small in pairwise(PLANS)
    )
    tight = MemoryLimit(resident_bytes() + RESERVE + BlockPlan(*PLANS[3]).scratch(512) + (8 << 20))
    assert tight.plan("x", 512) in {BlockPlan(*sizes) for sizes in PLANS[3:5]}
    with pytest.raises(
        SearchInputError, match=r"too small to search x: .*; at least \d+MiB would work"
    ) as error:
        MemoryLimit(1 << 20).plan("x", 512)
    enough = parse_bytes(str(error.value).split("at least ")[1].removesuffix(" would work"))
    MemoryLimit(enough).plan("x", 512)
    with pytest.raises(SearchInputError, match="too small"):
        MemoryLimit(enough - 2 * RESERVE).plan("x", 512)


def test_a_shard_that_does_not_fit_is_streamed_and_answers_the_same(unit_rows):
    rows = unit_rows(1, 9, 5)

    class Huge(ArrayRows):
        shape = (1 << 28, 5)  # type: ignore[assignment]

    limit = MemoryLimit(resident_bytes() + RESERVE + (1 << 30))
    assert open_limited("faiss", shard(rows), limit).name == "faiss"
    assert open_limited("faiss", Shard("huge", "original", Huge(rows)), limit).name == "streamed"


MEASURED = """
import sys
import numpy as np
from indexes.memory import MemoryLimit, parse_bytes
from indexes.prefixes import search_prefixes
from indexes.files import open_fbin
from indexes.protocol import Shard
from indexes.streaming import open_streamed
from pathlib import Path

source = open_fbin(Path(sys.argv[1]))
queries = source.read(0, 300)
thresholds = np.full(300, float(sys.argv[3]), np.float32)
plan = MemoryLimit(parse_bytes(sys.argv[2])).plan("d", source.shape[1])
backend = open_streamed(Shard("d", "distractor", source), plan)
search_prefixes(backend, queries, thresholds, [source.shape[0]])
# not getrusage: its peak is that of the parent where the parent's was larger
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak")
@pytest.mark.parametrize("tied", [False, True])
def test_the_resident_memory_stays_below_the_limit(tmp_path, unit_rows, tied):
    rows = np.repeat(unit_rows(1, 1, 512), 120_000, axis=0) if tied else unit_rows(1, 120_000, 512)
    path = tmp_path / "rows.fbin"
    path.write_bytes(np.array(rows.shape, "<u4").tobytes() + rows.tobytes())
    limit = "290MiB"  # less than the interpreter and the rows take together
    assert path.stat().st_size > 230 << 20
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), limit, "1.0" if tied else "0.5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= parse_bytes(limit)
