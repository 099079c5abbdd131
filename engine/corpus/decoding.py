"""How many threads decode images where nobody says."""

from __future__ import annotations

import os

MOST_DECODERS = 8


def decoding_threads() -> int:
    """One a core, at most `MOST_DECODERS`."""
    return min(MOST_DECODERS, os.cpu_count() or 1)
