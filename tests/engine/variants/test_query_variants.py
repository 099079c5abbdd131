"""The query perturbations: what each keeps and changes, whatever the text, the order and the company."""

from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.word_tokens import word_tokens
from engine.errors import InputError
from engine.variants import treebank
from engine.variants.families import synonyms
from engine.variants.keyboard import NUMBER_ROW, in_case_of, neighbours, typeable
from engine.variants.parameters import DEFAULT, MODES, PAPER
from engine.variants.registry import make_variant, variant_families
from engine.variants.tagging import Token, tag
from engine.variants.treebank import tags_by_spacy
from engine.variants.variant import VariantItem
from engine.variants.wordnet import open_wordnet

TYPOS = ("char_swap", "missing_char", "extra_char", "nearby_char")
DISTRACTIONS = ("distraction_true", "distraction_false")
SHUFFLES = (
    "shuffle_nouns_and_adj",
    "shuffle_all_words",
    "shuffle_allbut_nouns_and_adj",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
)
SYNONYMS = ("synonym_noun", "synonym_adj")
SEEDED = (*TYPOS, *SHUFFLES, "random_letter")
WITHOUT_WORDNET = (*SEEDED, *DISTRACTIONS)
ALL = (*WITHOUT_WORDNET, *SYNONYMS)

PLAIN = (
    "A small red umbrella left of two white dogs on the beach.",
    "An old man rides a motorcycle down a dirt road ",
    "Three zebras and an elephant near the big water",
    "Two women sit at a large table with laptops.",
    "A white dog in a Red hat's shadow , outside .",
)
ODD = (
    "",
    "dog",
    "?!... --- ,,,",
    " ".join(["the big dog chased a small cat past the old house"] * 40),
    "a dog 🐕 and a 🐈 cat 🚀🚀 👩‍🚀",
    "كلب أسود يجري على الشاطئ ٣",
    "cafe\u0301 ta\u0302ble with a nai\u0308ve dog",
    "running quickly and very happily",
    "dog dog dog dog dog dog",
    "aaa aaa aaa",
    "12 34,5 6-7 8th 1990s ½ ²",
    "the dog's owner's cat doesn't like o'clock",
    "a well-known ice-cream-covered t-shirt",
    "a\tdog\n\nwith  a \r\n cat \u00a0 here",
    "Straße İstanbul ǆ ŉ",
    '"A sign that reads "lovely."',
    "A DOG AND A CAT",
)

texts = st.one_of(
    st.sampled_from(PLAIN + ODD),
    st.text(max_size=40),
    st.lists(st.sampled_from(("a", "dog", "Red", "on", ",", "ß", "  ", "\n", "x1", "Two.")), max_size=12).map(
        " ".join
    ),
)


def caption_corpus(*captions: str) -> Corpus:
    return Corpus(
        "test",
        (ImageItem("i", "i.png"),),
        tuple(Caption(f"c{k}", text, 0) for k, text in enumerate(captions)),
    )


def items_of(name: str, captions: Sequence[str], seed: int = 0, mode: str = DEFAULT) -> list[VariantItem]:
    """The items of `captions`; a last one that everything can change keeps the changed rate above 0."""
    spec = f"{name}:mode={mode}" + (f":seed={seed}" if name in SEEDED else "")
    always = "big dogs run and big women with white horses run over red cars , many small cats and men"
    return list(make_variant(spec).apply(caption_corpus(*captions, *[always] * 8)).items[: len(captions)])


def query(name: str, text: str, seed: int = 0, mode: str = DEFAULT) -> VariantItem:
    return items_of(name, [text], seed, mode)[0]


# ---------------------------------------------------------------- all of them


def test_all_fourteen_are_there_by_their_names() -> None:
    assert set(ALL) <= set(variant_families())
    assert len(ALL) == 14
    for name in ALL:
        variant = make_variant(name)
        assert (variant.side, variant.modality) == ("query", "captions")
        assert variant.name == (f"{name}:seed=0" if name in SEEDED else name)
        assert (
            make_variant(make_variant(f"{name}:mode=paper").name).name
            == make_variant(f"{name}:mode=paper").name
        )


