"""Run as a script: writes a store again and again, killed with SIGKILL at one step after another.

``crash_driver.py FOLDER SEED KILLS`` counts the steps of an undisturbed run (``FOLDER/whole/s.h5``), then
forks KILLS children that die at steps drawn from SEED, before the step or in the middle of a write, and leave
``FOLDER/<kind>-<step>``. More kills than steps means all of them. A child notes every batch whose `write`
returned in ``acknowledged``. With ``FOLDER --slow`` it writes once, a row at a time, and prints a line after
each, until someone kills it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from conftest import make_corpus, make_header, make_unit_rows, make_variant_plan

from engine.store import open_writer, original_plans, structure, writer

CREATED = "2026-01-01T00:00:00+00:00"
CORPUS = make_corpus()
IMAGES, CAPTIONS = original_plans(CORPUS)
VARIANT = make_variant_plan(CORPUS)
SHUFFLED = np.random.default_rng(5).permutation(CAPTIONS.rows).astype(np.int64)


WITHOUT_WAITING = {"fsync": lambda file: None, "flush": lambda file: None}  # a kill leaves the system's cache


class Steps:
    """Counts calls that change the disk; at number `last` the process kills itself."""

    def __init__(self, last: int, torn: bool) -> None:
        self.count, self.last, self.torn = 0, last, torn

    def watch(self, owner: object, name: str) -> None:
        real = WITHOUT_WAITING.get(name, getattr(owner, name))

        def step(*arguments: object, **more: object) -> object:
            self.count += 1
            if self.count == self.last:
                if self.torn and name == "pwrite":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], arguments[2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        setattr(owner, name, step)


def watched(last: int, torn: bool) -> Steps:
    steps = Steps(last, torn)
    for name in ("pwrite", "posix_fallocate", "ftruncate", "fsync"):
        steps.watch(os, name)
    steps.watch(writer, "flush")
    steps.watch(structure, "create_dataset")
    steps.watch(Path, "replace")
    steps.watch(Path, "unlink")
    return steps


def write_all(path: Path, acknowledge: object = lambda label, rows: None) -> None:
    """The whole work, resuming what is there; the bytes of the result do not depend on what was there."""
    header = make_header(CORPUS)
    with open_writer(path, header, [IMAGES, CAPTIONS]) as store:
        write_images(store, acknowledge)
        for rows in np.array_split(SHUFFLED, 4):
            write_rows(store, CAPTIONS, rows, acknowledge)
    with open_writer(path, header, [VARIANT, CAPTIONS]) as store:
        for rows in np.array_split(np.arange(VARIANT.rows), 2):
            write_rows(store, VARIANT, rows, acknowledge)


def write_images(store: writer.StoreWriter, acknowledge: object) -> None:
    if 3 in store.pending("images", "original"):
        store.skip("images", "original", np.array([3]), ["truncated"])
        acknowledge("images/original", [3])
    write_rows(store, IMAGES, np.array([0, 1, 2, 4, 5, 6]), acknowledge)


def write_rows(store: writer.StoreWriter, plan: object, rows: np.ndarray, acknowledge: object) -> None:
    rows = rows[np.isin(rows, store.pending(plan.modality, plan.name))]
    store.write(plan.modality, plan.name, rows, make_unit_rows(plan.rows)[rows])
    acknowledge(plan.label, rows.tolist())


def run_child(folder: Path, last: int, torn: bool) -> None:
    """In a fork: the work, noted batch by batch."""
    notes = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY)

    def acknowledge(label: str, rows: list[int]) -> None:
        os.write(notes, "".join(f"{label}\t{row}\n" for row in rows).encode())

    steps = watched(last, torn)
    write_all(folder / "s.h5", acknowledge)
    (folder / "steps").write_text(str(steps.count))


def fork(folder: Path, last: int, torn: bool) -> int:
    """Run a child and give its wait status."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        try:
            run_child(folder, last, torn)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def kill_at_steps(folder: Path, seed: int, kills: int) -> None:
    assert fork(folder / "whole", 0, False) == 0
    steps = int((folder / "whole" / "steps").read_text())
    points = [(kind, last) for kind in ("before", "torn") for last in range(1, steps + 1)]
    for point in np.random.default_rng(seed).permutation(len(points))[:kills]:
        kind, last = points[point]
        status = fork(folder / f"{kind}-{last}", last, kind == "torn")
        assert os.WIFSIGNALED(status), (kind, last, status)
        assert os.WTERMSIG(status) == signal.SIGKILL


def write_slowly(path: Path) -> None:
    with open_writer(path, make_header(CORPUS), [IMAGES, CAPTIONS]) as store:
        for row in SHUFFLED:
            write_rows(store, CAPTIONS, np.array([row]), lambda label, rows: print(rows[0], flush=True))
        sys.stdin.read()  # never ends by itself


if __name__ == "__main__":
    writer.now = lambda: CREATED
    if "--slow" in sys.argv:
        write_slowly(Path(sys.argv[1]) / "s.h5")
    else:
        kill_at_steps(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
