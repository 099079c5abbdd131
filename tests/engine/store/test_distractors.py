"""Distractor sets: what is put in comes out, whatever interrupts it; made-up rows; every bad input named."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.errors import InputError
from engine.store import open_store, open_writer
from engine.store.distractors import (
    BLOCK_ROWS,
    DistractorHeader,
    layout,
    open_set,
    parse_rows,
    parse_sizes,
    set_file,
    write_set,
    writer,
)
from engine.store.distractors.synthesize import Moments, Synthesizer, moments
from indexes.sources import ArrayRows

DIM = 6
ROWS = 2 * BLOCK_ROWS + 77


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk_here(monkeypatch):
    monkeypatch.setattr(writer, "flush", lambda file: None)


@pytest.fixture
def store(tmp_path, small, unit_rows) -> Path:
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, [small.images, small.captions]) as writing:
        writing.write("images", "original", np.arange(7), unit_rows(7))
        writing.write("captions", "original", np.arange(19), unit_rows(19, seed=1))
    return path


@pytest.fixture
def command(capsys):
    def call(*arguments: object) -> SimpleNamespace:
        code = run(["distractors", *map(str, arguments)])
        shown = capsys.readouterr()
        return SimpleNamespace(code=code, out=shown.out, err=shown.err)

    return call


def long_rows(rows: int = ROWS, dim: int = DIM, seed: int = 3) -> np.ndarray:
    """Not normalised."""
    return (100 * np.random.default_rng(seed).standard_normal((rows, dim))).astype(np.float32)


def normalised(rows: np.ndarray, dtype: str = "float16") -> np.ndarray:
    rows = rows.astype(np.float64)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def stored(path: Path) -> np.ndarray:
    with open_set(path) as found:
        found.check_complete()
        return found.rows.read(0, found.header.rows)


def save_npy(path: Path, rows: np.ndarray) -> Path:
    np.save(path, rows)
    return path


def save_fbin(path: Path, rows: np.ndarray) -> Path:
    path.write_bytes(np.array(rows.shape, "<u4").tobytes() + rows.astype("<f4").tobytes())
    return path


def header(rows: int = ROWS, **changes: object) -> DistractorHeader:
    fields = {
        "modality": "captions",
        "name": "x",
        "encoder_spec": "fake:model",
        "encoder_fingerprint": "ab" * 32,
        "rows": rows,
        "dim": DIM,
        "dtype": "float16",
        "recipe": {"from": "test"},
    }
    return DistractorHeader(**{**fields, **changes})  # type: ignore[arg-type]


class Maker:
    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.rows[start:stop]


# ---------------------------------------------------------------- adding


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("name", "save"), [("more.npy", save_npy), ("more.fbin", save_fbin)])
def test_rows_of_a_file_are_normalised_and_kept(tmp_path, store, command, name, save, dtype):
    rows = long_rows()
    file = save(tmp_path / name, rows)
    done = command("add", store, "--from", file, "--modality", "captions", "--dtype", dtype)
    assert done.code == 0, done.err
    found = stored(set_file(store, "captions", "more"))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, normalised(rows, dtype))
    before = store.read_bytes()
    command("add", store, "--from", file, "--modality", "images", "--name", "first", "--rows", "1k")
    np.testing.assert_array_equal(stored(set_file(store, "images", "first")), normalised(rows[:1000]))
    assert store.read_bytes() == before


def test_a_clip_retrieval_folder_gives_both_modalities(tmp_path, store, command):
    parts = {"img_emb": [long_rows(30), long_rows(1500, seed=4)], "text_emb": [long_rows(30, seed=5)] * 2}
    for name, tables in parts.items():
        (tmp_path / "clip" / name).mkdir(parents=True)
        for number, rows in enumerate(tables):
            np.save(tmp_path / "clip" / name / f"{name}_{number}.npy", rows)
    assert command("add", store, "--from", tmp_path / "clip").code == 0
    for modality, name in (("images", "img_emb"), ("captions", "text_emb")):
        expected = normalised(np.concatenate(parts[name]))
        np.testing.assert_array_equal(stored(set_file(store, modality, "clip")), expected)


def test_another_store_gives_its_originals_that_are_not_ours(tmp_path, store, command, small, unit_rows):
    other = tmp_path / "other.h5"
    theirs = [small.captions.content[0], *(f"new {i}" for i in range(18))]
    plan = type(small.captions)(
        **{**vars(small.captions), "content": theirs, "image": small.captions.image}  # type: ignore[arg-type]
    )
    images = type(small.images)(**{**vars(small.images), "content": [f"n{i}.png" for i in range(7)]})
    with open_writer(other, small.with_header(corpus_fingerprint="o" * 64), [images, plan]) as writing:
        writing.write("captions", "original", np.arange(19), unit_rows(19, seed=2))
        writing.write(
            "images", "original", np.array([0, 1, 3, 4, 5, 6]), unit_rows(7, seed=5)[[0, 1, 3, 4, 5, 6]]
        )
        writing.skip("images", "original", np.array([2]), ["cut off"])
    done = command("add", store, "--from", other)
    assert done.code == 0, done.err
    assert "note: 1 captions of" in done.err
    np.testing.assert_array_equal(
        stored(set_file(store, "captions", "other")), unit_rows(19, seed=2)[1:].astype("f2")
    )
    kept = unit_rows(7, seed=5)[[0, 1, 3, 4, 5, 6]].astype("f2")
    np.testing.assert_array_equal(stored(set_file(store, "images", "other")), kept)
    assert "all its captions are originals" in command("add", store, "--from", store).err


def test_list_and_remove(tmp_path, store, command):
    assert "no distractor sets" in command("list", store).out
    file = save_npy(tmp_path / "more.npy", long_rows())
    command("add", store, "--from", file, "--modality", "captions")
    command("synthesize", store, "--rows", "1500", "--like", "images/original", "--seed", "4")
    shown = command("list", store).out
    assert "captions/more" in shown
    assert f"{ROWS:,}" in shown
    assert "synthesized like images/original, seed 4" in shown
    assert command("remove", store, "captions/more").code == 0
    assert command("remove", store, "images/like-original-seed=4").code == 0
    assert not set_file(store, "captions", "more").parent.exists()
    assert store.exists()


@pytest.mark.parametrize("name", [("images", "more"), ("captions", "less")])
def test_a_set_in_the_file_of_another_is_named_and_not_searched(tmp_path, store, command, capsys, name):
    rows = save_npy(tmp_path / "more.npy", long_rows())
    command("add", store, "--from", rows, "--modality", "captions")
    renamed = set_file(store, *name)
    set_file(store, "captions", "more").rename(renamed)
    line = f"{renamed} was written as the set captions/more, and has been renamed; call it captions.more.h5"
    assert line in command("list", store).out
    direction = {"captions": "i2t", "images": "t2i"}[name[0]]
    assert run(["evaluate", str(store), "--direction", direction, "--distractors", "10"]) == 2
    assert line in capsys.readouterr().err
    again = command("add", store, "--from", rows, "--modality", name[0], "--name", name[1])
    assert (again.code, " is there with " in again.err) == (2, True)


def test_the_same_command_again_writes_nothing_and_another_one_is_an_error(tmp_path, store, command):
    file = save_npy(tmp_path / "more.npy", long_rows())
    add = ("add", store, "--from", file, "--modality", "captions")
    command(*add)
    path = set_file(store, "captions", "more")
    before = path.read_bytes()
    assert f"{ROWS:,} were there" in command(*add).out
    for options, message in (
        (["--rows", "5"], f"is there with rows {ROWS:,}, not 5; --force replaces it"),
        (["--dtype", "float32"], "dtype float16, not float32"),
    ):
        done = command(*add, *options)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert message in done.err
    save_npy(file, long_rows(seed=9))  # the same shape, other rows
    assert "is there with other rows (the first that differ are in rows 0 to 1023)" in command(*add).err
    assert path.read_bytes() == before
    assert command(*add, "--force").code == 0
    np.testing.assert_array_equal(stored(path), normalised(long_rows(seed=9)))


# ---------------------------------------------------------------- kills and damage


def kill_at(step: int, path: Path, maker: Maker) -> bool:
    """Write in a fork that dies at its n-th write to the disk, half of it done; False when it got through."""
    child = os.fork()
    if child == 0:
        try:
            real, left = os.pwrite, [step]

            def pwrite(file: int, data: object, offset: int) -> int:
                left[0] -= 1
                if left[0] == 0:
                    real(file, bytes(data)[: len(bytes(data)) // 2], offset)  # type: ignore[call-overload]
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(file, data, offset)  # type: ignore[arg-type]

            os.pwrite = pwrite
            write_set(path, header(), maker)
            os._exit(0)
        finally:
            os._exit(1)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_kill_at_any_write_loses_nothing_and_ends_in_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "BATCH_BYTES", 1)
    monkeypatch.setattr(writer, "now", lambda: "then")
    maker = Maker(normalised(long_rows(), "float64"))
    write_set(tmp_path / "whole.h5", header(), maker)
    whole, step = (tmp_path / "whole.h5").read_bytes(), 1
    while kill_at(step, tmp_path / f"{step}.h5", maker):
        path = tmp_path / f"{step}.h5"
        with open_set(path) as found:
            complete = found.complete_rows
            np.testing.assert_array_equal(found.rows.read(0, complete), maker.rows[:complete].astype("f2"))
        assert write_set(path, header(), maker) == ROWS - complete
        assert path.read_bytes() == whole
        step += 1
    assert step == 3 * 3 + 1  # rows, checksums and states of three blocks
    assert not [entry for entry in tmp_path.iterdir() if entry.name.endswith(".new")]


INTERRUPTED = """
import sys
from engine.store.distractors import writer
from engine.cli.main import run
writer.BATCH_BYTES = 1
real = writer.write_blocks
def told(*arguments):
    real(*arguments)
    print("block", flush=True)
