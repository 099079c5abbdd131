"""What the caption cleaning of ALBEF and BLIP has in common."""

from __future__ import annotations

import re


def first_words(text: str, most: int) -> tuple[str, bool]:
    """Runs of white space squeezed, none at the ends, at most `most` words; and whether words were cut."""
    words = re.sub(r"\s{2,}", " ", text).rstrip("\n").strip(" ").split(" ")
    return " ".join(words[:most]), len(words) > most
