"""`pre_caption` follows its definition in spec/rococo.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.normalise import NORMALISATIONS, find_normalisation, pre_caption, tokenised
from engine.errors import InputError


def oracle(text: str) -> str:
    """The definition word for word, a character at a time."""
    characters = [" " if c in '.!"()*#:;~' or c in "-/" or c.isspace() else c for c in text.lower()]
    words = [word for word in "".join(characters).split(" ") if word]
    return " ".join(words[:30])


@given(st.text(st.sampled_from("aB é.!\"()*#:;~-/',?\n\t "), max_size=90))
def test_pre_caption_is_its_definition_and_settles_at_once(text: str) -> None:
    assert pre_caption(text) == oracle(text)
    assert pre_caption(pre_caption(text)) == pre_caption(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man's hat, on a shelf. ", "a man's hat, on a shelf"),
        ("black-and-white / Photo!\n(old)", "black and white photo old"),
        ("...", ""),
        (" ".join(map(str, range(40))), " ".join(map(str, range(30)))),
    ],
)
def test_pre_caption_by_example(text: str, expected: str) -> None:
    assert pre_caption(text) == expected


def test_raw_leaves_a_text_alone() -> None:
    assert NORMALISATIONS["raw"](" A\n b. ") == " A\n b. "


def test_an_unknown_normalisation_is_met_with_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"unknown text normalisation 'precaption'; did you mean 'pre_caption'"
    ):
        find_normalisation("precaption")


def test_tokenised_gives_originals_the_spacing_of_published_fakes() -> None:
    """A published fake is such tokens already; an original becomes them."""
    assert tokenised("A man's  dog, they can't run.\n") == "A man 's dog , they ca n't run ."
    fake = "a man 's dog , they ca n't run"
    assert tokenised(fake) == fake
    assert NORMALISATIONS["tokenised"] is tokenised
