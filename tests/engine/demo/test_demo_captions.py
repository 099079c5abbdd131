from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from engine.demo.captions import CAPTIONS_PER_IMAGE, captions, indefinite, wordings
from engine.demo.scenes import Group, Scene, generator, sample_scene


def sampled(count: int) -> Iterator[tuple[Scene, tuple[str, ...]]]:
    for index in range(count):
        scene = sample_scene("test", 0, index)
        yield scene, captions(scene, generator("test", 0, index, "captions"))


def many(scene: Scene, count: int = 300) -> tuple[str, ...]:
    return tuple(text.lower().rstrip(".") for text in wordings(scene, np.random.default_rng(1), count))


def test_five_different_captions_of_every_scene() -> None:
    for _, texts in sampled(1000):
        assert len(texts) == CAPTIONS_PER_IMAGE == 5
        assert len(set(texts)) == 5
        assert all(text == text.strip() and "  " not in text and " ." not in text for text in texts)


def test_captions_are_a_function_of_seed_and_index() -> None:
    assert list(sampled(50)) == list(sampled(50))


def test_captions_differ_in_length() -> None:
    lengths = np.array([[len(text.split()) for text in texts] for _, texts in sampled(500)])
    assert lengths[:, :3].mean() > 1.3 * lengths[:, 4].mean()


def test_a_and_an() -> None:
    for _, texts in sampled(1000):
        for text in texts:
            for article, word in re.findall(r"\b(an?) ([a-z]+)", text, flags=re.IGNORECASE):
                assert (article.lower() == "an") == (word[0] in "aeiou"), text


@pytest.mark.parametrize(("words", "expected"), [("orange cat", "an orange cat"), ("cat", "a cat")])
def test_indefinite(words: str, expected: str) -> None:
    assert indefinite(words) == expected


def test_numbers_agree_with_nouns() -> None:
    one = many(Scene("beach", "single", (Group("dog", "white", "small", 1),)))
    two = many(Scene("beach", "single", (Group("dog", "white", "small", 2),)))
    assert all(re.search(r"\b(dog|puppy)\b", text) for text in one)
    assert all(re.search(r"\b(dogs|puppies)\b", text) for text in two)
    assert not any(re.search(r"\b(is|stands|waits)\b", text) for text in two if "there is" not in text)
    assert not any(re.search(r"\b(are|stand|wait)\b", text) for text in one)


def test_there_is_and_there_are() -> None:
    for _, texts in sampled(1000):
        for text in texts:
            found = re.search(r"there (is|are) (\w+) (\w+)", text.lower())
            if found:
                verb, first, second = found.groups()
                several = first not in ("a", "an", "one") or second in ("pair", "couple", "group")
                assert (verb == "are") == several, text


def test_full_captions_say_everything() -> None:
    scene = Scene("desert", "row", (Group("dog", "red", "small", 2), Group("bus", "white", "large", 3)))
    for seed in range(100):
        for text in captions(scene, np.random.default_rng(seed))[:3]:
            for words in (r"red", r"white", r"small|little|tiny", r"large|big|huge", r"two|pair|couple",
                          r"three", r"dogs|puppies", r"buses", r"desert|sand"):  # fmt: skip
                assert re.search(rf"\b({words})\b", text.lower()), text


def test_left_and_right_follow_the_scene() -> None:
    texts = many(Scene("snow", "row", (Group("apple", "red", "small", 1), Group("bus", "blue", "large", 1))))
    told = [text for text in texts if re.search(r"\b(left|right)\b", text)]
    assert len(told) > 150
    for text in told:
        assert (text.index("apple") < text.index("bus")) == ("left" in text), text


@pytest.mark.parametrize(
    ("layout", "forwards", "backwards"),
    [
        ("depth", ("in front of",), ("behind",)),
        ("on", (" on ",), ("under", "beneath")),
        ("above", ("above", " over "), ("below", "under", "beneath")),
    ],
)
def test_relations_follow_the_scene(
    layout: str, forwards: tuple[str, ...], backwards: tuple[str, ...]
) -> None:
    groups = (Group("bird", "red", "small", 1), Group("table", "blue", "large", 1))
    told = 0
    for text in many(Scene("room", layout, groups)):  # type: ignore[arg-type]
        first, second = sorted(("bird", "table"), key=text.index)
        between = text[text.index(first) : text.index(second)]
        if any(word in between for word in (*forwards, *backwards)):
            told += 1
            assert any(word in between for word in (forwards if first == "bird" else backwards)), text
            assert not any(word in between for word in (backwards if first == "bird" else forwards)), text
    assert told > 150


def test_people_wear_their_colour() -> None:
    texts = many(Scene("street", "single", (Group("woman", "orange", "large", 1),)))
    coloured = [text for text in texts if "orange" in text]
    assert len(coloured) > 150
    assert all("an orange dress" in text for text in coloured)


def test_a_vocabulary_of_a_few_hundred_words() -> None:
    everything = " ".join(text for _, texts in sampled(1000) for text in texts).lower()
    words = set(re.findall(r"[a-z]+", everything))
    assert 200 <= len(words) <= 600


def test_wordings_are_drawn_in_turn_from_the_same_kinds() -> None:
    scene = sample_scene("train", 0, 0)
    texts = wordings(scene, np.random.default_rng(0), 40)
    assert len(texts) == 40
    assert len(set(texts)) > 30
