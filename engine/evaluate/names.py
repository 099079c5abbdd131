"""Names of runs and checkpoints: as file names, and in order."""

from __future__ import annotations

import hashlib
import re

from engine.evaluate.results import Direction

BASE_NAME = "none"
LONGEST_NAME = 80
NUMBER = re.compile("([0-9]+)")
UNSAFE = re.compile(r"[^A-Za-z0-9.=_-]+")

# the name that stands for no variant, and those that Windows keeps for devices
RESERVED = {BASE_NAME, "con", "prn", "aux", "nul"}


def safe_name(name: str) -> str:
    """A file name for any text: the same for equal texts, safe on every file system, never a path.

    Colons become commas (``mix:0.9:seed=1`` is ``mix,0.9,seed=1``), anything else that is not a letter, digit
    or one of ``.=_-`` becomes ``-``. Where more than colons had to change, eight digits of the text's SHA-256
    tell it from its likes.
    """
    parts = [UNSAFE.sub("-", part) for part in name.split(":")]
    cleaned = ",".join(parts).strip(".-,")[:LONGEST_NAME]
    faithful = cleaned == name.replace(":", ",") and "," not in name and cleaned.lower() not in RESERVED
    return (
        cleaned
        if cleaned and faithful
        else f"{cleaned or 'name'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    )


def run_name(variant: str | None, direction: Direction, distractors: int = 0) -> str:
    """The name of a run's files, without extension."""
    name = f"{BASE_NAME if variant is None else safe_name(variant)}.{direction}"
    return f"{name}.{distractors}-distractors" if distractors else name


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Orders names with numbers in them as people do, in any case: ``step-900`` before ``step-1000``.

    Names that differ only in case or in leading zeros have one key.
    """
    return tuple(map(natural_part, filter(None, NUMBER.split(name))))


def natural_part(part: str) -> tuple[int, int, str]:
    """A key for digits, by their value, or for other text, which comes after them."""
    if not NUMBER.fullmatch(part):
        return 1, 0, part.lower()
    digits = part.lstrip("0")
    return 0, len(digits), digits
