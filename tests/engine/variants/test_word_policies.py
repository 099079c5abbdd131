"""danger, delete_*, substitute:N, words=all, mode=paper: each by its rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.corpus.corpus import Corpus
from engine.corpus.wording import same_form
from engine.errors import InputError
from engine.variants.concept_targets import ConceptTargets, PublishedConceptTargets
from engine.variants.concepts import ADDED_GROUPS, default_concepts
from engine.variants.families.danger import KINDS
from engine.variants.families.deletion import ONLY_NOUN, ONLY_REPEATS
from engine.variants.families.same_concept import own_groups
from engine.variants.families.substitute import replace_all
from engine.variants.inflection import pluralise
from engine.variants.nouns import Noun, nouns_of, plain_words_of, words_of
from engine.variants.registry import make_variant
from engine.variants.substitution import NO_NOUN, STAYS, Target
from engine.variants.substitution import ONLY_REPEATS as ONLY_REPEATS_OF_TARGETS
from engine.variants.vocabulary import default_vocabulary

PLAIN = (
    "A small red umbrella left of two white dogs on the beach.",
    "An old man rides a motorcycle down a dirt road",
    "Three zebras and an elephant near the water",
    "a plate of pasta with broccoli and cheese",
    "Two women sit at a table with laptops.",
    "The CLOCK on the tower shows noon",
    "A man's dog chases a dog.",
    "running very happily",
    "",
)
MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def corpus(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus(PLAIN)


# ---------------------------------------------------------------- danger


@pytest.mark.parametrize("seed", range(4))
def test_danger_is_of_the_kind_and_the_number_of_the_noun(seed: int, make_corpus: MakeCorpus) -> None:
    nouns = {"man": 0, "women": 0, "kitchen": 1, "beaches": 1, "umbrella": 2, "dogs": 2}
    corpus = make_corpus([f"the {noun} here" for noun in nouns])
    items = make_variant(f"danger:seed={seed}").apply(corpus).items
    for item, (noun, kind) in zip(items, nouns.items(), strict=True):
        plural = noun in ("women", "beaches", "dogs")
        words = [pluralise(word) if plural else word for word in KINDS[kind].targets]
        assert item.change["word"] == noun
        assert item.change["target"] in words
        assert item.content == f"the {item.change['target']} here"
        assert item.change["target_groups"] == ["danger"]


def test_danger_has_fourteen_words_and_never_says_what_may_be_true(make_corpus: MakeCorpus) -> None:
    assert sum(len(kind.targets) for kind in KINDS) == 14
    true = sorted(word for kind in KINDS for word in (*kind.true, *kind.targets))
    outcome = make_variant("danger").apply(make_corpus(["a kettle", *(f"the {word}" for word in true)]))
    assert {item.source for item in outcome.items} <= {0}.union(
        row for row, word in enumerate(true, 1) if not nouns_of([f"the {word}"])[f"the {word}"]
    )
    assert outcome.items[0].source == 0


def test_danger_as_published_keeps_case_and_stop_and_has_three_words(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["A man, here.", "The Beach's sand.", "One kettle and kettles"])
    items = make_variant("danger:mode=paper:seed=1").apply(corpus).items
    allowed = (
        {"A criminal , here ."},
        {"The minefield 's sand .", "The Beach 's weapon .", "The Beach 's minefield ."},
        {"One weapon and weapons", "One kettle and weapon"},
    )
    for item, texts in zip(items, allowed, strict=True):
        assert item.content in texts
        assert item.change["mode"] == "paper"


# ---------------------------------------------------------------- deletion


@pytest.mark.parametrize("family", ["delete_random", "delete_low_ei", "delete_high_ei"])
def test_deletion_takes_one_noun_with_one_gap(family: str, corpus: Corpus, make_influence: Any) -> None:
    outcome = bound(family, make_influence).apply(corpus)
    assert outcome.left_out == {7: NO_NOUN, 8: NO_NOUN}
    for item in outcome.items:
        text = corpus.captions[item.source].text
        start, end = item.change["span"]
        assert (start, end) in {(noun.start, noun.end) for noun in nouns_of([text])[text]}
        assert item.change["word"] == text[start:end]
        gap = text[:start].rstrip()
        assert item.content == (gap + text[end:] if gap else text[end:].lstrip())


def bound(spec: str, make_influence: Any) -> Any:
    """The variant, with an encoder where it chooses by influence."""
    from engine.variants.influence_binding import bind_influence, chooses_by_influence

    variant = make_variant(spec)
    return bind_influence([variant], make_influence()[0] if chooses_by_influence(variant) else None)[0]


def test_without_encoders_the_error_says_how_to_have_them(corpus: Corpus) -> None:
    for spec in ("delete_low_ei", "rand_voca:choice=high_ei"):
        with pytest.raises(InputError, match=r"variants make --influence MODEL` and take file:PATH"):
            make_variant(spec).apply(corpus)


def test_deletion_of_the_lowest_and_the_highest_differs_and_is_recorded(
    corpus: Corpus, make_influence: Any
) -> None:
    low = bound("delete_low_ei", make_influence).apply(corpus)
    high = bound("delete_high_ei", make_influence).apply(corpus)
    for one, other in zip(low.items, high.items, strict=True):
        values = {tuple(word["span"]): word["ei"][0] for word in one.change["candidates"]}
        assert values == {tuple(word["span"]): word["ei"][0] for word in other.change["candidates"]}
        assert values[tuple(one.change["span"])] == min(values.values())
        assert values[tuple(other.change["span"])] == max(values.values())
        assert one.content != other.content or len(values) == 1
        assert one.change["encoders"] == [low.made_with["influence"]["encoders"][0]["fingerprint"][:12]]


def test_deletion_leaves_a_caption_of_its_own(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["dog", "dog!", "a dog runs", "a runs", "a man and a dog", "a man and a"])
    outcome = make_variant("delete_random").apply(corpus)
    assert outcome.left_out[0] == outcome.left_out[1] == ONLY_NOUN
    assert outcome.left_out[2] == ONLY_REPEATS
    texts = {item.source: item.content for item in outcome.items}
    assert texts[4] == "a and a dog"


def test_delete_random_takes_the_noun_that_same_concept_replaces(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus([text for text in PLAIN if nouns_of([text])[text]])
    for seed in range(5):
        spans = [
            [item.change["span"] for item in make_variant(f"{family}:seed={seed}").apply(corpus).items]
            for family in ("delete_random", "same_concept", "danger")
        ]
        assert spans[0] == spans[1] == spans[2]


# ---------------------------------------------------------------- substitute:N


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_so_many_words_become_words_of_the_vocabulary(count: int, seed: int, corpus: Corpus) -> None:
    outcome = make_variant(f"substitute:{count}:seed={seed}").apply(corpus)
    words = set(default_vocabulary().words)
    assert outcome.left_out[8] == f"fewer than {count} words"
    for item in outcome.items:
        text = corpus.captions[item.source].text
        replaced = item.change["replaced"]
        assert len(replaced) == len({tuple(one["span"]) for one in replaced}) == count
        found = {(word.start, word.end): word for word in plain_words_of([text])[text]}
        for one in replaced:
            assert tuple(one["span"]) in found
            assert one["target"].lower() in words
            assert one["target"].lower() != one["word"].lower()
        kept = [w for w in found if list(w) not in [one["span"] for one in replaced]]
        for start, end in kept:
            assert text[start:end] in str(item.content)
        assert same_form(str(item.content)) != same_form(text)
        assert item.changed


def test_several_words_keep_case_and_article_and_all_else_byte_for_byte() -> None:
    text = "An OLD  man, a dog\nruns."
    words = {word.text: word for word in plain_words_of([text])[text]}
    assert set(words) == {"OLD", "man", "dog", "runs"}
    drawn = [(words[one], Target(to, to)) for one, to in (("OLD", "pub"), ("man", "eye"), ("dog", "owl"))]
    assert replace_all(text, drawn) == "A PUB  eye, an owl\nruns."


def test_all_words_of_a_caption_are_drawn_and_with_every_seed_others(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["an old man rides slowly down the dirt road"])
    drawn = set()
    for seed in range(40):
        (item,) = make_variant(f"substitute:2:seed={seed}").apply(corpus).items
        drawn |= {one["word"] for one in item.change["replaced"]}
    assert drawn == {"old", "man", "rides", "slowly", "down", "the", "dirt", "road"}


def test_several_words_never_make_another_caption(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("cat\ndog\ncow\n")
    corpus = make_corpus(["dog dog", "Cat cat", "cow cow.", "cat cow"])
    for seed in range(10):
        outcome = make_variant(f"substitute:2:vocabulary={file}:seed={seed}").apply(corpus)
        assert {item.source: item.content for item in outcome.items}[0] == "cow cat"
    file.write_text("dog\ndogs\ncat\n")
    outcome = make_variant(f"substitute:2:vocabulary={file}").apply(
        make_corpus(["dog dog", "cat cat", "owl owl"])
    )
    assert outcome.left_out == {0: ONLY_REPEATS_OF_TARGETS}


# ---------------------------------------------------------------- words=all


def test_all_words_are_nouns_and_the_modifiers_of_the_added_groups() -> None:
    text = "One small red umbrella left of two quickly running dogs in the light"
    all_words = words_of([text], "all", default_concepts())[text]
    assert [word.text for word in all_words if word.modifier] == ["red", "two"]
    assert [word for word in all_words if not word.modifier] == [*nouns_of([text])[text]]
    assert [word.start for word in all_words] == sorted(word.start for word in all_words)
    assert words_of([text], "nouns", default_concepts())[text] == nouns_of([text])[text]


@pytest.mark.parametrize("seed", range(12))
def test_a_modifier_is_replaced_within_the_added_groups(seed: int, make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["very red", "an orange", "orange and happy", "two and two"])
    groups = {group.name: set(group.lemmas) for group in default_concepts().groups}
    added = set().union(*(groups[name] for name in ADDED_GROUPS))
    same = make_variant(f"same_concept:words=all:seed={seed}").apply(corpus).items
    for item in same:
        change = item.change
        if change["word"] in ("red", "two"):
            name = {"red": "color", "two": "number"}[change["word"]]
            assert change["groups"] == [name]
            assert change["target"] in groups[name] - {change["word"], "one", "hundred", "thousand"}
    assert {"red", "two"} <= {item.change["word"] for item in same}
    for item in make_variant(f"diff_concept:words=all:seed={seed}").apply(corpus).items:
        if item.change["word"] in ("red", "two"):
            assert item.change["target_lemma"] in added
            assert not set(item.change["target_groups"]) & set(item.change["groups"])


def test_an_orange_cat_is_no_food() -> None:
    text = "an orange cat"
    word = Noun("orange", "orange", 1, 3, 9, False, modifier=True)
    noun = Noun("orange", "orange", 1, 3, 9, False)
    colors = next(group for group in default_concepts().groups if group.name == "color")
    for kind in (ConceptTargets, PublishedConceptTargets):
        targets = kind(default_concepts(), own_groups, foreign=False)
        assert targets.source_groups(word) == ("color",)
        assert {target.lemma for target in targets.pool(word, text)} == set(colors.lemmas)
        assert targets.source_groups(noun) == ("food", "color")
        assert "apple" in {target.lemma for target in targets.pool(noun, text)}


# ---------------------------------------------------------------- mode=paper


@pytest.mark.parametrize("policy", ["same_concept", "diff_concept", "rand_voca"])
def test_as_published_is_lower_case_tokens_and_a_plain_replacement(
    policy: str, make_corpus: MakeCorpus
) -> None:
    corpus = make_corpus(["A Man's dog, men and a DOG.", "The doghouse of a dog!"])
    paper = "mode=paper:vocabulary=wordfreq" if policy == "rand_voca" else "mode=paper"
    for seed in range(20):
        first, second = make_variant(f"{policy}:{paper}:seed={seed}").apply(corpus).items
        word, target = first.change["word"].lower(), first.change["target"]
        assert target == target.lower()
        assert first.content == "a man 's dog , men and a dog".replace(word, target)
        word, target = second.change["word"].lower(), second.change["target"]
        assert second.content == "the doghouse of a dog !".replace(word, target)
        assert second.change["span"][1] <= len(corpus.captions[1].text)


def test_as_published_takes_either_number_and_near_synonyms(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    file = tmp_path / "few.json"
    groups = {"x": {"lemmas": ["couch", "sofa", "bed", "furniture"], "general": ["furniture"]}}
    file.write_text(json.dumps({"groups": groups, "interchangeable": [["couch", "sofa"]]}))
    corpus = make_corpus(["a couch"])
    seen = set()
    for seed in range(80):
        (item,) = make_variant(f"same_concept:mode=paper:concepts={file}:seed={seed}").apply(corpus).items
        seen.add(item.content)
    assert seen == {"a couches", "a sofa", "a sofas", "a bed", "a beds", "a furniture"}


def test_what_the_published_rule_leaves_as_it_is_is_listed_as_unchanged(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["a weapon.", "a man here"])
    first, second = make_variant("danger:mode=paper").apply(corpus).items
    assert (first.content, first.changed, first.change["unchanged"]) == ("a weapon .", False, STAYS)
    assert second.changed
    assert "unchanged" not in second.change
