"""The caption policies: one word replaced, everything else kept, whatever the text and the order."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.wording import same_form
from engine.errors import InputError
from engine.variants.concepts import default_concepts
from engine.variants.inflection import has_article, match_case, pluralise, replace_noun
from engine.variants.nouns import Noun, nouns_of
from engine.variants.registry import make_variant
from engine.variants.rng import item_rng
from engine.variants.substitution import NO_NOUN, NO_TARGET, ONLY_REPEATS, draw_without_replacement
from engine.variants.variant import VariantItem
from engine.variants.vocabulary import default_vocabulary

POLICIES = ("same_concept", "diff_concept", "rand_voca")

PLAIN = (
    "A small red umbrella left of two white dogs on the beach.",
    "An old man rides a motorcycle down a dirt road",
    "Three zebras and an elephant near the water",
    "a plate of pasta with broccoli and cheese",
    "Two women sit at a table with laptops.",
    "The CLOCK on the tower shows noon",
)
ODD = (
    "",
    "dog",
    "?!... --- ,,,",
    " ".join(["the dog chased a cat past the old house"] * 45)[:2000],
    "a dog 🐕 and a 🐈 cat 🚀🚀",
    "كلب أسود يجري على الشاطئ",
    "cafe\u0301 ta\u0302ble with a nai\u0308ve dog",
    "running quickly and very happily",
    "12 34,5 6-7 8th 1990s",
    "the dog's owner's cat doesn't like o'clock",
    "a well-known ice-cream-covered t-shirt",
    "a\tdog\n\nwith  a \r\n cat \u00a0 here",
)


def caption_corpus(*images: tuple[str, ...]) -> Corpus:
    captions = [
        Caption(f"c{row}.{k}", text, row) for row, texts in enumerate(images) for k, text in enumerate(texts)
    ]
    return Corpus("test", tuple(ImageItem(f"i{n}", f"{n}.png") for n in range(len(images))), tuple(captions))


def restored(item: VariantItem, original: str) -> str:
    """The original again: the target's characters taken out, the article before it put back."""
    start, end = item.change["span"]
    text = str(item.content)
    moved = len(text) - (
        len(original) - (end - start) + len(item.change["target"])
    )  # an article grew or shrank
    assert abs(moved) <= 1
    place = start + moved
    assert text[place : place + len(item.change["target"])] == item.change["target"]
    before = text[:place]
    if moved or not original.startswith(before):
        before = re.sub(
            r"(?i)\b(an?)(\s+)\Z", lambda m: ("a" if m[1].lower() == "an" else "an") + m[2], before
        )
        article = re.search(r"(?i)\b(an?)\s+\Z", original[:start])
        assert article is not None
        if article[1][0] == "A":
            before = re.sub(r"\b(an?)(\s+)\Z", lambda m: m[1].capitalize() + m[2], before)
    return before + original[start:end] + text[place + len(item.change["target"]) :]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_all_but_the_word_and_its_article_stays_byte_for_byte(policy: str, seed: int) -> None:
    corpus = caption_corpus(*((text,) for text in PLAIN + ODD))
    outcome = make_variant(f"{policy}:seed={seed}").apply(corpus)
    assert len({item.id for item in outcome.items}) == len(outcome.items)
    assert {item.source for item in outcome.items} | set(outcome.left_out) == set(range(len(corpus.captions)))
    assert outcome.changed_rate == 1.0
    for item in outcome.items:
        original = corpus.captions[item.source]
        start, end = item.change["span"]
        assert original.text[start:end] == item.change["word"]
        assert item.id == f"{original.id}@{policy}:seed={seed}"
        assert restored(item, original.text) == original.text
        assert json.loads(json.dumps(item.change)) == dict(item.change)
        assert item.change["policy"] == policy


@pytest.mark.parametrize("policy", POLICIES)
def test_captions_without_a_noun_are_left_out_with_the_reason(policy: str) -> None:
    corpus = caption_corpus(
        ("a dog on the beach",), ("",), ("?!... --- ,,,",), ("running quickly and very happily",)
    )
    outcome = make_variant(policy).apply(corpus)
    assert [item.source for item in outcome.items] == [0]
    assert outcome.left_out == {1: NO_NOUN, 2: NO_NOUN, 3: NO_NOUN}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_corpus_that_cannot_be_changed_is_an_error(policy: str) -> None:
    with pytest.raises(InputError, match=r"changed rate 0: it makes no item \(no noun: 2 captions\)"):
        make_variant(policy).apply(caption_corpus(("",), ("very happily",)))


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(len(PLAIN + ODD))), keep=st.integers(6, 18), seed=st.integers(0, 2))
@pytest.mark.parametrize("policy", POLICIES)
def test_items_depend_on_seed_and_id_but_not_on_order_or_company(
    policy: str, order: list[int], keep: int, seed: int
) -> None:
    corpus = caption_corpus(*((text,) for text in PLAIN + ODD))
    kept = tuple(corpus.captions[row] for row in order if row < keep)
    variant = make_variant(f"{policy}:seed={seed}")
    first = {item.id: (item.content, item.change) for item in variant.apply(corpus).items}
    for item in variant.apply(replace(corpus, captions=kept)).items:
        assert (item.content, item.change) == first[item.id]


