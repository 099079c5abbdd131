"""What a tokenizer made of texts, kept: whether a text is cut is asked before it is encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

Tokens = TypeVar("Tokens")
TEXTS_KEPT = 1 << 17


class TokenMemory(Generic[Tokens]):
    """A tokenizer of many texts at once that is asked once a text, for the first `TEXTS_KEPT` texts.

    What it gives is not to be changed.
    """

    def __init__(self, tokenise: Callable[[Sequence[str]], Sequence[Tokens]]) -> None:
        self._tokenise = tokenise
        self._known: dict[str, Tokens] = {}

    def __call__(self, texts: Sequence[str]) -> list[Tokens]:
        """One for each text, in their order."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        made = dict(zip(new, self._tokenise(new), strict=True)) if new else {}
        found = [made[text] if text in made else self._known[text] for text in texts]
        self._keep(made)
        return found

    def _keep(self, made: Mapping[str, Tokens]) -> None:
        self._known.update(islice(made.items(), TEXTS_KEPT - len(self._known)))