def test_names_hold_every_parameter_that_counts() -> None:
    assert make_variant("shuffle_trigrams:mode=paper:seed=3").name == "shuffle_trigrams:mode=paper:seed=3"
    assert make_variant("char_swap:mode=default:seed=3").name == "char_swap:seed=3"
    assert make_variant("char_swap:mode=paper:seed=3").name == "char_swap:mode=paper"  # 42, whatever is given
    assert make_variant("distraction_true:mode=paper").name == "distraction_true:mode=paper"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("char_swap:mode=published", "mode is 'published'; expected default or paper"),
        ("shuffle_all_word", "did you mean 'shuffle_all_words'"),
        ("distraction_true:seed=1", "unknown parameter 'seed'"),
        ("missing_char:sed=1", "did you mean 'seed'"),
    ],
)
def test_a_wrong_spec_is_named(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make_variant(spec)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ALL)
def test_odd_texts_stay_queries_and_say_why_they_are_unchanged(
    name: str, mode: str, request: pytest.FixtureRequest
) -> None:
    if name in SYNONYMS:
        request.getfixturevalue("wordnet")
    corpus = caption_corpus(*PLAIN, *ODD)
    outcome = make_variant(f"{name}:mode={mode}").apply(corpus)
    assert [item.source for item in outcome.items] == list(range(len(corpus.captions)))
    assert outcome.left_out == {}
    assert len({item.id for item in outcome.items}) == len(outcome.items)
    for item, caption in zip(outcome.items, corpus.captions, strict=True):
        assert json.loads(json.dumps(item.change)) == dict(item.change)
        assert (item.change["perturbation"], item.change["mode"]) == (name, mode)
        assert item.changed == ("unchanged" not in item.change)
        if mode == DEFAULT:
            assert item.changed == (item.content != caption.text)
    assert outcome.changed_rate >= (0.15 if name == "synonym_adj" else 0.3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [n for n in ALL if n not in DISTRACTIONS])
def test_a_corpus_that_cannot_be_changed_is_an_error(
    name: str, mode: str, request: pytest.FixtureRequest
) -> None:
    if name in SYNONYMS:
        request.getfixturevalue("wordnet")
    with pytest.raises(InputError, match="changed rate 0: all 2 items equal their originals"):
        make_variant(f"{name}:mode={mode}").apply(caption_corpus("", " "))


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(len(PLAIN + ODD))), keep=st.integers(6, 22), seed=st.integers(0, 2))
@pytest.mark.parametrize("name", SEEDED)
def test_items_depend_on_seed_and_id_but_not_on_order_or_company(
    name: str, order: list[int], keep: int, seed: int
) -> None:
    corpus = caption_corpus(*PLAIN, *ODD)
    kept = tuple(corpus.captions[row] for row in order if row < keep)
    for mode in MODES:
        variant = make_variant(f"{name}:mode={mode}:seed={seed}")
        first = {item.id: (item.content, item.change) for item in variant.apply(corpus).items}
        for item in variant.apply(replace(corpus, captions=kept)).items:
            assert (item.content, item.change) == first[item.id]


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_and_ids_draw_apart(name: str) -> None:
    drawn = {tuple(item.content for item in items_of(name, PLAIN, seed)) for seed in range(6)}
    assert len(drawn) >= 5
    assert len({item.content for item in items_of(name, [PLAIN[0]] * 12)}) >= 4


def test_typos_leave_pythons_own_generator_alone() -> None:
    random.seed(7)
    expected = random.Random(7).random()
    items_of("char_swap", PLAIN, mode=PAPER)
    assert random.random() == expected


