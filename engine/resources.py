"""When the machine is what fails: too little memory, address space or threads, and what to do then."""

from __future__ import annotations

import errno
import resource
from collections.abc import Sequence
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Shortage:
    """One thing a process can run out of, the words by which libraries say so, and what to do about it."""

    what: str
    said: Sequence[str]
    advice: str


LIBRARY = Shortage(
    "too little address space to load a library",
    ("failed to map segment", "static tls block", "failed to load lib", "could not find/load shared object"),
    "raise or lift the limit, torch and FAISS with CUDA map about 6 GiB",
)
THREADS = Shortage(
    "no more threads can be started",
    ("can't start new thread", "thread creation failed", "pthread_create failed"),
    "raise `ulimit -u`, or ask for less with OMP_NUM_THREADS=1 and --workers 1",
)
MEMORY = Shortage(
    "not enough memory",
    ("out of memory", "allocate memory", "bad_alloc", "unable to allocate", "not enough memory"),
    "take less at a time (evaluate: --memory-limit, embed: a smaller --batch-size) or give the process more",
)
UNTOLD_CAUSE = (
    "failed to load lib",
    "could not find/load shared object",
)  # a damaged installation says so too


def shortage(error: BaseException) -> str | None:
    """What the process ran out of, in one line with what to do; None for an error that says no such thing.

    Known are Python's and numpy's `MemoryError`, the errors of torch, FAISS and Arrow by their words, and the
    loader's when a library cannot be mapped.
    """
    found = kind_of(error)
    if found is None:
        return None
    words = " ".join(str(error).split())
    return f"{found.what}{f' ({words})' if words else ''}{limit_words()}; {found.advice}"


def kind_of(error: BaseException) -> Shortage | None:
    """Which shortage an error tells of."""
    text = str(error).lower()
    if any(words in text for words in UNTOLD_CAUSE) and address_space() is None:
        return None
    if isinstance(error, (ImportError, OSError, RuntimeError)):
        for kind in (LIBRARY, THREADS):
            if any(words in text for words in kind.said):
                return kind
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return MEMORY
    said = isinstance(error, RuntimeError) and any(words in text for words in MEMORY.said)
    return MEMORY if said else None


def address_space() -> int | None:
    """Bytes that this process may map (``ulimit -v``); None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def limit_words() -> str:
    """The limit on the address space, for an error; empty without one."""
    limit = address_space()
    return "" if limit is None else f"; `ulimit -v` allows {limit / GIB:.1f} GiB"
