"""A kill at any moment loses nothing that was complete, and the work goes on to the same bytes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from engine.store import COMPLETE, SKIPPED, open_store, open_writer, writer

DRIVER = Path(__file__).with_name("crash_driver.py")
MUTABLE = ("embeddings", "state", "checksums", "reason")


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crash_driver", DRIVER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fixed_clock(monkeypatch, driver):
    monkeypatch.setattr(writer, "now", lambda: driver.CREATED)


def check_acknowledged(folder: Path, unit_rows) -> None:
    """Every row whose `write` returned is there, with its value, in a sound file."""
    lines = (folder / "acknowledged").read_text().splitlines()
    acknowledged = [(label, int(row)) for label, row in (line.split("\t") for line in lines)]
    if not acknowledged and not (folder / "s.h5").exists():
        return
    with open_store(folder / "s.h5") as store:
        for info in store.sets:
            assert store.verify(info.modality, info.name) == [], "a kill is not damage"
            loaded = store.load(info.modality, info.name, complete=False)
            expected = unit_rows(info.rows)
            for row in np.flatnonzero(loaded.state == COMPLETE):
                np.testing.assert_array_equal(loaded.rows.read(row, row + 1)[0], expected[row])
            for row in (row for label, row in acknowledged if label == info.label):
                assert loaded.state[row] == (SKIPPED if (info.modality, row) == ("images", 3) else COMPLETE)


SEED, KILLS = 20, 90  # of 364 points; with more kills than points, all are tried


def test_a_kill_at_any_step_keeps_what_was_complete_and_resumes_to_the_same_bytes(
    tmp_path, driver, fixed_clock, unit_rows
):
    subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path), str(SEED), str(KILLS)], check=True, timeout=300
    )
    whole = (tmp_path / "whole" / "s.h5").read_bytes()
    folders = [folder for folder in sorted(tmp_path.iterdir()) if folder.name != "whole"]
    assert len(folders) == KILLS
    for folder in folders:
        check_acknowledged(folder, unit_rows)
        driver.write_all(folder / "s.h5")
        assert (folder / "s.h5").read_bytes() == whole, folder.name
        assert sorted(entry.name for entry in folder.iterdir()) == ["acknowledged", "s.h5"]


def test_a_writer_killed_by_another_process_leaves_its_rows_and_no_lock(tmp_path, driver, unit_rows):
    child = subprocess.Popen(
        [sys.executable, str(DRIVER), str(tmp_path), "--slow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    acknowledged = [int(child.stdout.readline()) for _ in range(7)]
    child.kill()
    child.communicate()
    with open_store(tmp_path / "s.h5") as store:
        loaded = store.load("captions", "original", complete=False)
        assert store.verify("captions", "original") == []
        for row in acknowledged:
            assert loaded.state[row] == COMPLETE
            np.testing.assert_array_equal(loaded.rows.read(row, row + 1)[0], unit_rows(19)[row])
    assert (tmp_path / ".s.h5.lock").exists(), "the child could not clean up"
    with open_writer(tmp_path / "s.h5", driver.make_header(driver.CORPUS), [driver.CAPTIONS]) as store:
        assert not set(acknowledged) & set(store.pending("captions", "original").tolist())


def test_writing_touches_only_rows_checksums_states_and_reasons(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, small.plans):
        before = bytearray(path.read_bytes())
    with open_writer(path, small.header, small.plans) as store:
        store.write("captions", "original", np.arange(19), unit_rows(19))
        store.skip("images", "original", np.arange(7), ["why"] * 7)
    after = bytearray(path.read_bytes())
    assert before != after
    with open_store(path) as store:
        for info in store.sets:
            regions = store.stored(info.modality, info.name).regions
            for region in (regions[part] for part in MUTABLE if part in regions):
                for content in (before, after):
                    content[region.offset : region.offset + region.nbytes] = bytes(region.nbytes)
    assert before == after
