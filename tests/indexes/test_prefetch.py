"""Blocks read ahead: in order, a bounded number at once, errors where they belong, no thread left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from indexes.prefetch import BLOCKS_HELD, DEPTH, Prefetch

SPANS = [(start, start + 10) for start in range(0, 200, 10)]


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "itrstress-prefetch"]


def test_blocks_come_in_order():
    with Prefetch(lambda start, stop: start * stop, SPANS) as blocks:
        assert list(blocks) == [(span, span[0] * span[1]) for span in SPANS]
    assert not reading_threads()


def test_it_stays_a_bounded_number_of_blocks_ahead():
    taken, ahead, full = 0, [], threading.Event()

    def read(start: int, stop: int) -> int:
        ahead.append(start // 10 - taken)
        if start // 10 == DEPTH:
            full.set()
        return start

    with Prefetch(read, SPANS) as blocks:
        for _ in blocks:
            assert full.wait(60)
            taken += 1
    # the block that is read now, those that wait, and the one in use that is not yet counted as taken
    assert max(ahead) + 1 <= BLOCKS_HELD
    assert max(ahead) >= DEPTH


def test_an_error_is_raised_where_its_block_is_asked_for():
    def read(start: int, stop: int) -> int:
        if start == 50:
            raise ValueError("block 5")
        return start

    seen: list[tuple[int, int]] = []

    def use_all() -> None:
        with Prefetch(read, SPANS) as blocks:
            seen.extend(span for span, _ in blocks)

    with pytest.raises(ValueError, match="block 5"):
        use_all()
    assert seen == SPANS[:5]
    assert not reading_threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_leaving_in_the_middle_ends_the_thread(error):
    def leave() -> None:
        with Prefetch(lambda start, stop: start, SPANS) as blocks:
            next(iter(blocks))
            raise error

    with pytest.raises(error):
        leave()
    assert not reading_threads()


def test_an_interruption_while_the_thread_starts_or_ends_leaves_none(monkeypatch):
    """Ctrl-C can come in any step of the standard library; here right after it."""

    def interrupted(real):
        def call(*arguments):
            monkeypatch.undo()
            real(*arguments)
            raise KeyboardInterrupt

        return call

    for name in ("start", "join"):
        monkeypatch.setattr(threading.Thread, name, interrupted(getattr(threading.Thread, name)))
        with pytest.raises(KeyboardInterrupt), Prefetch(lambda start, stop: start, SPANS) as blocks:
            list(blocks)
        assert not reading_threads()


def test_nothing_to_read():
    with Prefetch(lambda start, stop: start, []) as blocks:
        assert list(blocks) == []


SLOW = """
import sys, time
import numpy as np
from indexes.prefixes import search_prefixes
from indexes.protocol import Shard
from indexes.streaming import open_streamed

class Endless:
    shape = (1 << 30, 8)
    def read(self, start, stop):
        rows = np.zeros((stop - start, 8), np.float32)
        rows[:, 0] = 1
        return rows

queries = Endless().read(0, 3)
backend = open_streamed(Shard("endless", "distractor", Endless()))
def told(rows):
    print(rows, flush=True)
try:
    search_prefixes(backend, queries, np.ones(3, np.float32), [1 << 30], told)
except KeyboardInterrupt:
    import threading
    print("threads", threading.active_count(), flush=True)
    sys.exit(130)
"""


def test_ctrl_c_stops_a_search_at_once_and_leaves_no_thread():
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert out.splitlines()[-1] == "threads 1"
    assert err == ""
