"""The concept file: what ours holds, and what a user's file may hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from engine.corpus.corpus import Corpus
from engine.demo.scenes import NOUNS
from engine.errors import InputError
from engine.variants.audit.meaning import is_near_synonym, is_wider
from engine.variants.concepts import LARGEST_FILE, default_concepts, load_concepts, parse_concepts
from engine.variants.registry import make_variant
from engine.variants.wordnet import open_wordnet

ADDED_SIZES = {
    "material": 32, "color": 28, "direction": 50, "vehicle_part": 12, "shape": 15, "event": 11, "number": 14,
}  # fmt: skip


def test_ours_has_24_groups_and_the_7_added_ones_of_the_published_sizes() -> None:
    sizes = {group.name: len(group.lemmas) for group in default_concepts().groups}
    assert {name: sizes[name] for name in ADDED_SIZES} == ADDED_SIZES
    assert len(sizes) == 24 + len(ADDED_SIZES)
    assert {"food", "people", "places", "animal"} <= set(sizes)
    assert min(size for name, size in sizes.items() if name not in ADDED_SIZES) >= 50


def test_every_noun_of_the_demo_has_a_group() -> None:
    assert [noun for noun in NOUNS if not default_concepts().groups_of(noun)] == []


def test_a_lemma_may_be_in_several_groups() -> None:
    assert {"food", "color"} <= {group.name for group in default_concepts().groups_of("orange")}


def test_every_group_leaves_targets_when_general_words_and_near_synonyms_are_taken_out() -> None:
    concepts = default_concepts()
    for group in concepts.groups:
        for lemma in group.lemmas:
            assert set(group.lemmas) - group.general - concepts.alike(lemma) - {lemma}, (group.name, lemma)


def test_every_interchangeable_and_wider_lemma_is_in_a_group() -> None:
    concepts = default_concepts()
    wider = [{wide, *narrow} for wide, narrow in concepts.wider.items()]
    lists = (*concepts.interchangeable, *wider)
    assert {lemma for lemmas in lists for lemma in lemmas if not concepts.groups_of(lemma)} == set()


@pytest.mark.usefixtures("wordnet")
def test_no_target_of_a_group_is_a_near_synonym_or_a_wider_word_in_wordnet() -> None:
    concepts, reader = default_concepts(), open_wordnet()
    true_of = [
        (group.name, old, new)
        for group in concepts.groups
        for old, new in permutations(group.lemmas, 2)
        if new not in group.general and new not in concepts.alike(old)
        if is_near_synonym(old, new, reader) or is_wider(old, new, reader)
    ]
    assert true_of == []


def test_a_wider_word_never_replaces_a_narrower_one() -> None:
    concepts = parse_concepts(pet(lemmas=["cat", "kitten", "tabby"], wider={"cat": ["kitten"]}), "mine.json")
    assert concepts.alike("kitten") == {"kitten", "cat"}
    assert concepts.alike("cat") == concepts.alike("tabby") == frozenset()


def test_a_users_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"groups": {"pet": {"lemmas": ["cat", "dog"], "general": ["dog"]}}}))
    concepts, read = load_concepts(file)
    (group,) = concepts.groups
    assert (group.name, group.lemmas, group.general) == ("pet", ("cat", "dog"), frozenset({"dog"}))
    assert read.record == {"file": "mine.json", "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(b"\xef\xbb\xbf" + pet().encode())
    concepts, read = load_concepts(file)
    assert concepts == parse_concepts(pet(), "mine.json")
    assert read.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def pet(wider: object = None, **fields: Any) -> str:
    """A concept file of one group."""
    file = {"groups": {"pet": {"lemmas": ["cat", "dog"], **fields}}}
    return json.dumps(file if wider is None else {**file, "wider": wider})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"groups":' * 50_000, "not valid JSON: lists or objects are nested too deeply"),
        ("[]", "mine.json is a list; expected an object"),
        ("{}", "field 'groups' is missing; expected an object"),
        ('{"groups": {}}', "no groups"),
        ('{"groups": {"pet": ["cat", "dog"]}}', "group 'pet' is a list; expected an object"),
        ('{"groups": {"pet": {}}}', "group 'pet', field 'lemmas' is missing; expected a list"),
        (pet(lemma=["cow"]), "group 'pet': unknown field 'lemma'; did you mean 'lemmas'"),
        (pet(lemmas=["cat", "dog", "cat"]), "group 'pet', field 'lemmas': 'cat' is there twice"),
        (pet(lemmas=["cat"]), "group 'pet', field 'lemmas': 1 lemma(s); expected at least 2"),
        (pet(lemmas=["cat", "Dog"]), "'Dog' is not a lemma"),
        (pet(lemmas=["cat", "big dog"]), "'big dog' is not a lemma"),
        (pet(lemmas=["cat", 3]), "3 is not a lemma"),
        (pet(mass=["cow"]), "field 'mass': 'cow' is not among the group's lemmas"),
        (pet(part_of_speech="verb"), "field 'part_of_speech' is 'verb'"),
        (
            '{"groups": {"pet": {"lemmas": ["a", "b"]}, "pet": {"lemmas": ["c", "d"]}}}',
            "'pet' is there twice",
        ),
        ('{"groups": {"pet": {"lemmas": ["a", "b"]}}, "groop": 1}', "unknown field 'groop'"),
        ('{"groups": {"pet": {"lemmas": ["a", "b"]}}, "interchangeable": [["a"]]}', "list 0: 1 lemma(s)"),
        (pet(wider=[["cat", "dog"]]), "field 'wider' is a list; expected an object"),
        (pet(wider={"cat": "dog"}), "field 'wider', 'cat' is a text; expected a list of lemmas"),
        (pet(wider={"cat": []}), "field 'wider', 'cat': 0 lemma(s); expected at least 1"),
        (pet(wider={"Cat": ["dog"]}), "field 'wider': 'Cat' is not a lemma"),
        (
            '{"groups": {"pet": {"lemmas": ["a", "b"]}}, "interchangeable": 3}',
            "'interchangeable' is a number",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_concepts(text, "mine.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "mine.json: no such file; expected a concept file"),
        (b'{"groups": \xff}', "mine.json: byte 11 is not UTF-8; expected a concept file"),
        (b" " * (LARGEST_FILE + 1), "mine.json: more than 4,194,304 bytes; expected a concept file"),
        (b"[" * 100_000, "mine.json: not valid JSON"),
        (b'{"groups": ' + b"9" * 5000 + b"}", "mine.json: not valid JSON"),
        (b'{"groups": {"pet": {"lemmas": ["cat"]}}}', "mine.json: group 'pet', field 'lemmas': 1 lemma(s)"),
        (pet(kind="x").encode(), "mine.json: group 'pet': unknown field 'kind'"),
        (
            pet(lemmas=["cat", "dog", "cat"]).encode(),
            "mine.json: group 'pet', field 'lemmas': 'cat' is there twice",
        ),
    ],
)
@pytest.mark.parametrize("family", ["same_concept", "diff_concept", "rand_voca", "danger", "delete_random"])
def test_a_users_file_that_is_wrong_is_one_line_with_file_and_place(
    family: str, content: bytes | None, message: str, tmp_path: Path, make_corpus: Callable[..., Corpus]
) -> None:
    file = tmp_path / "mine.json"
    if content is not None:
        file.write_bytes(content)
    variant = make_variant(f"{family}:concepts={file}")
    with pytest.raises(InputError) as caught:
        variant.apply(make_corpus(["a cat on a sofa"]))
    assert f"{tmp_path}/{message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_users_groups_decide_and_their_digest_is_recorded(
    tmp_path: Path, make_corpus: Callable[..., Corpus]
) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(pet().encode())
    items = make_variant(f"same_concept:concepts={file}").apply(make_corpus(["a cat", "a horse", "two dogs"]))
    assert [item.content for item in items.items] == ["a dog", "two cats"]
    digest = {"file": "mine.json", "sha256": hashlib.sha256(pet().encode()).hexdigest()}
    assert [item.change["concepts"] for item in items.items] == [digest, digest]
    assert items.made_with == {"concepts": digest}
    assert items.items[0].id == "c0@same_concept:concepts=mine:seed=0"