def test_seeds_differ_and_policies_of_one_seed_choose_the_same_word() -> None:
    corpus = caption_corpus(*((text,) for text in PLAIN))
    chosen = [
        [item.change["span"] for item in make_variant(f"{policy}:seed=5").apply(corpus).items]
        for policy in POLICIES
    ]
    assert chosen[0] == chosen[1] == chosen[2]
    texts = {
        tuple(item.content for item in make_variant(f"rand_voca:seed={s}").apply(corpus).items)
        for s in range(4)
    }
    assert len(texts) == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_captions_that_repeat_a_text_draw_their_own_word_and_target(policy: str) -> None:
    corpus = caption_corpus(*(("a dog and a cup on the beach",) for _ in range(60)))
    changes = [item.change for item in make_variant(policy).apply(corpus).items]
    words = [change["lemma"] for change in changes]
    assert all(words.count(word) > 8 for word in ("dog", "cup", "beach"))
    assert len({change["target"] for change in changes}) > 40


def group_names(lemma: str) -> set[str]:
    return {group.name for group in default_concepts().groups_of(lemma)}


@pytest.mark.parametrize("seed", range(8))
def test_same_concept_shares_a_group_and_diff_concept_shares_none(seed: int) -> None:
    corpus = caption_corpus(*((text,) for text in PLAIN))
    for item in make_variant(f"same_concept:seed={seed}").apply(corpus).items:
        assert set(item.change["groups"]) & set(item.change["target_groups"])
        assert item.change["target_lemma"] not in default_concepts().alike(item.change["lemma"])
        assert set(item.change["target_groups"]) == group_names(item.change["target_lemma"])
    for item in make_variant(f"diff_concept:seed={seed}").apply(corpus).items:
        assert item.change["groups"]
        assert item.change["target_groups"]
        assert not set(item.change["groups"]) & group_names(item.change["target_lemma"])


@pytest.mark.parametrize("policy", ["same_concept", "diff_concept"])
def test_number_carries_over(policy: str) -> None:
    corpus = caption_corpus(
        *((f"two {noun} here",) for noun in ("dogs", "women", "buses", "knives", "children"))
    )
    concepts = default_concepts()
    for seed in range(6):
        for item in make_variant(f"{policy}:seed={seed}").apply(corpus).items:
            lemma = item.change["target_lemma"]
            plural = any(lemma in group.plural for group in concepts.groups_of(lemma))
            assert item.change["target"] == (lemma if plural else pluralise(lemma))


def test_near_synonyms_general_words_and_mass_nouns_are_not_put_where_they_do_not_fit() -> None:
    corpus = caption_corpus(("a dog",), ("a couch",), ("an apple",), ("some rice",))
    mass = {lemma for group in default_concepts().groups for lemma in group.mass}
    for seed in range(150):
        dog, couch, apple, rice = (
            item.change for item in make_variant(f"same_concept:seed={seed}").apply(corpus).items
        )
        assert dog["target_lemma"] not in {"puppy", "animal", "pet", "dog", "cattle"}
        assert couch["target_lemma"] not in {"sofa", "settee", "furniture", "seat"}
        assert apple["target_lemma"] not in {"rice", "bread", "food", "water"}
        assert rice["target_lemma"] in mass


@pytest.fixture
def few(tmp_path: Path) -> str:
    """The part of a spec that says: two small concept groups."""
    file = tmp_path / "few.json"
    groups = {"x": {"lemmas": ["dog", "cat", "cow"]}, "y": {"lemmas": ["cup", "jar", "pot"]}}
    file.write_text(json.dumps({"groups": groups}))
    return f"concepts={file}"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fake_says_what_no_caption_of_the_corpus_says(policy: str, few: str, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join(["dog", "cat", "cow", "cup", "jar", "pot"]))
    rest = f"{few}:vocabulary={words}" if policy == "rand_voca" else few
    corpus = caption_corpus(
        ("a dog sits there", "A cat sits there ."), ("a cup  sits there",), ("A jar sits there!",)
    )
    for seed in range(30):
        for item in make_variant(f"{policy}:{rest}:seed={seed}").apply(corpus).items:
            assert same_form(str(item.content)) in {"acowsitsthere", "apotsitsthere"}


