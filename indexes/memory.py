"""A memory limit for a search: how large blocks may be so that the whole process stays below it."""

from __future__ import annotations

import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from indexes.certify import BLOCK_SCORES
from indexes.errors import SearchInputError
from indexes.prefetch import BLOCKS_HELD

UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
LARGEST_SIZE = 1 << 62
STATM = Path("/proc/self/statm")

# (rows, queries) of a block, largest first: every step halves one of them; smaller ones waste the processor
PLANS = (
    (8192, 1024),
    (4096, 1024),
    (2048, 1024),
    (1024, 1024),
    (1024, 512),
    (1024, 256),
    (512, 256),
    (256, 128),
)
# threads' buffers of the matrix library, the compiled loops (some 60 MiB when first used), modules loaded
# late, freed memory not given back
RESERVE = 128 << 20
VALUE_BYTES = 4 * BLOCKS_HELD + 4  # float32 blocks; one as stored
SCORE_BYTES = 8  # float32 scores, of this tile and the one before


@dataclass(frozen=True)
class BlockPlan:
    """How many rows and queries are searched at once."""

    block_rows: int
    query_block: int

    def scratch(self, dim: int) -> int:
        """Bytes that a search of rows of that length needs at most, beside its queries and its answer."""
        scores = min(self.block_rows * self.query_block, BLOCK_SCORES)
        values = self.block_rows * dim
        return values * VALUE_BYTES + scores * SCORE_BYTES


@dataclass(frozen=True)
class MemoryLimit:
    """A limit in bytes on the resident memory of the process, everything in it included."""

    total: int

    def left(self) -> int:
        """Bytes that may still be used, the reserve taken off; negative when there are none."""
        return self.total - resident_bytes() - RESERVE

    def plan(self, what: str, dim: int, held: int = 0) -> BlockPlan:
        """The largest blocks for a search of `what`, `held` bytes of other arrays still to come.

        Raises `SearchInputError` that says what limit would do.
        """
        left = self.left() - held
        for plan in (BlockPlan(*sizes) for sizes in PLANS):
            if plan.scratch(dim) <= left:
                return plan
        # once more the reserve: this search leaves memory behind that the next one finds in use
        enough = self.total - left + BlockPlan(*PLANS[-1]).scratch(dim) + RESERVE
        raise SearchInputError(
            f"a memory limit of {show_bytes(self.total)} is too small to search {what}: "
            f"{show_bytes(resident_bytes())} are in use before it; "
            f"at least {show_bytes(enough, up=True)} would work"
        )


def parse_bytes(text: str) -> int:
    """A size such as ``1.5GiB``, ``800 MB`` or ``2000000`` in bytes; raises `SearchInputError`."""
    match = SIZE.fullmatch(text)
    unit = UNITS.get(match[2].lower()) if match else None
    size = float(match[1]) * unit if match and unit else 0.0
    if not 1 <= size < LARGEST_SIZE:
        raise SearchInputError(f"{text!r} is not a size of memory; expected one such as 1.5GiB or 800MiB")
    return int(size)


def show_bytes(size: int, *, up: bool = False) -> str:
    """A size in MiB for an error line; `up` rounds it up to a whole number of 16."""
    return f"{-(-size // (16 << 20)) * 16}MiB" if up else f"{size / 2**20:,.0f}MiB"


def resident_bytes() -> int:
    """Resident memory of this process; its peak so far where the system tells no more than that."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
