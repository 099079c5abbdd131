"""The published captions as a variant: the right corpus, no-ops, and the words that were replaced."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.corpus import read_corpus
from engine.errors import InputError
from engine.variants.registry import make_variant
from engine.variants.variant import VariantItems
from engine.variants.word_diff import Replacement, replaced_words

ORIGINALS = ["A dog's bed, red. ", "Two cats sit.", "a bird", "The old boat on a lake.", "A red bus"]
FAKES = ["a dog 's lamp , red", "two cats sit", "a fish", "the old boat on a lake", "a red cow"]


def entry(image: str, captions: list[str]) -> dict[str, Any]:
    return {"image": image, "caption": captions}


def write(path: Path, entries: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture
def rococo(tmp_path: Path) -> Path:
    return write(
        tmp_path / "my:set.json",
        [entry("a.jpg", ORIGINALS + FAKES), entry("b.jpg", [*ORIGINALS, "A sixth one", *FAKES])],
    )


def originals(tmp_path: Path, entries: list[dict[str, Any]]) -> Path:
    return write(tmp_path / "originals.json", entries)


def apply(
    rococo: Path, corpus_file: Path, normalisation: str = "raw", reader: str | None = None
) -> VariantItems:
    corpus = read_corpus(corpus_file, normalisation=normalisation, reader=reader)
    return make_variant(f"rococo:{rococo}").apply(corpus)


def test_items_follow_the_file_and_a_sixth_original_is_left_out(rococo: Path) -> None:
    outcome = apply(rococo, rococo, reader="rococo")
    assert [item.source for item in outcome.items] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [item.content for item in outcome.items] == FAKES * 2
    assert list(outcome.left_out) == [10]
    assert len({item.id for item in outcome.items}) == 10
    assert all(item.id.endswith("@rococo:my:set") for item in outcome.items)


def test_items_say_which_file_they_are_of_by_its_bytes(rococo: Path) -> None:
    digest = hashlib.sha256(rococo.read_bytes()).hexdigest()
    outcome = apply(rococo, rococo, reader="rococo")
    assert {(item.change["file"], item.change["sha256"]) for item in outcome.items} == {
        ("my:set.json", digest)
    }


def test_tokenising_alone_is_no_change(rococo: Path) -> None:
    outcome = apply(rococo, rococo, reader="rococo")
    assert [item.changed for item in outcome.items] == [True, False, True, False, True] * 2
    assert outcome.changed_rate == 0.6
    words = [
        [(r["source"], r["target"], r["position"]) for r in i.change["replaced"]] for i in outcome.items[:5]
    ]
    assert words == [[("bed", "lamp", 3)], [], [("bird", "fish", 1)], [], [("bus", "cow", 2)]]


def test_the_list_of_originals_does_as_well_as_the_file_itself(rococo: Path, tmp_path: Path) -> None:
    alone = originals(tmp_path, [entry("a.jpg", ORIGINALS), entry("b.jpg", [*ORIGINALS, "A sixth one"])])
    assert apply(rococo, alone, reader="blip") == apply(rococo, rococo, reader="rococo")


def test_the_normalisation_of_the_corpus_is_applied_to_the_fakes(rococo: Path) -> None:
    outcome = apply(rococo, rococo, "pre_caption", reader="rococo")
    assert outcome.items[0].content == "a dog 's lamp , red"
    assert [item.changed for item in outcome.items[:5]] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("a.jpg", ORIGINALS), entry("c.jpg", ORIGINALS)], "image 1 is 'b.jpg'; expected 'c.jpg'"),
        (
            [entry("a.jpg", ORIGINALS), entry("b.jpg", [*ORIGINALS[:4], "A red bus.", "A sixth one"])],
            "original caption 9 is 'A red bus' of image 1; expected 'A red bus.' of image 1",
        ),
        ([entry("a.jpg", ORIGINALS)], "2 images; expected 1"),
        ([entry("a.jpg", ORIGINALS), entry("b.jpg", ORIGINALS)], "11 original captions; expected 10"),
        (
            [entry("a.jpg", [*ORIGINALS, "A dog's bed, red. "]), entry("b.jpg", ORIGINALS)],
            'original caption 5 is "A dog\'s bed, red. " of image 1; '
            'expected "A dog\'s bed, red. " of image 0',
        ),
    ],
)
def test_another_corpus_is_refused_with_the_first_difference(
    rococo: Path, tmp_path: Path, entries: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        apply(rococo, originals(tmp_path, entries), reader="blip")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    same = write(tmp_path / "same.json", [entry("a.jpg", ORIGINALS * 2)])
    with pytest.raises(InputError, match="changed rate 0: all 5 items equal their originals"):
        apply(same, same, reader="rococo")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("A man's hat .", "a cow 's hat", [("man", "cow", 1)]),
        ("I can't see the dog", "i ca n't see the cat", [("dog", "cat", 5)]),
        ("dog by dog", "cat by cat", [("dog", "cat", 0), ("dog", "cat", 2)]),
        ("a cloud-wreathed hill", "a cloud-wreathed cow", [("hill", "cow", 2)]),
        ("a dog", "a land mine", [("dog", "land mine", 1)]),
        ("a big dog", "a dog", [("big", "", 1)]),
        ("a dog", "A dog.", []),
        ("", "", []),
    ],
)
def test_replaced_words_are_read_off(before: str, after: str, expected: list[tuple[str, str, int]]) -> None:
    assert replaced_words(before, after) == tuple(Replacement(*change) for change in expected)


@pytest.mark.published
@pytest.mark.parametrize(("normalisation", "changed"), [("raw", 25_000), ("pre_caption", 24_999)])
def test_the_published_words_are_found_again(published_data: Path, normalisation: str, changed: int) -> None:
    folder = published_data / "rococo"
    corpus = read_corpus(folder / "coco_karpathy_test.json", normalisation=normalisation)
    derived = json.loads((folder / "derived_replacements.json").read_text())
    outcome = make_variant(f"rococo:{folder / 'same_concept.json'}").apply(corpus)
    assert (len(outcome.items), len(outcome.left_out)) == (25_000, 10)
    assert sum(item.changed for item in outcome.items) == changed  # one word lies beyond pre_caption's 30th
    agreeing = explained = 0
    for item, pair in zip(outcome.items, derived["same_concept"], strict=True):
        found = {(r["source"], r["target"]) for r in item.change["replaced"]}
        explained += pair is not None and pair[0] is not None
        agreeing += pair is not None and found == {tuple(pair)}
    assert agreeing / explained > (0.99 if normalisation == "raw" else 0.98)