def test_a_caption_whose_every_fake_is_an_original_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "few.json"
    groups = {"x": {"lemmas": ["dog", "cat"]}, "y": {"lemmas": ["cup", "jar"]}}
    file.write_text(json.dumps({"groups": groups}))
    corpus = caption_corpus(("a dog sits",), ("a cat sits",), ("a cup stands",), ("a horse stands",))
    outcome = make_variant(f"same_concept:concepts={file}").apply(corpus)
    assert [item.content for item in outcome.items] == ["a jar stands"]
    assert outcome.left_out == {0: ONLY_REPEATS, 1: ONLY_REPEATS, 3: NO_TARGET}


def test_random_words_are_letters_and_their_source_is_recorded() -> None:
    vocabulary = default_vocabulary()
    assert len(set(vocabulary.words)) == len(vocabulary.words) == 20_000
    assert all(re.fullmatch("[a-z]{2,17}", word) for word in vocabulary.words)
    (item,) = make_variant("rand_voca").apply(caption_corpus(("a dog",))).items
    assert item.change["vocabulary"] == vocabulary.source
    assert item.change["vocabulary"].startswith("wordfreq ")
    assert item.change["target_lemma"] in set(vocabulary.words)


@given(st.integers(0, 40), st.integers(0, 2**32))
def test_drawing_without_replacement_gives_everything_once(count: int, seed: int) -> None:
    drawn = list(draw_without_replacement(np.random.Generator(np.random.PCG64(seed)), count))
    assert sorted(drawn) == list(range(count))


def test_drawing_without_replacement_is_even() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    orders = [tuple(draw_without_replacement(rng, 3)) for _ in range(3000)]
    assert all(400 < orders.count(order) < 600 for order in set(orders))
    assert len(set(orders)) == 6


def test_the_generator_of_an_item_is_stable_and_keeps_its_parts_apart() -> None:
    assert item_rng(1, "a", "word").integers(10**9) == item_rng(1, "a", "word").integers(10**9)
    keys = [(1, "a", ""), (2, "a", ""), (1, "b", ""), (1, "a", "word"), (11, "a", ""), (1, '1", "a', "")]
    assert len({item_rng(*key).integers(2**60) for key in keys}) == len(keys)
    assert (
        item_rng(7, "caption 1", "word").bit_generator.state["state"]["state"]
        == 94504377523939051955318197071030026461
    )


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("A dog runs", "owl", "An owl runs"),
        ("an owl runs", "dog", "a dog runs"),
        ("AN OWL runs", "dog", "A DOG runs"),
        ("Owl runs", "dog", "Dog runs"),
        ("a  dog", "owl", "an  owl"),
        ("an\tapple", "hour", "an\thour"),
        ("an\napple", "unicorn", "a\nunicorn"),
        ("the dog", "owl", "the owl"),
        ("panda dog", "owl", "panda owl"),
        ("a big dog", "owl", "a big owl"),
    ],
)
def test_case_and_article_agree(text: str, word: str, expected: str) -> None:
    found = re.search(r"(?i)(dog|owl|apple)(?=\W|\Z)", text)
    assert found is not None
    noun = Noun(found[0], found[0].lower(), 0, found.start(), found.end(), False)
    assert replace_noun(text, noun, word) == expected


def test_case_is_taken_from_the_pattern() -> None:
    patterns = ["dog", "Dog", "DOG", "A", "dOG"]
    assert [match_case("cat", p) for p in patterns] == ["cat", "Cat", "CAT", "Cat", "cat"]


def test_an_article_is_seen_over_three_words() -> None:
    text = "near a big old brown dog, the cat"
    dog, cat = (noun for noun in nouns_of([text])[text] if noun.text in ("dog", "cat"))
    assert has_article(text, dog)
    assert not has_article(text, cat)


@given(st.lists(st.text(max_size=30), max_size=4))
@settings(max_examples=40, deadline=None)
def test_nouns_are_words_of_letters_at_their_place(texts: list[str]) -> None:
    for text, nouns in nouns_of(texts).items():
        for noun in nouns:
            assert text[noun.start : noun.end] == noun.text
            assert noun.text.isalpha()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A dog's bed, red.", "a dog 's bed , red"),
        ("I can't  see\n", "i ca n't see"),
        ("ice-cream", "ice cream"),
    ],
)
def test_tokenising_case_and_punctuation_are_no_change(one: str, other: str) -> None:
    assert same_form(one) == same_form(other)


@pytest.mark.parametrize(("one", "other"), [("a dog", "a dot"), ("🐕", "🐈"), ("...", "!!!"), ("كلب", "قط")])
def test_another_word_sign_or_script_is_a_change(one: str, other: str) -> None:
    assert same_form(one) != same_form(other)
