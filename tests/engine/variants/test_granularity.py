"""The granularity of captions: features counted by hand, and the published figures that can be exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.main import run
from engine.corpus import read_corpus
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.variants.granularity import (
    EXACT,
    FEATURES,
    TaggedCaption,
    caption_length,
    measure,
    published_table,
    recognise,
    words_per_caption,
)
from engine.variants.wordnet import open_wordnet

TEXTS = (
    "Two small white dogs  run in the red car while a man waits.",
    "three cats on the very old table\n",
    "",
)
COUNTED = {  # by hand; in order of the captions
    "Adjectives": (3, 1, 0),  # small white red; old
    "CPs": (2, 1, 0),  # in while; on
    "Articles": (2, 1, 0),
    "Quantifiers": (1, 1, 0),
    "Caption length": (59, 33, 0),
    "Words per caption": (14, 7, 1),  # a double space makes an empty word; so does an empty caption
}


def corpus_of(*texts: str) -> Corpus:
    captions = tuple(Caption(str(row), text, 0) for row, text in enumerate(texts))
    return Corpus("test", (ImageItem("i", "i.png"),), captions)


def test_features_are_counted_a_caption_and_averaged() -> None:
    measured = measure(corpus_of(*TEXTS), None)
    for name, counts in COUNTED.items():
        assert measured[name] == pytest.approx(sum(counts) / 3), name


def test_without_wordnet_the_concept_features_are_missing() -> None:
    measured = measure(corpus_of(*TEXTS), None)
    assert [name for name, value in measured.items() if value is None] == [
        "Concept depth",
        "Concept diversity",
    ]
    assert list(measured) == [feature.name for feature in FEATURES]


def test_concept_features_by_a_slow_count(wordnet: Path) -> None:
    known = open_wordnet()
    measured = measure(corpus_of("two dogs in a car", "a qwertzuiop"), known)
    depths = [known.depth("dog"), known.depth("car")]
    assert measured["Concept depth"] == pytest.approx(sum(d for d in depths if d is not None) / 2)
    first = len(known.synsets("dogs") | known.synsets("car")) / 2
    second = 0.0  # WordNet does not know the one content word
    assert measured["Concept diversity"] == pytest.approx((first + second) / 2)


def test_progress_counts_every_caption() -> None:
    done: list[int] = []
    measure(corpus_of(*["a dog"] * 2500), None, done.append)
    assert sum(done) == 2500
    assert len(done) == 3


def test_equal_captions_count_each() -> None:
    measured = measure(corpus_of("a big dog", "a big dog", "a dog"), None)
    assert measured["Adjectives"] == pytest.approx(2 / 3)


def test_the_published_table_is_whole() -> None:
    table = published_table()
    assert list(table) == ["MS-COCO", "MS-COCO-FG", "Flickr30k", "Flickr30k-FG"]
    for values in table.values():
        assert list(values) == [feature.name for feature in FEATURES]
    assert table["MS-COCO-FG"]["Caption length"] == 56.38
    for name, values in table.items():
        assert recognise(dict(values)) == name
        assert recognise({**values, EXACT[1]: values[EXACT[1]] + 0.02}) is None


@pytest.mark.published
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("rococo/coco_karpathy_test.json", "MS-COCO"),
        ("fg/MSCOCO_FG_ann.json", "MS-COCO-FG"),
        ("fg/Flickr30K_FG_ann.json", "Flickr30k-FG"),
    ],
)
def test_length_and_words_are_the_published_ones(published_data: Path, file: str, name: str) -> None:
    if not (published_data / file).is_file():
        pytest.skip(f"no {file}")
    captions = [TaggedCaption(c.text, ()) for c in read_corpus(published_data / file).captions]
    measured = {
        EXACT[0]: sum(sum(caption_length(caption)) for caption in captions) / len(captions),
        EXACT[1]: sum(sum(words_per_caption(caption)) for caption in captions) / len(captions),
    }
    for feature in EXACT:
        assert round(measured[feature], 2) == published_table()[name][feature]
    assert recognise(measured) == name


@pytest.mark.published
def test_the_other_features_are_near_the_published_ones(published_data: Path, wordnet: Path) -> None:
    file = published_data / "fg" / "Flickr30K_FG_ann.json"
    if not file.is_file():
        pytest.skip("no Flickr30K_FG_ann.json")
    measured, published = measure(read_corpus(file), open_wordnet()), published_table()["Flickr30k-FG"]
    for feature in ("Adjectives", "Articles", "Quantifiers"):
        assert measured[feature] == pytest.approx(published[feature], abs=0.02)
    assert measured["CPs"] == pytest.approx(published["CPs"], abs=0.1)
    assert measured["Concept depth"] == pytest.approx(published["Concept depth"], abs=1.2)
    assert measured["Concept diversity"] == pytest.approx(published["Concept diversity"], abs=0.6)


def test_the_command_shows_corpora_side_by_side(
    tmp_path: Path, wordnet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").write_text('{"a": ["two dogs in a red car"], "b": ["a man"]}')
    (tmp_path / "two.jsonl").write_text('{"image": "a.jpg", "caption": "three very old cats"}\n')
    assert run(["corpus", "granularity", str(tmp_path / "one.json"), str(tmp_path / "two.jsonl")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    lines = {" ".join(row[1:-2]): row for row in rows}
    assert lines["Adjectives"][-2:] == ["0.50", "1.00"]
    assert lines["Caption length"][-2:] == ["13.00", "19.00"]
    assert "-" not in lines["Concept depth"]


def test_the_command_without_wordnet_says_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "one.json").write_text('{"a": ["two dogs in a red car"]}')
    assert run(["corpus", "granularity", str(tmp_path / "one.json")]) == 0
    out, error = capsys.readouterr()
    assert "--from DIR" in error
    assert [line.split()[-1] for line in out.splitlines() if "Concept" in line] == ["-", "-"]
    assert run(["corpus", "granularity"]) == 2
    assert run(["corpus", "granularity", str(tmp_path / "none.json")]) == 2
