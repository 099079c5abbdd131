"""Whole numbers that a user writes: plain digits within bounds, told apart before anything is converted.

Python converts no more than 4300 digits, and a number that it does convert may fit nothing that it is for.
"""

from __future__ import annotations

LARGEST = 10**18 - 1
"""The largest of a number without a bound of its own, such as a seed: it fits 64 bits."""


def parse_whole_number(text: str, least: int = 0, most: int = LARGEST) -> int:
    """The number from `least` to `most` (neither negative) that a text of ASCII digits is.

    Raises ValueError for any other text; its message says what is expected.
    """
    digits = text.lstrip("0") or "0"
    if text.isascii() and text.isdigit() and len(digits) <= len(str(most)) and least <= int(digits) <= most:
        return int(digits)
    raise ValueError(f"expected a whole number from {least:,} to {most:,}")
