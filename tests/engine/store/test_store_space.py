"""No space left: one line, the store that was there still readable, nothing half-written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from engine.errors import InputError
from engine.store import open_store, open_writer


def in_fork(work) -> int:
    """Run `work` in a child, so that limits do not outlive it; 0 when it returned."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("limit", [0, 1000, 66_000, 70_000])
def test_a_file_size_limit_is_met_before_anything_changes(tmp_path, small, unit_rows, limit):
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, [small.images]) as writer:
        writer.write("images", "original", np.arange(7), unit_rows(7))
    before = path.read_bytes()

    def grow():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(InputError, match=r"no space left for .*bytes are needed.*free some"):
            open_writer(path, small.header, small.plans)

    assert in_fork(grow) == 0
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.h5"]


def test_a_command_that_finds_no_space_ends_with_2_and_one_line(tmp_path):
    np.save(tmp_path / "i.npy", np.ones((1, 40_000), "f4"))
    (tmp_path / "corpus.jsonl").write_text('{"image": "1.jpg", "caption": "one"}\n')
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "from engine.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    options = [
        "--images",
        "i.npy",
        "--captions",
        "i.npy",
        "--corpus",
        "corpus.jsonl",
        "--model",
        "m",
        "--out",
        "s.h5",
    ]
    done = subprocess.run(
        [sys.executable, "-c", script, "import", *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no space left for s.h5: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["corpus.jsonl", "i.npy"]


def test_distractors_that_find_no_space_end_with_one_line_and_leave_nothing(tmp_path, small, unit_rows):
    with open_writer(tmp_path / "s.h5", small.header, [small.images]) as writer:
        writer.write("images", "original", np.arange(7), unit_rows(7))
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "from engine.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    words = ["distractors", "synthesize", "s.h5", "--rows", "100k", "--like", "images/original"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: no space left for s.distractors/")
    assert "(or a limit or quota is lower); free some or ask for fewer --rows" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.h5"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one MiB; only root can mount it."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_the_store_readable(small_disk, small, unit_rows):
    path = small_disk / "s.h5"
    header = small.with_header(dim=3000)
    with open_writer(path, header, [small.images]) as writer:
        writer.write("images", "original", np.arange(7), unit_rows(7, dim=3000))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600_000))
    with pytest.raises(InputError, match=r"no space left for .*/s\.h5: "):
        open_writer(path, header, small.plans)
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["ballast", "s.h5"]
    with open_store(path) as store:
        rows = store.load("images", "original").rows.read(0, 7)
        np.testing.assert_array_equal(rows, unit_rows(7, dim=3000))
    ballast.unlink()
    with open_writer(path, header, small.plans) as writer:
        ballast.write_bytes(bytes(small_disk_free(small_disk)))
        writer.write("captions", "original", np.arange(19), unit_rows(19, dim=3000))  # its space was reserved


def small_disk_free(place) -> int:
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize
