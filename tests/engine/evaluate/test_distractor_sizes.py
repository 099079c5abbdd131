"""Distractors in a gallery: the metrics of every size, from one search, equal those of a gallery that is so.

The oracle needs no distractors: a distractor is an original that belongs to no query. So a world in which
they are captions of an image that was skipped, or images without captions, has the same metrics.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.distractors import DistractorChoice, Distractors, open_distractors
from engine.evaluate.outcome_files import read_outcomes
from engine.evaluate.results import read_results
from engine.evaluate.run import evaluate_store
from engine.evaluate.ties import POLICIES
from engine.store.distractors import BLOCK_ROWS, DistractorHeader, set_file, write_set

# equal picks give exact ties, also of distractors with positives and fakes
POOL = np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [-0.6, 0, 0.8]], dtype=np.float32)
SAME = ("metrics", "base", "tied", "undefined", "queries", "positives", "intervals")


class Rows:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def read(self, start: int, stop: int) -> Any:
        return self.rows[start:stop]


def write_distractors(store: Path, modality: str, rows: Any, name: str = "crowd") -> Path:
    header = DistractorHeader(
        modality=modality,  # type: ignore[arg-type]
        name=name,
        encoder_spec="fake:encoder",
        encoder_fingerprint="e" * 64,
        rows=len(rows),
        dim=rows.shape[1],
        dtype="float32",
        recipe={"from": "test", "name": name},
    )
    path = set_file(store, modality, name)
    write_set(path, header, Rows(rows), force=True)
    return path


def with_captions(world: Any, rows: Any) -> Any:
    """The world whose originals have these captions too, of an image that was skipped."""
    extra = np.array([[0, 0, 1.0][: world.images.shape[1]] + [0.0] * (world.images.shape[1] - 3)], np.float32)
    return replace(
        world,
        images=np.concatenate([world.images, extra]),
        captions=np.concatenate([world.captions, rows]),
        image_of_caption=[*world.image_of_caption, *[len(world.images)] * len(rows)],
        skipped_images=[*world.skipped_images, len(world.images)],
    )


def with_images(world: Any, rows: Any) -> Any:
    """The world whose originals have these images too, without captions."""
    return replace(world, images=np.concatenate([world.images, rows]))


EXTENDED = {"i2t": ("captions", with_captions), "t2i": ("images", with_images)}


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("direction", EXTENDED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_size_equals_the_gallery_that_holds_so_many(
    world_parts: Any, tmp_path_factory: Any, direction: Any, policy: Any, data: st.DataObject
) -> None:
    world_type, variant_type, memory_store = world_parts
    picks = lambda n: POOL[data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))]  # noqa: E731
    images, captions = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    owner = [
        0,
        *data.draw(st.lists(st.integers(0, images - 1), min_size=captions - 1, max_size=captions - 1)),
    ]
    variants = [
        variant_type("words", "captions", [0, captions - 1], picks(2), [True, True]),
        variant_type("mix", "images", [0], picks(1), [True]),
        variant_type("typo", "captions", list(range(captions)), picks(captions), [True] * captions, "query"),
        variant_type("blur", "images", list(range(images)), picks(images), [True] * images, "query"),
    ]
    world = world_type(picks(images), picks(captions), owner, variants)
    rows = picks(data.draw(st.integers(1, 7)))
    sizes = sorted(data.draw(st.sets(st.integers(0, len(rows)), min_size=1)))
    store = memory_store(world)
    store.path = tmp_path_factory.mktemp("world") / "s.h5"
    modality, extend = EXTENDED[direction]
    write_distractors(store.path, modality, rows)
    options = {"directions": [direction], "ties": policy, "backend": "numpy"}
    found = evaluate_store(store, distractors=DistractorChoice(sizes), **options)
    names = [None, *(part.name for part in variants if found.find(part.name, direction, sizes[0]))]
    assert len(names) == 3
    assert [(one.variant, one.distractors) for one in found.runs] == [
        (name, size) for name in names for size in sizes
    ]
    for size in sizes:
        expected = evaluate_store(memory_store(extend(world, rows[:size])), **options)
        for name in names:
            ours, theirs = found.find(name, direction, size), expected.find(name, direction)
            assert ours is not None
            assert theirs is not None
            for part in SAME:
                assert getattr(ours, part) == getattr(theirs, part), (part, name, size)
            assert ours.gallery.get("distractor", 0) == size
            assert sum(ours.gallery.values()) == sum(theirs.gallery.values())
            assert ("distractors" in ours.key) == (size > 0)


@pytest.fixture
def crowded(store_file: Path) -> Path:
    """The noisy world with 3,000 distractors for both galleries; every hundredth is one of the captions."""
    generator = np.random.default_rng(3)
    rows = generator.standard_normal((3000, 16))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    for modality in ("captions", "images"):
        write_distractors(store_file, modality, rows)
    return store_file


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = run(["evaluate", *map(str, arguments)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_sizes_are_rows_of_the_table_and_results_say_where_the_top_comes_from(
    evaluate: Any, crowded: Path, tmp_path: Path
) -> None:
    code, out, err = evaluate(crowded, "--distractors", "0,10,3k", "--out", tmp_path / "out")
    assert code == 0, err
    assert "distr." in out
    assert out.count(" 3k ") == 6  # none, swap and none, mix, typo; and how queries of typo moved
    results = read_results(tmp_path / "out")
    assert results.provenance.config["distractors"] == [0, 10, 3000]
    assert [one.name for one in results.provenance.sets if one.rows == 3000] == ["distractors crowd"] * 2
    for one in results.runs:
        table = read_outcomes(tmp_path / "out" / str(one.outcomes), one).to_pylist()
        top = [row["top_origin"] for row in table]
        if one.distractors == 0:
            assert "distractor" not in top
            continue
        named = [row for row in table if row["top_origin"] == "distractor"]
        assert all(row["top_id"].startswith("crowd:") and row["top_image_id"] is None for row in named)
        assert all(row["fooled"] == 0 for row in named)
        assert not any(row["top_is_own_fake"] for row in named)
        assert named or one.distractors == 10
    plain = evaluate(crowded, "--out", tmp_path / "plain")
    assert plain[0] == 0
    for one in read_results(tmp_path / "plain").runs:
        same = results.find(one.variant, one.direction)
        assert same is not None
        assert same.model_copy(update={"timings": {}}) == one.model_copy(update={"timings": {}})
        assert (tmp_path / "out" / str(same.outcomes)).read_bytes() == (
            tmp_path / "plain" / str(one.outcomes)
        ).read_bytes()


def test_a_curve_costs_one_search_of_the_largest(
    evaluate: Any, crowded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    real = Distractors.search

    def counted(self: Any, queries: Any, scores: Any, backend: str, limit: Any, advance: Any) -> Any:
        return real(self, queries, scores, backend, limit, lambda rows: searched.append(rows))

    monkeypatch.setattr(Distractors, "search", counted)
    assert evaluate(crowded, "--distractors", "0,7,100,2500", "--direction", "i2t")[0] == 0
    assert sum(searched) == 2500  # for no variant and the gallery variant together


def test_a_limit_changes_no_result(evaluate: Any, crowded: Path, tmp_path: Path) -> None:
    options = (crowded, "--distractors", "0,2k", "--backend", "numpy")
    assert evaluate(*options, "--out", tmp_path / "a")[0] == 0
    assert evaluate(*options, "--out", tmp_path / "b", "--memory-limit", "8GiB")[0] == 0
    free, bound = read_results(tmp_path / "a"), read_results(tmp_path / "b")
    assert [one.metrics for one in free.runs] == [one.metrics for one in bound.runs]
    assert bound.provenance.config["memory_limit"] == 8 << 30
    assert bound.provenance.backend == "numpy, streamed"


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--distractors", "9" * 5000], "is not a number of rows"),
        (["--distractors", "0,10x"], "--distractors 10x: '10x' is not a number of rows"),
        (["--distractors", "2k,1k"], "1,000 comes after 2,000; give the sizes in ascending order"),
        (["--distractors", "3001"], "--distractors 3,001: captions/crowd has 3,000 rows; ask for fewer"),
        (["--distractors", "1", "--distractor-set", "crowds"], "did you mean 'crowd'? known: crowd"),
        (["--distractor-set", "crowd"], "--distractor-set belongs to --distractors"),
        (["--distractors", "1", "--ranked"], "leave one of --ranked and --distractors out"),
        (["--memory-limit", "64MiB"], "a memory limit of 64MiB is too small to search captions/original"),
        (["--memory-limit", "much"], "'much' is not a size of memory"),
    ],
)
def test_what_cannot_be_asked_for_is_named(
    evaluate: Any, crowded: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    code, out, err = evaluate(crowded, "--out", tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_sets_that_are_missing_several_unfinished_or_of_another_checkpoint(
    evaluate: Any, store_file: Path, make_world: Any, store_writer: Any, tmp_path: Path
) -> None:
    ask = (store_file, "--distractors", "0,5", "--direction", "i2t")
    assert (
        "has no distractors for its captions; add some with `itrstress distractors add`" in evaluate(*ask)[2]
    )
    rows = np.eye(16, dtype=np.float32)
    write_distractors(store_file, "captions", rows, "one")
    assert evaluate(*ask)[0] == 0
    assert "has no distractors for its images" in evaluate(store_file, "--distractors", "5")[2]
    path = write_distractors(store_file, "captions", rows, "two")
    assert "2 sets of captions distractors; choose one with --distractor-set: one, two" in evaluate(*ask)[2]
    other = replace(make_world(), encoder="other:encoder")
    assert other.header.encoder_fingerprint == "e" * 64
    changed = DistractorHeader("captions", "two", "o", "d" * 64, 16, 16, "float32", {"from": "test"})
    write_set(path, changed, Rows(rows), force=True)
    assert "two.h5 is of the checkpoint o (dddddddddddd" in evaluate(*ask, "--distractor-set", "two")[2]


def test_a_set_that_is_not_finished_is_not_searched(evaluate: Any, store_file: Path) -> None:
    class Failing(Rows):
        def read(self, start: int, stop: int) -> Any:
            raise InputError("the source is gone")

    header = DistractorHeader("captions", "half", "o", "e" * 64, 16, 16, "float32", {"from": "test"})
    with pytest.raises(InputError, match="gone"):
        write_set(set_file(store_file, "captions", "half"), header, Failing(None))
    ask = (store_file, "--distractors", "5", "--direction", "i2t")
    assert "captions/half lacks 16 of 16 rows" in evaluate(*ask)[2]


def test_a_damaged_block_ends_the_search_with_its_rows(evaluate: Any, crowded: Path, tmp_path: Path) -> None:
    path = set_file(crowded, "captions", "crowd")
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # the rows come last
    path.write_bytes(content)
    ask = (crowded, "--direction", "i2t", "--out", tmp_path / "out", "--distractors")
    code, _, err = evaluate(*ask, "0,3k")
    assert code == 2
    assert "the checksum of captions/crowd rows 2048 to 2999 does not hold" in err
    assert not (tmp_path / "out").exists()
    assert evaluate(*ask, "0,2048")[0] == 0
    os.truncate(path, len(content) - 10)
    assert "crowd.h5 is damaged: cut off" in evaluate(crowded, "--direction", "i2t", "--distractors", "1")[2]


def test_a_row_that_is_not_normalised_is_named(store_file: Path, world_parts: Any, make_world: Any) -> None:
    rows = np.tile(np.eye(16, dtype=np.float32)[:1], (2 * BLOCK_ROWS, 1))
    write_distractors(store_file, "captions", rows)
    store = world_parts[2](make_world())
    store.path = store_file
    with open_distractors({"i2t": store}, DistractorChoice([2000])) as crowds:
        rows[1500] *= 2  # a file that someone made and whose checksums hold
        object.__setattr__(crowds["i2t"].found, "rows", ArrayLike(rows))
        from engine.evaluate.direction import DirectionSearch
        from engine.stopwatch import Stopwatch
        from indexes.errors import SearchInputError

        search = DirectionSearch(store, "i2t", backend="numpy", distractors=crowds["i2t"])
        with pytest.raises(SearchInputError, match="shard 'distractors captions/crowd': row 1500 has norm 2"):
            search.run(None, Stopwatch(), 2000)


class ArrayLike(Rows):
    @property
    def shape(self) -> Any:
        return self.rows.shape


# ---------------------------------------------------------------- Ctrl-C and memory

INTERRUPTED = """
import sys, threading
import engine.evaluate.distractors as distractors
from engine.cli.main import run
real = distractors.search_prefixes
def endless(backend, queries, thresholds, sizes, advance):
    while True:  # until someone stops it
        real(backend, queries, thresholds, sizes, lambda rows: print("rows", flush=True))
