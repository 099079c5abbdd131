"""Captions to words and word pieces: what the published code does with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.encoders.albef.encoder import clean_caption as clean_for_albef
from engine.encoders.blip.encoder import clean_caption as clean_for_blip
from engine.encoders.wordpiece import read_wordpiece
from engine.encoders.words import lower_ascii, split_words
from engine.errors import InputError

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "ab", "abc", "##a", "##b", "##ab", ",", "-", "e")

# what NLTK 3.10's NLTKWordTokenizer gives for these sentences
NLTK = {
    "a man's dog isn't \"big\" , and (red) .": "a man 's dog is n't `` big '' , and ( red ) .",
    "cannot gonna it'll": "can not gon na it 'll",
    "10:30 & 5% $3": "10:30 & 5 % $ 3",
    "wait... what?": "wait ... what ?",
    "the dogs' bowl": "the dogs ' bowl",
    "rock'n'roll 80's": "rock'n'roll 80 's",
    "t-shirt 3,000 u.s. flag": "t-shirt 3,000 u.s. flag",
    "a sign that says '' i love new york ''": "a sign that says `` i love new york ``",
    "the word 'walk' is there": "the word ' walk ' is there",
    "men -- and [women] .": "men -- and [ women ] .",
}


@pytest.mark.parametrize("sentence", NLTK)
def test_a_sentence_is_split_as_nltk_does(sentence: str) -> None:
    assert split_words(sentence) == NLTK[sentence].split()


def test_words_that_are_apart_stay_as_they_are() -> None:
    caption = "a man with a red helmet , isn t it , on a dirt-road ."
    assert split_words(caption) == caption.split()


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("two dogs. a cat.", "two dogs . a cat ."),
        ("two dogs! a cat", "two dogs ! a cat"),
        ("mr. x and dr. y.", "mr. x and dr. y ."),
        ("the u.s. flag.", "the u.s. flag ."),
        ("he said stop . ''", "he said stop . ``"),
    ],
)
def test_the_end_of_a_sentence_inside_a_caption_is_set_apart(caption: str, words: str) -> None:
    assert split_words(caption) == words.split()


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_splitting_loses_nothing_but_white_space_and_the_shape_of_quotes(text: str) -> None:
    def bare(value: str) -> str:
        return "".join(value.split()).replace('"', "").replace("''", "").replace("`", "").replace("'", "")

    assert bare("".join(split_words(text))) == bare(text)


def test_lower_casing_of_bytes_leaves_other_letters() -> None:
    assert lower_ascii("A CAF\u00c9 Z") == "a caf\u00c9 z"


def test_the_two_cleanings_differ_as_published() -> None:
    caption = 'A "red-hat", men\'s (2/3)? YES: <person>; *x* #1 ~ now.'
    assert clean_for_albef(caption) == ("a red hat mens 2 3 yes person x 1 now", False)
    assert clean_for_blip(caption) == ("a red-hat , men's 2/3 ? yes <person> x 1 now", False)


@pytest.mark.parametrize("clean", [clean_for_albef, clean_for_blip])
def test_thirty_words_are_kept_and_a_cut_is_told(clean: object) -> None:
    thirty = " ".join("abc"[i % 3] for i in range(30))
    assert clean(f" {thirty}  \n") == (thirty, False)  # type: ignore[operator]
    assert clean(f"{thirty} more") == (thirty, True)  # type: ignore[operator]
    assert clean("") == ("", False)  # type: ignore[operator]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return path


def longest_match(word: str) -> list[str]:
    """The oracle: greedily the longest piece, or unknown as a whole."""
    pieces: list[str] = []
    while word:
        prefix = "##" if pieces else ""
        known = [n for n in range(len(word), 0, -1) if prefix + word[:n] in TOKENS]
        if not known:
            return ["[UNK]"]
        pieces.append(prefix + word[: known[0]])
        word = word[known[0] :]
    return pieces


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text("abcABC", min_size=1, max_size=6) | st.sampled_from([",", "-"]), max_size=8))
def test_word_pieces_are_the_longest_known_ones(vocabulary: Path, words: list[str]) -> None:
    tokenizer = read_wordpiece(vocabulary, len(TOKENS), Path("m.pth"))
    expected = [piece for word in words for piece in longest_match(word.lower())]
    ids, cut = tokenizer.encode(" ".join(words))
    assert [TOKENS[i] for i in ids] == ["[CLS]", *expected, "[SEP]"]
    assert not cut

    shorter, was_cut = tokenizer.encode(" ".join(words), 5)
    assert [TOKENS[i] for i in shorter] == ["[CLS]", *expected[:3], "[SEP]"]
    assert was_cut == (len(expected) > 3)


def test_accents_are_stripped_and_punctuation_is_set_apart(vocabulary: Path) -> None:
    tokenizer = read_wordpiece(vocabulary, len(TOKENS), Path("m.pth"))
    assert [TOKENS[i] for i in tokenizer.encode("\u00c9,a-b")[0]] == [
        "[CLS]",
        "e",
        ",",
        "a",
        "-",
        "b",
        "[SEP]",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[PAD]\n[UNK]\n[CLS]\na\n", r"the token \[SEP\] is missing"),
        ("a\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n", r"\[PAD\] is line 2"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\na\n", "a token is there twice"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"m\.pth: needs a vocabulary of 6 tokens; .* has 5"),
    ],
)
def test_a_file_that_is_no_vocabulary_of_the_model_is_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "vocab.txt").write_text(content)
    with pytest.raises(InputError, match=said):
        read_wordpiece(tmp_path / "vocab.txt", 8, Path("m.pth"), added=2)


def test_a_vocabulary_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_wordpiece(tmp_path / "vocab.txt", 8, Path("m.pth"))
