"""Numbers of rows as people write them: ``10k``, ``1.5M``, ``0,10k,100k``."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from engine.corpus.shape import shorten
from engine.errors import InputError

FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
NUMBER = re.compile(r"0*([0-9]{1,20}(?:\.[0-9]{1,20})?)([a-z]*)", re.IGNORECASE)
MOST_ROWS = (1 << 32) - 1  # what a shard can have


def parse_rows(option: str, text: str) -> int:
    """A number of rows; raises `InputError` naming the option for anything else, and for a fraction."""
    match = NUMBER.fullmatch(text.strip())
    factor = FACTORS.get(match[2].lower()) if match else None
    value = Fraction(match[1]) * factor if match and factor else Fraction(-1)
    if not 0 <= value <= MOST_ROWS or value.denominator != 1:
        raise InputError(
            f"{option} {shorten(text)}: {shorten(repr(text.strip()))} is not a number of rows; "
            f"expected one like 5000, 10k or 1.5M, 0 to {MOST_ROWS:,}"
        )
    return int(value)


def parse_sizes(option: str, text: str) -> tuple[int, ...]:
    """Numbers of rows with commas between them; raises `InputError` unless they ascend."""
    sizes = tuple(parse_rows(option, part) for part in text.split(","))
    for size, later in pairwise(sizes):
        if later <= size:
            raise InputError(
                f"{option} {text}: {later:,} comes after {size:,}; give the sizes in ascending order"
            )
    return sizes