writer.write_blocks = told
sys.exit(run(sys.argv[1:]))
"""


def test_ctrl_c_keeps_what_is_written_and_the_same_command_finishes(store, command):
    make = ["distractors", "synthesize", str(store), "--rows", "3M", "--like", "captions/original"]
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *make], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "block\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted; nothing is half-written" in err.splitlines()[-1]
    assert "Traceback" not in err
    with open_set(set_file(store, "captions", "like-original-seed=0")) as found:
        assert 1 <= found.complete_blocks < found.header.blocks
        with pytest.raises(InputError, match=r"lacks [\d,]+ of 3,000,000 rows; run the command .* again"):
            found.check_complete()
        complete = f"{found.complete_rows:,}"
    assert complete in command("list", store).out.split()


def test_a_damaged_block_is_named_and_made_again(tmp_path):
    path, maker = tmp_path / "x.h5", Maker(normalised(long_rows(), "float64"))
    write_set(path, header(), maker)
    whole = path.read_bytes()
    with open_set(path) as found:
        place = found.regions["embeddings"].offset + (BLOCK_ROWS + 5) * DIM * 2
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with open_set(path) as found:
        found.rows.read(0, BLOCK_ROWS)
        found.rows.read(2 * BLOCK_ROWS, ROWS)
        for start, stop in ((BLOCK_ROWS - 1, BLOCK_ROWS + 1), (0, ROWS)):
            with pytest.raises(InputError, match="checksum of captions/x rows 1024 to 2047 does not hold"):
                found.rows.read(start, stop)
    assert write_set(path, header(), maker) == BLOCK_ROWS
    assert path.read_bytes() == whole


@settings(max_examples=50, deadline=None)
@given(start=st.integers(0, ROWS), length=st.integers(0, ROWS))
def test_any_stretch_reads_as_written(tmp_path_factory, start, length):
    path = tmp_path_factory.getbasetemp() / "stretch.h5"
    rows = normalised(long_rows(), "float64")
    if not path.exists():
        write_set(path, header(), Maker(rows))
    stop = min(start + length, ROWS)
    with open_set(path) as found:
        for _ in range(2):  # with and without a look at checksums
            np.testing.assert_array_equal(found.rows.read(start, stop), rows[start:stop].astype("f2"))


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "x.h5"
    write_set(path, header(), Maker(normalised(long_rows(), "float64")))
    with open_set(path) as found:
        found.rows.read(0, 5)
        os.truncate(path, path.stat().st_size - 1000)
        with pytest.raises(InputError, match="was changed while it was read"):
            found.rows.read(0, 5)
    with pytest.raises(InputError, match=r"is damaged: cut off, it has [\d,]+ of [\d,]+ bytes"):
        open_set(path)


def test_files_that_are_no_sets_or_hostile(tmp_path, store):
    with pytest.raises(InputError, match="no distractor set"):
        open_set(store)
    (tmp_path / "text.h5").write_text("text")
    with pytest.raises(InputError, match="not an HDF5 file"):
        open_set(tmp_path / "text.h5")
    path = tmp_path / "x.h5"
    write_set(path, header(), Maker(normalised(long_rows(), "float64")))
    with h5py.File(path, "r+") as file:
        file.attrs["rows"] = np.int64(10**12)
    with pytest.raises(InputError, match="digest"):
        open_set(path)
    with h5py.File(path, "r+") as file:
        file.attrs["rows"] = np.int64(ROWS)
        del file["captions/x/embeddings"]
        file["captions/x/embeddings"] = h5py.ExternalLink("/etc/passwd", "x")
    with pytest.raises(InputError, match="a link to elsewhere"):
        open_set(path)
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = np.int64(2)
    with pytest.raises(InputError, match="distractor schema 2, this itrstress reads 1"):
        open_set(path)


# ---------------------------------------------------------------- synthesizing


def test_moments_are_those_of_the_usable_rows():
    rows = normalised(long_rows(500), "float32")
    usable = np.arange(500) % 3 > 0
    found = moments(ArrayRows(rows), usable)
    np.testing.assert_allclose(found.mean, rows[usable].mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(found.covariance, np.cov(rows[usable].T, bias=True), atol=1e-7)
    np.testing.assert_allclose(found.root().T @ found.root(), found.covariance, atol=1e-12)


def crowded_moments(dim: int = 64) -> Moments:
    """A mean of half the length, a falling spectrum: as encoders have them."""
    generator = np.random.default_rng(0)
    basis, _ = np.linalg.qr(generator.standard_normal((dim, dim)))
    spectrum = 1.0 / (1 + np.arange(dim))
    return Moments(9, 0.5 * basis[0], (basis * (0.75 * spectrum / spectrum.sum())) @ basis.T)


def test_made_up_rows_have_the_mean_and_the_spectrum_they_imitate():
    wanted = crowded_moments()
    rows = Synthesizer.like(wanted, seed=5).read(0, 30_000).astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    found = moments(ArrayRows(rows), np.ones(len(rows), np.bool_))
    assert found.mean @ wanted.mean > 0.99 * np.linalg.norm(found.mean) * np.linalg.norm(wanted.mean)
    assert np.linalg.norm(found.mean) == pytest.approx(0.5, rel=0.1)
    np.testing.assert_allclose(found.spectrum, wanted.spectrum, rtol=0.25, atol=1e-3)
    flat = Synthesizer.like(Moments(9, wanted.mean, np.eye(64) * 0.75 / 64), seed=5).read(0, 30_000)
    other = moments(ArrayRows(flat.astype(np.float32)), np.ones(30_000, np.bool_))
    assert np.linalg.norm(other.spectrum - wanted.spectrum) > 3 * np.linalg.norm(
        found.spectrum - wanted.spectrum
    )


@settings(max_examples=20, deadline=None)
@given(start=st.integers(0, 5000), length=st.integers(1, 3000), seed=st.integers(0, 3))
def test_a_row_depends_on_seed_and_number_alone(start, length, seed):
    made = Synthesizer.like(crowded_moments(8), seed)
    alone = np.stack([made.block(row // BLOCK_ROWS)[row % BLOCK_ROWS] for row in (start, start + length - 1)])
    np.testing.assert_array_equal(made.read(start, start + length)[[0, -1]], alone)
    assert not np.array_equal(
        alone[0], Synthesizer.like(crowded_moments(8), seed + 1).read(start, start + 1)[0]
    )


def test_batches_do_not_matter_and_sets_of_a_seed_are_prefixes(store, command, monkeypatch):
    make = ("synthesize", store, "--like", "captions/original", "--seed", "1")
    done = command(*make, "--rows", "3k")
    assert done.code == 0
    assert "mean: cosine 0.9" in done.out
    assert "eigenvalues within" in done.out
    assert "top similarity of 7 queries in 19 rows: p10" in done.out
    whole = stored(set_file(store, "captions", "like-original-seed=1"))
    monkeypatch.setattr(writer, "BATCH_BYTES", 1)
    command(*make, "--rows", "1.5k", "--name", "short")
    np.testing.assert_array_equal(stored(set_file(store, "captions", "short")), whole[:1500])
    command(*make[:-1], "2", "--rows", "1.5k", "--name", "other")
    assert not np.array_equal(stored(set_file(store, "captions", "other")), whole[:1500])


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("text", "rows"), [("0", 0), ("5000", 5000), ("10k", 10_000), ("1.5M", 1_500_000), ("1.005K", 1005)]
)
def test_numbers_of_rows(text, rows):
    assert parse_rows("--rows", text) == rows


@pytest.mark.parametrize("text", ["10x", "", "k", "-5", "1.5", "1e3", "10kk", "nan", "99G", "1_000"])
def test_what_is_no_number_of_rows(text):
    with pytest.raises(InputError, match=rf"--rows {text}: '{text}' is not a number of rows"):
        parse_rows("--rows", text)


def test_sizes_ascend():
    assert parse_sizes("--distractors", "0,10k, 1M") == (0, 10_000, 1_000_000)
    for text in ("10k,1k", "5,5", "0,0"):
        with pytest.raises(InputError, match="in ascending order"):
            parse_sizes("--distractors", text)
    with pytest.raises(InputError, match="'10x' is not a number"):
        parse_sizes("--distractors", "0,10x")


def nan_at(row: int) -> np.ndarray:
    rows = long_rows(3000)
    rows[row, 2] = np.nan
    return rows


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (long_rows(20, 5), [], r"b\.npy has 5 dimensions, .*s\.h5 has 6"),
        (nan_at(2345), [], r"b\.npy row 2345 has NaN or infinite values"),
        (np.zeros((3, DIM), "f4"), [], r"b\.npy row 0 has only zeros"),
        (long_rows(20), ["--rows", "21"], r"--rows 21: .*b\.npy has 20 rows"),
        (long_rows(20), ["--rows", "0"], "ask for 1 to that many"),
        (long_rows(20), ["--rows", "10x"], "'10x' is not a number of rows"),
        (long_rows(20), ["--name", "../x"], r"cannot have the name '\.\./x'"),
        (long_rows(20), ["--name", "x" * 101], "cannot have the name"),
        (long_rows(20).astype("i4"), [], "holds int32"),
    ],
)
def test_rows_that_cannot_be_added_are_named(tmp_path, store, command, content, options, message):
    file = save_npy(tmp_path / "b.npy", content)
    done = command("add", store, "--from", file, "--modality", "images", *options)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert re.search(message, done.err)


def test_sources_and_sets_that_are_not_there(tmp_path, store, command):
    add = ("add", store, "--modality", "images", "--from")
    assert "not there; expected a clip-retrieval folder, a store" in command(*add, tmp_path / "none.npy").err
    (tmp_path / "rows.txt").write_text("1 2 3")
    assert "of no known kind" in command(*add, tmp_path / "rows.txt").err
    (tmp_path / "empty").mkdir()
    assert "has no img_emb/img_emb_0.npy" in command(*add, tmp_path / "empty").err
    save_npy(tmp_path / "b.npy", long_rows(5))
    assert "--modality is missing" in command("add", store, "--from", tmp_path / "b.npy").err
    assert "has no distractors for its images" in command("remove", store, "images/b").err
    assert "'images' is no set" in command("remove", store, "images").err
    command(*add, tmp_path / "b.npy")
    assert (
        "unknown images distractor set 'bb'; did you mean 'b'?" in command("remove", store, "images/bb").err
    )
    like = ("synthesize", store, "--rows", "10", "--like")
    assert "expected images/SET or captions/SET" in command(*like, "original").err
    assert "has no set captions/nothing" in command(*like, "captions/nothing").err
    assert command("synthesize", store, "--rows", "0", "--like", "captions/original").code == 2


def test_rows_of_another_checkpoint_are_refused(tmp_path, store, command, small, unit_rows):
    other = tmp_path / "other.h5"
    with open_writer(other, small.with_header(encoder_fingerprint="cd" * 32), [small.captions]) as writing:
        writing.write("captions", "original", np.arange(19), unit_rows(19))
    done = command("add", store, "--from", other, "--modality", "captions")
    assert "distractors must be of the same checkpoint" in done.err
    command("synthesize", store, "--rows", "10", "--like", "captions/original", "--name", "x")
    os.renames(set_file(store, "captions", "x"), set_file(other, "captions", "x"))
    assert "is of the checkpoint fake:model" in command("list", other).out
    with (
        open_store(other) as opened,
        open_set(set_file(other, "captions", "x")) as found,
        pytest.raises(InputError, match="remove the set and make it again"),
    ):
        found.check_checkpoint(opened.header, other)


def test_too_little_space_is_met_before_anything_is_written(store, command, monkeypatch):
    free = shutil.disk_usage(store.parent)
    monkeypatch.setattr(layout.shutil, "disk_usage", lambda path: free._replace(free=20_000))
    done = command("synthesize", store, "--rows", "10k", "--like", "captions/original")
    assert done.code == 2
    assert "bytes are needed, 20,000 are free; free some, or ask for fewer --rows" in done.err
    assert not list(store.parent.glob("s.distractors/*"))


def test_one_writer_at_a_time(tmp_path):
    path, rows = tmp_path / "x.h5", normalised(long_rows(), "float64")

    class Greedy(Maker):
        def read(self, start: int, stop: int) -> np.ndarray:
            with pytest.raises(InputError, match="is being written by another process"):
                write_set(path, header(), Maker(rows))
            return super().read(start, stop)

    write_set(path, header(), Greedy(rows))
    np.testing.assert_array_equal(stored(path), rows.astype("f2"))


def test_a_table_of_metadata_is_not_mistaken_for_rows(tmp_path, store, command):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    assert "of no known kind" in command("add", store, "--from", tmp_path / "t.parquet").err
