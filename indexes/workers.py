"""Threads that each run a part of a search, matrix product and scan, on one core.

A library that splits every product over all cores makes them wait for each other after each tile. Here a
core keeps its tile in its own cache from the product to the scan, and nobody waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")


def thread_count() -> int:
    """How many threads the caller may use: torch's number, which `OMP_NUM_THREADS` and threadpoolctl set."""
    return torch.get_num_threads()


def run_tasks(tasks: Sequence[Callable[[], Result]], threads: int) -> list[Result]:
    """The results of the tasks, in their order, run by so many threads; the first error is raised.

    An interruption leaves at once: tasks that have not begun never do.
    """
    if threads == 1 or len(tasks) == 1:
        return [task() for task in tasks]
    futures = [_pool(threads).submit(task) for task in tasks]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "itrstress-search", _use_one_core)


def _use_one_core() -> None:
    """Let the OpenMP products of the calling thread run in this thread alone; others keep their number."""
    torch.get_num_threads()  # torch sets its own number when a thread first asks: that must come before
    ThreadpoolController().limit(limits=1, user_api="openmp")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
