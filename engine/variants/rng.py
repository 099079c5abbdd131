"""Where every random choice of a variant comes from: (seed, id of the original), never order or batching."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def item_rng(seed: int, item_id: str, purpose: str = "") -> np.random.Generator:
    """The generator of one item.

    Equal for equal (seed, item_id, purpose) in every process and on every platform: the bit generator is
    named (PCG64) and seeded from SHA-256, not from `hash`. `purpose` keeps independent choices of one item
    apart, so that, for instance, every caption policy picks the same word and then its own target.
    """
    digest = hashlib.sha256(json.dumps([seed, item_id, purpose]).encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))
