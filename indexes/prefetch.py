"""Read blocks ahead of the search in a thread of its own, a bounded number of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Generic, TypeVar

DEPTH = 2  # finished blocks that wait; one more is being read and one is in use
BLOCKS_HELD = DEPTH + 2

Block = TypeVar("Block")
Span = tuple[int, int]


@dataclass(frozen=True)
class Failure:
    """What reading a block raised, on its way to the thread that wants the block."""

    error: BaseException


class Prefetch(Generic[Block]):
    """A context manager that gives the blocks of some spans [start, stop) in their order.

    A thread calls `read` for one span after the other and stays at most `depth` blocks ahead. What `read`
    raises is raised where the block is asked for. Leaving the context, by an error or Ctrl-C too, ends the
    thread before anything else happens: it waits for at most the block that is being read.
    """

    def __init__(self, read: Callable[[int, int], Block], spans: Sequence[Span], depth: int = DEPTH) -> None:
        self._read, self._spans, self._depth = read, spans, depth
        self._waiting: deque[Block | Failure] = deque()
        self._changed = Condition()
        self._closed = False
        self._begun, self._ended = False, Event()
        self._thread = Thread(target=self._work, name="itrstress-prefetch", daemon=True)

    def __enter__(self) -> Iterator[tuple[Span, Block]]:
        return self._blocks()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        except KeyboardInterrupt:  # the thread is to be gone all the same
            self._end()
            raise

    def _blocks(self) -> Iterator[tuple[Span, Block]]:
        self._begin()
        for span in self._spans:
            yield span, self._take()

    def _begin(self) -> None:
        """Start the thread: inside the context, so that an interruption of this very step ends it too."""
        self._begun = True
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left
            self._begun = False
            raise

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._begun:
            self._ended.wait()
            self._thread.join()

    def _work(self) -> None:
        try:
            for start, stop in self._spans:
                if not self._put(self._read(start, stop)):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asks
            self._put(Failure(error))
        finally:
            self._ended.set()

    def _put(self, block: Block | Failure) -> bool:
        """Add a block when there is room; False when nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._depth)
            if self._closed:
                return False
            self._waiting.append(block)
            self._changed.notify_all()
            return True

    def _take(self) -> Block:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            block = self._waiting.popleft()
            self._changed.notify_all()
        if isinstance(block, Failure):
            raise block.error
        return block
