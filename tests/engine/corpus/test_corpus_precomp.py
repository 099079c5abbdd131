"""Precomputed caption and id files give back what was written in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.corpus.read import load_corpus, read_corpus
from engine.errors import InputError

counts = st.lists(st.integers(1, 6), min_size=1, max_size=6)


def write(folder: Path, captions: list[str], ids: list[str]) -> Path:
    (folder / "test_ids.txt").write_text("\n".join(ids) + "\n")
    path = folder / "test_caps.txt"
    path.write_text("\n".join(captions) + "\n", encoding="utf-8")
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=counts)
def test_an_id_a_caption_gives_any_number_of_captions_an_image(tmp_path: Path, counts: list[int]) -> None:
    ids = [str(100 + i) for i, count in enumerate(counts) for _ in range(count)]
    captions = [f"caption {n} ." for n in range(len(ids))]

    corpus = read_corpus(write(tmp_path, captions, ids))

    assert [image.id for image in corpus.images] == [str(100 + i) for i in range(len(counts))]
    assert [caption.text for caption in corpus.captions] == captions
    assert [len(rows) for rows in corpus.captions_of_image] == counts
    assert [corpus.images[caption.image].id for caption in corpus.captions] == ids


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images=st.integers(1, 5), each=st.integers(2, 6))
def test_an_id_an_image_gives_equal_captions_to_each(tmp_path: Path, images: int, each: int) -> None:
    captions = [f"caption {n} ." for n in range(images * each)]
    corpus = read_corpus(write(tmp_path, captions, [str(i) for i in range(images)]))
    assert corpus.image_of_caption.tolist() == [n // each for n in range(images * each)]
    assert corpus.captions[-1].id == f"{images - 1}#{each - 1}"


def test_white_space_around_a_caption_is_taken_off_as_published(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path, ["  a dog . \r", "a cat ."], ["1", "2"]))
    assert [caption.text for caption in corpus.captions] == ["a dog .", "a cat ."]


def test_the_files_of_vse_infinity_come_from_its_mapping(tmp_path: Path) -> None:
    (tmp_path / "precomp").mkdir()
    (tmp_path / "id_mapping.json").write_text(json.dumps({"1": "val2014/a.jpg"}))
    corpus = read_corpus(write(tmp_path / "precomp", ["a dog .", "a cat ."], ["1", "2"]))
    assert [image.file for image in corpus.images] == ["val2014/a.jpg", "2"]


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, ["a", "b", "c"], ["1", "2"])
    with pytest.raises(InputError, match=r"test_ids\.txt: 2 ids for 3 captions"):
        read_corpus(path)
    with pytest.raises(InputError, match=r"test_ids\.txt: line 3: image id '1' is there already \(line 1\)"):
        read_corpus(write(tmp_path, ["a", "b", "c"], ["1", "2", "1"]))
    with pytest.raises(InputError, match=r"test_ids\.txt: line 2"):
        read_corpus(write(tmp_path, ["a", "b"], ["1", " "]))
    (tmp_path / "id_mapping.json").write_text(json.dumps({"1": "../out.jpg"}))
    with pytest.raises(InputError, match="leads out of the image folder"):
        read_corpus(write(tmp_path, ["a"], ["1"]))
    (tmp_path / "test_ids.txt").unlink()
    with pytest.raises(InputError, match=r"test_ids\.txt: no such file"):
        read_corpus(path)
    (tmp_path / "plain.txt").write_text("a dog .\n")
    with pytest.raises(InputError, match=r"expected a file named <split>_caps\.txt"):
        read_corpus(tmp_path / "plain.txt", reader="precomp")


@pytest.mark.published
def test_every_published_caption_file_has_five_captions_an_image(published_data: Path) -> None:
    files = sorted((published_data / "scan").glob("*_caps.txt"))
    if not files:
        pytest.skip("no caption files of SCAN")
    for path in files:
        loaded = load_corpus(path)
        assert loaded.reader == "precomp"
        assert {len(rows) for rows in loaded.corpus.captions_of_image} == {5}
        assert len(loaded.corpus.captions) == len(path.read_text("utf-8").splitlines())
