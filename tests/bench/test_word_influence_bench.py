"""The measurement of embedding influence counts what it says."""

from __future__ import annotations

import pytest

from bench.word_influence import measure
from engine.demo import checkpoints


def test_texts_are_counted_and_the_share_is_of_the_time_without_opening() -> None:
    texts = ["a dog beside a red cup", "a dog beside a red cup", "very happily"]
    row = measure(f"open_clip:local-dir:{checkpoints()[-1]}", texts, repeat=2)
    assert (row.captions, row.words, row.asked, row.distinct) == (3, 4, 6, 3)
    assert 0 < row.share <= 1
    assert row.seconds > 0
    assert row.model == checkpoints()[-1].name


def test_a_model_that_is_none_stops_it() -> None:
    with pytest.raises(Exception, match="unknown model family"):
        measure("blub:x", ["a dog"], repeat=1)
