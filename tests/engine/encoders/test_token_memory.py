"""A tokenizer is asked once a text, as far as its answers are kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.encoders import token_memory
from engine.encoders.token_memory import TokenMemory


class Counting:
    """Gives a text its number of letters."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return list(map(len, texts))


@given(st.lists(st.lists(st.text("ab", max_size=3)), max_size=6))
def test_every_text_gets_its_own_tokens_and_is_asked_for_once(calls: list[list[str]]) -> None:
    tokenise = Counting()
    memory = TokenMemory(tokenise)
    for texts in calls:
        assert memory(texts) == list(map(len, texts))
    assert sorted(tokenise.asked) == sorted({text for texts in calls for text in texts})


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_memory, "TEXTS_KEPT", 3)
    tokenise = Counting()
    memory = TokenMemory(tokenise)
    assert memory(["a", "bb", "", "ccc", "dddd"]) == [1, 2, 0, 3, 4]
    tokenise.asked.clear()
    assert memory(["dddd", "a", "ccc", "bb", "eeeee"]) == [4, 1, 3, 2, 5]
    assert tokenise.asked == ["dddd", "ccc", "eeeee"]
    tokenise.asked.clear()
    assert memory(["dddd", "a"]) == [4, 1]  # nothing more was kept when it was full
    assert tokenise.asked == ["dddd"]