def test_a_rule_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    import typo

    def fail(self: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(typo.StrErrer, "missing_char", fail)
    with pytest.raises(ZeroDivisionError):
        items_of("missing_char", PLAIN, mode=PAPER)


# ---------------------------------------------------------------- typos


def edits(before: str, after: str) -> tuple[str, str]:
    """What goes and what comes when the equal beginning and end of two texts are cut off."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return before[start : len(before) - end], after[start : len(after) - end]


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_is_exactly_one_edit(name: str, text: str, seed: int) -> None:
    item = query(name, text, seed)
    gone, came = edits(text, str(item.content))
    if not item.changed:
        assert item.content == text
        return
    if name == "char_swap":
        assert len(gone) == len(came) <= 2
        assert Counter(gone.casefold()) == Counter(came.casefold()) or len(gone) == 1
    if name == "missing_char":
        assert (len(gone), len(came)) == (1, 0)
        assert gone.isalnum()
    if name == "extra_char":
        assert (len(gone), len(came)) == (0, 1)
        assert came.lower() in string.ascii_lowercase + string.digits
    if name == "nearby_char":
        assert (len(gone), len(came)) == (1, 1)
        assert came.lower() in neighbours(gone)
        assert came.isupper() == gone.isupper()


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
@pytest.mark.parametrize("name", TYPOS)
def test_the_record_of_a_typo_repeats_it(name: str, text: str, seed: int) -> None:
    item = query(name, text, seed)
    if item.changed:
        place, old, new = (item.change[key] for key in ("position", "old", "new"))
        assert text[place : place + len(old)] == old
        assert text[:place] + new + text[place + len(old) :] == item.content


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("char_swap", "aaa 1 a!b ooo"),
        ("char_swap", "Aa"),
        ("missing_char", "a b 1 !"),
        ("extra_char", "كلب"),
        ("nearby_char", "é ß"),
    ],
)
def test_what_no_typo_can_change_stays(name: str, text: str) -> None:
    item = query(name, text)
    assert (item.content, item.changed) == (text, False)


def test_every_place_gets_its_typo() -> None:
    swapped = {str(query("char_swap", "abc", seed).content) for seed in range(40)}
    assert swapped == {"bac", "acb"}
    assert {str(query("missing_char", "abc", seed).content) for seed in range(40)} == {"bc", "ac", "ab"}
    near = {str(query("nearby_char", "Q9", seed).content) for seed in range(200)}
    assert near == {"A9", "W9", "Q8", "Q0", "Q5", "Q6"}


def test_upper_case_stays_where_it_was() -> None:
    assert query("char_swap", "The", 0).content in ("Hte", "Teh")
    assert in_case_of("s", "A") == "S"
    assert in_case_of("ß", "A") == "ß"  # SS would be two characters
    assert in_case_of("S", "1") == "s"


def test_accents_and_joined_signs_are_not_torn_apart() -> None:
    assert [k for k in typeable("cafe\u0301s") if k == 3] == []
    for seed in range(30):
        content = str(query("missing_char", "e\u0301te\u0301 ab", seed).content)
        assert content.count("e\u0301") == 2


def test_neighbours_touch_on_a_keyboard() -> None:
    rows = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    where = {key: (x, y) for y, row in enumerate(rows) for x, key in enumerate(row)}
    for key in string.ascii_lowercase:
        assert neighbours(key)
        for near in neighbours(key):
            assert near != key
            assert abs(where[key][0] - where[near][0]) <= 2
            assert abs(where[key][1] - where[near][1]) <= 1
    for digit in NUMBER_ROW:
        assert digit not in neighbours(digit)
        assert all(len(near) == 1 and near in NUMBER_ROW for near in neighbours(digit))
    assert neighbours("é") == neighbours("!") == neighbours("٣") == ()


def test_a_digit_without_published_keys_is_unchanged_and_named() -> None:
    reasons = {query("extra_char", "٣", mode=PAPER).change.get("unchanged")}
    assert reasons <= {"no keyboard neighbour of '٣'", None}
    item = query("nearby_char", "٣", mode=PAPER)
    assert item.changed or item.change["unchanged"]


# ---------------------------------------------------------------- distractions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog.", "A dog and true is true."),
        ("A dog", "A dog and true is true"),
        ("A dog . \n", "A dog and true is true . \n"),
        ("...A dog", "...A dog and true is true"),
        ("A dog!", "A dog! True is true."),
        ("A dog?.", "A dog? True is true."),
        ('It reads "hi."', 'It reads "hi." True is true.'),
        ('It reads "hi".', 'It reads "hi" and true is true.'),
        ("...", "..."),
        ("", ""),
    ],
)
def test_a_distraction_is_correct_english_and_keeps_all_else(text: str, expected: str) -> None:
    assert query("distraction_true", text).content == expected
    other = expected.replace("true is true", "false is false").replace("True is true", "False is false")
    assert query("distraction_false", text).content == other


@given(text=texts)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", DISTRACTIONS)
def test_taking_the_distraction_out_gives_the_caption(name: str, text: str) -> None:
    item = query(name, text)
    if item.changed:
        assert str(item.content).replace(str(item.change["added"]), "", 1) == text


def test_the_published_distractions_are_as_published() -> None:
    assert query("distraction_true", "..A dog.. ", mode=PAPER).content == "A dog..  and true it true."
    assert query("distraction_false", "A dog.", mode=PAPER).content == "A dog and false is false."


# ---------------------------------------------------------------- shuffles


def gaps(text: str) -> list[str]:
    return re.split(r"\S+", text)


def threes(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[k : k + 3]) for k in range(0, len(words), 3)]


def can_change(name: str, text: str) -> bool:
    """Whether the rule has an order that differs, by the words alone."""
    words = text.split()
    if name == "shuffle_all_words":
        return len(set(words)) > 1
    if name == "shuffle_within_trigrams":
        return any(len(set(three)) > 1 for three in threes(words))
    if name == "shuffle_trigrams":
        cut = threes(words)
        return any([*a, *b] != [*b, *a] for a in cut for b in cut)
    tokens = tag([text])[text]
    nouns = {t.text for t in tokens if t.tag.startswith("NN")}
    adjectives = {t.text for t in tokens if t.tag.startswith("JJ")}
    if name == "shuffle_nouns_and_adj":
        return len(nouns) > 1 or len(adjectives) > 1
    return len(set(others(text))) > 1


def others(text: str) -> list[str]:
    """Words between white space that hold no noun and no adjective."""
    content = [t for t in tag([text])[text] if t.tag[:2] in ("NN", "JJ")]
    return [
        m[0]
        for m in re.finditer(r"\S+", text)
        if not any(t.start < m.end() and m.start() < t.end for t in content)
    ]


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_keeps_words_and_spacing_and_changes_the_text_when_it_can(
    name: str, text: str, seed: int
) -> None:
    item = query(name, text, seed)
    content = str(item.content)
    assert item.changed == (content != text)
    assert item.changed == can_change(name, text)
    assert Counter(content) == Counter(text)
    if name != "shuffle_nouns_and_adj":  # there "dog's" may become "cat's"
        assert Counter(content.split()) == Counter(text.split())
        assert gaps(content) == gaps(text)


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
def test_trigrams_keep_their_structure(text: str, seed: int) -> None:
    words = text.split()
    within = str(query("shuffle_within_trigrams", text, seed).content).split()
    assert [Counter(three) for three in threes(within)] == [Counter(three) for three in threes(words)]
    among = str(query("shuffle_trigrams", text, seed).content).split()
    order = query("shuffle_trigrams", text, seed).change.get("order", list(range(len(words))))
    assert [words[place] for place in order] == among
    starts = [place for place in order if place % 3 == 0]
    assert sorted(starts) == list(range(0, len(words), 3))
    assert order == [p for s in starts for p in range(s, min(s + 3, len(words)))]


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
def test_nouns_and_adjectives_go_to_their_own_slots_and_nothing_else_moves(text: str, seed: int) -> None:
    item = query("shuffle_nouns_and_adj", text, seed)
    rest, words = str(item.content), {"NN": [], "JJ": []}  # type: dict[str, list[str]]
    moving = [t for t in tag([text])[text] if t.tag[:2] in words]
    reached, moved = 0, 0
    pieces: list[tuple[str, str]] = []
    order = item.change.get("order", list(range(len(moving))))
    for token, from_ in zip(moving, order, strict=True):
        between = text[reached : token.start]
        new = moving[from_].text
        assert rest[reached + moved :].startswith(between + new)
        moved += len(new) - len(token.text)
        reached = token.end
        pieces.append((token.tag[:2], new))
    assert rest[reached + moved :] == text[reached:]
    for kind in words:
        assert Counter(w for k, w in pieces if k == kind) == Counter(
            t.text for t in moving if t.tag[:2] == kind
        )


@settings(max_examples=40, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
def test_nouns_and_adjectives_stay_while_all_else_moves(text: str, seed: int) -> None:
    content = str(query("shuffle_allbut_nouns_and_adj", text, seed).content)
    before, after = text.split(), content.split()
    moving = Counter(others(text))
    stays = [
        word
        for word, match in zip(before, re.finditer(r"\S+", text), strict=True)
        if any(
            t.tag[:2] in ("NN", "JJ") and t.start < match.end() and match.start() < t.end
            for t in tag([text])[text]
        )
    ]
    assert Counter(before) - moving == Counter(stays)
    kept = iter(after)
    assert all(word in kept for word in stays)  # in the same order


@settings(max_examples=40, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
@pytest.mark.parametrize("name", SHUFFLES)
def test_published_shuffles_keep_the_tokens_and_say_when_nothing_moved(
    name: str, text: str, seed: int
) -> None:
    item = query(name, text, seed, PAPER)
    tokens: Sequence[str]
    if name == "shuffle_all_words":
        tokens = text.split(" ")
    elif "trigrams" in name:
        tokens = word_tokens(text)
    else:
        tokens = [token.text for token in tag([text])[text]]
    after = [tokens[place] for place in item.change["order"]]
    assert sorted(item.change["order"]) == list(range(len(tokens)))
    assert item.content == " ".join(after)
    assert item.changed == (list(tokens) != after)


def test_every_order_is_as_likely() -> None:
    texts = ["a b c"] * 3000
    drawn = Counter(str(item.content) for item in items_of("shuffle_all_words", texts))
    assert len(drawn) == 5  # all but the caption itself
    assert all(500 < count < 700 for count in drawn.values())
    drawn = Counter(str(item.content) for item in items_of("shuffle_all_words", texts, mode=PAPER))
    assert len(drawn) == 6
    assert all(400 < count < 600 for count in drawn.values())


# ---------------------------------------------------------------- random letters


@settings(max_examples=60, deadline=None)
@given(text=texts, seed=st.integers(0, 5))
def test_random_letters_differ_and_stand_one_to_a_word(text: str, seed: int) -> None:
    item = query("random_letter", text, seed)
    content = str(item.content)
    assert len(content) == len(text)
    assert gaps(content) == gaps(text)
    changed = [k for k in range(len(text)) if content[k] != text[k]]
    assert item.changed == bool(changed) == any(True for _ in typeable(text))
    assert changed == [letter["position"] for letter in item.change.get("letters", [])]
    assert all(content[k].lower() in string.ascii_lowercase for k in changed)
    assert all(content[k].lower() != text[k].lower() for k in changed)
    for before, after in zip(text.split(), content.split(), strict=True):
        assert sum(a != b for a, b in zip(before, after, strict=True)) <= 1


def test_a_tenth_of_the_words_are_drawn() -> None:
    text = " ".join(["word"] * 400)
    for mode in MODES:
        words = str(query("random_letter", text, mode=mode).content).split(" ")
        assert 20 <= sum(word != "word" for word in words) <= 60


# ---------------------------------------------------------------- synonyms


@pytest.mark.usefixtures("wordnet")
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("synonym_noun", "A  man sits.", "An  adult male sits."),
        ("synonym_noun", "Two men sit.", "Two adult males sit."),
        ("synonym_noun", "The DOG runs", "The DOMESTIC DOG runs"),
        ("synonym_noun", "Two people near a car .", "Two people near an auto ."),
        ("synonym_adj", "A large group of people", "A big group of people"),
        ("synonym_adj", "The bigger dog and a large cat", "The bigger dog and a big cat"),
        ("synonym_adj", "Large, wet dogs", "Big, wet dogs"),
        ("synonym_adj", "Several dogs", "Several dogs"),
        ("synonym_noun", "the grass near the water and a bus", "the grass near the water and an autobus"),
    ],
)
def test_a_synonym_keeps_number_case_article_and_spacing(name: str, text: str, expected: str) -> None:
    assert query(name, text).content == expected


@pytest.mark.usefixtures("wordnet")
def test_a_synonym_is_of_the_words_part_of_speech() -> None:
    assert query("synonym_adj", "a blue jeans jacket", mode=PAPER).content == "a blueness jeans jacket"
    assert query("synonym_adj", "a blue hat").content != "a blueness hat"


@pytest.mark.usefixtures("wordnet")
@settings(max_examples=40, deadline=None)
@given(text=texts)
@pytest.mark.parametrize("name", SYNONYMS)
def test_putting_the_word_back_gives_the_caption(name: str, text: str) -> None:
    item = query(name, text)
    if not item.changed:
        assert item.content == text
        return
    start, end = item.change["span"]
    word, synonym = str(item.change["word"]), str(item.change["synonym"])
    assert text[start:end] == word
    assert str(item.content).endswith(synonym + text[end:])
    before = str(item.content)[: len(str(item.content)) - len(synonym + text[end:])]
    assert re.sub(r"(?i)\ban?(?=\s+\Z)", "a", before) == re.sub(r"(?i)\ban?(?=\s+\Z)", "a", text[:start])
    names = {name.lower() for name in open_wordnet().lemma_names(tag_of(text, start).lemma.lower())}
    assert word.lower() != synonym.lower()
    assert synonym.lower() in names or any(synonym.lower()[:3] == name[:3] for name in names)  # inflected


def tag_of(text: str, start: int) -> Token:
    return next(token for token in tag([text])[text] if token.start == start)


@pytest.mark.usefixtures("wordnet")
def test_published_synonyms_use_nltks_tagger_where_its_data_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synonyms, "has_tagger", lambda: True)
    monkeypatch.setattr(synonyms, "tags_by_nltk", lambda tokens: ["JJ" for _ in tokens])
    item = query("synonym_adj", "the dog, large", mode=PAPER)
    assert item.content == "the domestic dog , large"
    assert item.change["tagger"] == "nltk"


@pytest.mark.usefixtures("wordnet")
@pytest.mark.parametrize(
    ("spec", "there", "tagger", "is_noted"),
    [
        ("synonym_adj:mode=paper", True, "nltk", False),
        ("synonym_adj:mode=paper", False, "en_core_web_sm", True),
        ("synonym_adj", False, "en_core_web_sm", False),
    ],
)
def test_a_stand_in_for_nltks_tagger_is_recorded_and_said(
    monkeypatch: pytest.MonkeyPatch, spec: str, there: bool, tagger: str, is_noted: bool
) -> None:
    monkeypatch.setattr(synonyms, "has_tagger", lambda: there)
    monkeypatch.setattr(synonyms, "tags_by_nltk", lambda tokens: ["JJ" for _ in tokens])
    items = make_variant(spec).apply(caption_corpus("a large dog"))
    assert str(items.made_with["tagger"]).startswith(tagger)
    assert bool(items.note) == is_noted
    assert not is_noted or (items.note.startswith(f"{spec}: ") and "nltk.downloader" in items.note)


def test_nltks_tagger_is_asked_with_its_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk, "pos_tag", lambda tokens: [(token, str(len(token))) for token in tokens])
    assert treebank.tags_by_nltk(("a", "dog")) == ["1", "3"]


def test_nltk_tokens_find_their_spacy_tags() -> None:
    text = 'A dark-skinned man\'s "big" dog cannot run.'
    tokens = word_tokens(text)
    tags = dict(zip(tokens, tags_by_spacy(text, tokens, tag([text])[text]), strict=True))
    assert tags["dog"] == tags["man"] == "NN"
    assert tags["big"] == "JJ"
    assert tags["dark-skinned"] == next(t.tag for t in tag([text])[text] if t.text == "skinned")
    assert tags["``"] in ("``", "''")
    assert tags["."] == "."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A cat. It sleeps.", "A cat . It sleeps ."),
        ("a t.v. stand near St. Mary", "a t.v . stand near St. Mary"),
        ("The U.S. flag near a tree..", "The U.S. flag near a tree.."),
        ("the word 'walk' on a sign", "the word 'walk ' on a sign"),
    ],
)
def test_published_tokens_are_those_of_each_sentence(text: str, expected: str) -> None:
    assert " ".join(word_tokens(text)) == expected


def test_next_is_an_adjective_for_published_synonyms() -> None:
    text = "A man stands next to machines, next, Next week."
    tokens = word_tokens(text)
    assert any(token.text == "next" and not token.is_adjective for token in tag([text])[text])
    tags = tags_by_spacy(text, tokens, tag([text])[text])
    tags_of_next = [it for token, it in zip(tokens, tags, strict=True) if token.lower() == "next"]
    assert tags_of_next == ["JJ", "JJ", "JJ"]


@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_every_nltk_token_gets_a_tag_slot(text: str) -> None:
    tokens = word_tokens(text)
    assert len(tags_by_spacy(text, tokens, tag([text])[text])) == len(tokens)
