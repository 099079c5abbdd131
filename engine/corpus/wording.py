"""When two texts say the same: what `changed` means, in `corpus inspect` and in every caption variant."""

from __future__ import annotations

import unicodedata
from functools import cache


@cache
def _ignored(character: str) -> bool:
    return character == "`" or unicodedata.category(character)[0] in "ZPC"


def same_form(text: str) -> str:
    """The text lower-cased and without white space, punctuation and control characters.

    Two texts with equal forms count as unchanged. RoCOCO's adversarial captions were made from tokenised text
    (``a dog 's bed , red``, lower case, no final full stop), so what tokenising, case and `pre_caption` do is
    no change. A text of nothing but punctuation is its own form.
    """
    lowered = text.lower()
    return "".join(c for c in lowered if not _ignored(c)) or lowered
