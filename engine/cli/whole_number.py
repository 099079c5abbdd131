"""The type of options that are whole numbers: bounded above too, so that no size of them is a defect."""

from __future__ import annotations

from typing import Any

import click

from engine.corpus.shape import shorten
from engine.whole_numbers import LARGEST, parse_whole_number


class WholeNumber(click.IntRange):
    """A whole number from `least` to `most`, neither negative; without `most` it has up to 18 digits."""

    def __init__(self, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self.least, self.most = least, LARGEST if most is None else most

    def convert(  # noqa: D102
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        text = str(value).strip()
        try:
            return parse_whole_number(text, self.least, self.most)
        except ValueError as error:
            self.fail(f"{shorten(text)}: {error}", param, ctx)