distractors.search_prefixes = endless
code = run(sys.argv[1:])
print("threads", [t.name for t in threading.enumerate() if t.name == "itrstress-prefetch"], flush=True)
sys.exit(code)
"""


def test_ctrl_c_ends_the_search_and_leaves_nothing(crowded: Path, tmp_path: Path) -> None:
    options = ["--backend", "numpy", "--distractors", "0,3k", "--out", str(tmp_path / "out")]
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, "evaluate", str(crowded), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "rows\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=240)
    assert child.returncode == 130, err
    assert out.splitlines()[-1] == "threads []"
    assert "interrupted; nothing is half-written" in err.splitlines()[-1]
    assert not [entry for entry in tmp_path.iterdir() if "out" in entry.name]


MEASURED = """
import sys
from engine.cli.main import run
code = run(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("peak", int(peak.split()[1]) << 10)
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak")
def test_the_limit_holds_for_the_whole_command(store_file: Path) -> None:
    rows = np.tile(np.eye(16, dtype=np.float32), (300_000, 1))  # 293 MiB
    write_distractors(store_file, "captions", rows)
    limit = 440
    options = ["--backend", "numpy", "--direction", "i2t", "--distractors", "0,1M,4.8M"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURED,
            "evaluate",
            str(store_file),
            *options,
            "--memory-limit",
            f"{limit}MiB",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1].removeprefix("peak ")) <= limit << 20
