"""The tagging cache: a text is tagged once a process, and once for all with a folder to keep the tags in."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.variants import tagging
from engine.variants.cache import CACHE_VARIABLE
from engine.variants.registry import make_variant
from engine.variants.tagging import CACHE_FILE, Token, pipeline_version, tag

TEXTS = ("Two white dogs run.", "a\n\ncat  's  hat", "", "كلب é 🐕")


@pytest.fixture(autouse=True)
def nothing_tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "_TAGGED", {})
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The texts of every run of the pipeline."""
    seen: list[tuple[str, ...]] = []
    original = tagging._run

    def watch(texts: Sequence[str]) -> Iterator[tuple[str, tagging.Tokens]]:
        if texts:
            seen.append(tuple(texts))
        return original(texts)

    monkeypatch.setattr(tagging, "_run", watch)
    return seen


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "_TAGGED", {})


def test_tokens_stand_at_their_places() -> None:
    for text, tokens in tag(TEXTS).items():
        assert all(text[token.start : token.end] == token.text for token in tokens)
    dogs = tag(TEXTS)[TEXTS[0]][2]
    assert dogs == Token("dogs", "NNS", "dog", 10)
    assert (dogs.is_noun, dogs.is_plural, dogs.is_adjective) == (True, True, False)


def test_thirteen_perturbations_tag_once(runs: list[tuple[str, ...]], wordnet: Path) -> None:
    texts = ("Two white dogs run.", "Two white dogs run.", "A red cat near a big hat")
    captions = tuple(Caption(str(row), text, 0) for row, text in enumerate(texts))
    corpus = Corpus("test", (ImageItem("i", "i.png"),), captions)
    for name in ("shuffle_nouns_and_adj", "shuffle_allbut_nouns_and_adj", "synonym_noun", "synonym_adj"):
        for mode in ("default", "paper"):
            make_variant(f"{name}:mode={mode}").apply(corpus)
    assert runs == [("Two white dogs run.", "A red cat near a big hat")]


def test_the_folder_spares_the_next_process_the_pipeline(
    runs: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    first = tag(TEXTS)
    forget(monkeypatch)
    monkeypatch.setattr(tagging, "_pipeline", lambda: pytest.fail("the pipeline was loaded"))
    assert tag(TEXTS) == first
    assert runs == [TEXTS]
    assert (folder / CACHE_FILE).is_file()


def test_only_new_texts_are_tagged(
    runs: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    tag(["a dog"])
    forget(monkeypatch)
    assert list(tag(["a cat", "a dog"])) == ["a cat", "a dog"]
    assert runs == [("a dog",), ("a cat",)]


def test_another_pipeline_has_its_own_tags(
    runs: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    tag(["a dog"])
    forget(monkeypatch)
    monkeypatch.setattr(tagging, "pipeline_version", lambda: "another 1.0")
    tag(["a dog"])
    assert runs == [("a dog",), ("a dog",)]


def test_without_the_variable_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    tag(["a dog"])
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("damage", ["text", "cut", "row", "folder"])
def test_a_damaged_cache_is_named(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    path = tmp_path / CACHE_FILE
    tag([f"dog number {k}" for k in range(60)])
    forget(monkeypatch)
    if damage == "text":
        path.write_text("no database at all" * 100)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        with sqlite3.connect(path) as database:
            database.execute("UPDATE tags SET tokens = '[[0, 1]]'")
        database.close()
    with pytest.raises(
        InputError, match=r"tags\.sqlite: the cache of tagged texts cannot be used .*remove the file"
    ):
        tag([f"dog number {k}" for k in range(60)])


def test_the_version_names_spacy_and_the_pipeline() -> None:
    assert pipeline_version().startswith("en_core_web_sm")
    assert ", spacy 3." in pipeline_version()


def test_a_missing_pipeline_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "PIPELINES", ("no_such_pipeline",))
    tagging._pipeline_name.cache_clear()
    tagging._pipeline.cache_clear()
    try:
        with pytest.raises(
            InputError, match="no English spaCy pipeline: none of no_such_pipeline is installed"
        ):
            tag(["a dog"])
    finally:
        tagging._pipeline_name.cache_clear()
    assert "no_such_pipeline" not in sys.modules
