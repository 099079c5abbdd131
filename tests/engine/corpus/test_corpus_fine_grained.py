"""The fine-grained sets: an object of lists of texts, and what is no such thing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus import load_corpus
from engine.errors import InputError

KEYS = st.text("abcdefghij0123456789_", min_size=1, max_size=12)
CAPTIONS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")), min_size=1, max_size=7
)


@settings(max_examples=50)
@given(content=st.dictionaries(KEYS, CAPTIONS, min_size=1, max_size=6))
def test_everything_is_read_in_order(
    content: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fg") / "set.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    loaded = load_corpus(path)
    assert loaded.reader == "fine_grained"
    corpus = loaded.corpus
    assert [image.id for image in corpus.images] == list(content)
    assert [image.file for image in corpus.images] == [f"{key}.jpg" for key in content]
    assert [(c.id, c.text, c.image) for c in corpus.captions] == [
        (f"{key}#{k}", text, row)
        for row, (key, texts) in enumerate(content.items())
        for k, text in enumerate(texts)
    ]


def test_a_key_that_is_a_file_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('{"a.png": ["x"], "b.JPG": ["y"], "c.d": ["z"]}')
    assert [image.file for image in load_corpus(path).corpus.images] == ["a.png", "b.JPG", "c.d.jpg"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": ["x"], "b": []}', "key 'b': found an empty list; expected a list with at least one caption"),
        ('{"a": ["x"], "b": "y"}', "key 'b': found text"),
        ('{"a": ["x", 3]}', r"key 'a': caption 1 is a number \(3\); expected text"),
        ('{"a": ["x"], "../b": ["y"]}', "key '../b' leads out of the image folder"),
        ('{"/etc/passwd": ["y"]}', "leads out of the image folder"),
        ('{"": ["y"]}', "is empty; expected the file of an image"),
        ("{}", "expected an object with at least one key"),
        ("[1]", "expected an object"),
        ('{"a": ["x"', "not valid JSON"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        load_corpus(path, reader="fine_grained")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ['{"images": [], "x": 1}', '{"a": [1]}', "{}", '{"a": "b"}'])
def test_other_objects_are_not_taken_for_one(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(content)
    with pytest.raises(InputError, match="no corpus"):
        load_corpus(path)


@pytest.mark.published
@pytest.mark.parametrize(("file", "images"), [("MSCOCO_FG_ann.json", 5000), ("Flickr30K_FG_ann.json", 1000)])
def test_the_published_sets_are_recognised(published_data: Path, file: str, images: int) -> None:
    path = published_data / "fg" / file
    if not path.is_file():
        pytest.skip(f"no {file}")
    loaded = load_corpus(path)
    assert loaded.reader == "fine_grained"
    assert len(loaded.corpus.images) == images
    assert len(loaded.corpus.captions) == 5 * images
