"""The parameters that a variant's spec may hold: their names, their values as text, their defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from engine.whole_numbers import parse_whole_number

Mode = Literal["default", "paper"]
DEFAULT: Mode = "default"
PAPER: Mode = "paper"
MODES: tuple[Mode, ...] = (DEFAULT, PAPER)

REQUIRED = object()
"""The default of a parameter that has none."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a family.

    `parse` turns the text of a spec into the value and raises ValueError when it cannot; `expected` says in
    words what it takes. Positional parameters stand before the others, without their names. `format` turns
    the value into its text in canonical names. The value of one that `is_file` is a path, which may hold
    colons.
    """

    name: str
    parse: Callable[[str], Any]
    expected: str
    default: Any = REQUIRED
    positional: bool = False
    format: Callable[[Any], str] = str
    is_file: bool = False

    @property
    def required(self) -> bool:
        """Whether a spec must give it."""
        return self.default is REQUIRED


LEVEL_EXPECTED = "the original's share, a decimal number strictly between 0 and 1 with at most six digits"


def parse_seed(text: str) -> int:
    """A whole number from 0 up, at most 18 digits."""
    return parse_whole_number(text)


def parse_level(text: str) -> Decimal:
    """A decimal strictly between 0 and 1, at most six digits after the point; trailing zeros go."""
    if not re.fullmatch(r"0?\.[0-9]{1,6}", text) or not Decimal(text):
        raise ValueError(text)
    return Decimal(text).normalize()


def parse_mode(text: str) -> Mode:
    """A member of `MODES`."""
    for mode in MODES:
        if text == mode:
            return mode
    raise ValueError(text)


def mode_parameter() -> Parameter:
    """``mode=paper``: the rule as published; ``mode=default``: as it should be."""
    return Parameter("mode", parse_mode, " or ".join(MODES), default=DEFAULT)


def seed_parameter() -> Parameter:
    """``seed=S``: every random choice is drawn from it and the id of the original."""
    return Parameter("seed", parse_seed, "a whole number from 0 up with at most 18 digits", default=0)


def level_parameter() -> Parameter:
    """``L``: the share of the original that is kept."""
    return Parameter("level", parse_level, LEVEL_EXPECTED, positional=True)


def format_level(level: Decimal) -> str:
    """The one way a level is written, such as ``0.9``."""
    return format(level, "f")


def parse_file(text: str) -> Path:
    """A path of printable characters."""
    if not text or not text.isprintable():
        raise ValueError(text)
    return Path(text)


def file_label(file: Path) -> str:
    """What a file is called in canonical names: its name without its ending, and without colons."""
    return file.stem.replace(":", "-")


def canonical_name(head: str, parameters: Sequence[Parameter], variant: object) -> str:
    """`head`, then ``key=value`` of the variant's named parameters: the seed, and what is not the default."""
    values = {one: getattr(variant, one.name) for one in parameters if not one.positional}
    shown = (one for one, value in values.items() if one.name == "seed" or value != one.default)
    return ":".join([head, *(f"{one.name}={one.format(values[one])}" for one in shown)])
