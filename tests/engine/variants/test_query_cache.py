"""Perturbed queries are kept between processes, under a name that is a digest of all they depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.variants import query_cache
from engine.variants.cache import files_digest
from engine.variants.families.shuffle_all_words import ShuffleAllWords
from engine.variants.families.synonyms import SynonymNoun
from engine.variants.families.typos import CharSwap
from engine.variants.queries import Perturbed, QueryPerturbation, Rule
from engine.variants.wordnet import wordnet_digest

TEXTS = ("a red dog on a mat", "?!", "two\tsmall cats \ud83d \u0627\u0644 \U0001f415")


@pytest.fixture
def corpus() -> Corpus:
    captions = tuple(Caption(f"c{n}", text, 0) for n, text in enumerate(TEXTS))
    return Corpus("test", (ImageItem("i", "i.jpg"),), captions)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ITRSTRESS_CACHE", str(tmp_path))
    return tmp_path / "queries"


def never(corpus: Corpus) -> Rule:
    raise AssertionError("the queries are kept: no rule is needed")


@pytest.mark.parametrize("variant", [CharSwap(), ShuffleAllWords(seed=3), CharSwap(mode="paper")])
def test_the_next_process_draws_nothing_and_has_the_same_items(
    variant: QueryPerturbation, corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = variant.apply(corpus)
    assert {item.changed for item in made.items} == {True, False}
    monkeypatch.setattr(type(variant), "rule", lambda self, corpus: never(corpus))
    assert variant.apply(corpus) == made
    assert len(list(folder.iterdir())) == 1


def test_nothing_is_kept_without_a_folder(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ITRSTRESS_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    CharSwap().apply(corpus)
    assert list(tmp_path.iterdir()) == []


def other_texts(corpus: Corpus) -> Corpus:
    return replace(corpus, captions=(replace(corpus.captions[0], text="a blue dog"), *corpus.captions[1:]))


@pytest.mark.parametrize(
    "changed",
    [
        lambda patch, corpus: (CharSwap(seed=1), corpus),
        lambda patch, corpus: (CharSwap(mode="paper"), corpus),
        lambda patch, corpus: (CharSwap(), other_texts(corpus)),
        lambda patch, corpus: (
            patch.setattr(query_cache, "source_digest", lambda: "x") or (CharSwap(), corpus)
        ),
        lambda patch, corpus: (
            patch.setattr(query_cache, "package_versions", lambda: {"typo": "9"}) or (CharSwap(), corpus)
        ),
        lambda patch, corpus: patch.setattr(CharSwap, "tools", lambda self: "x") or (CharSwap(), corpus),
    ],
)
def test_what_they_depend_on_has_other_files(
    changed: Callable[..., tuple[QueryPerturbation, Corpus]],
    corpus: Corpus,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    CharSwap().apply(corpus)
    variant, other = changed(monkeypatch, corpus)
    variant.apply(other)
    assert len(list(folder.iterdir())) == 2


def test_synonyms_depend_on_the_files_of_wordnet_and_of_the_tagger_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = []
    monkeypatch.setattr("engine.variants.families.synonyms.wordnet_digest", lambda: "files")
    monkeypatch.setattr("engine.variants.families.synonyms.tagger_digest", lambda: "nltk")
    for there in (True, False):
        monkeypatch.setattr("engine.variants.families.synonyms.has_tagger", lambda there=there: there)
        tools += [SynonymNoun(mode="paper").tools(), SynonymNoun().tools()]
    assert tools == ["files nltk", "files ", "files ", "files "]


def test_another_wordnet_has_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.variants.wordnet.find_wordnet", lambda: tmp_path)
    digests = []
    for name, text in [("data.noun", "dog"), ("data.noun", "cat"), ("data.adj", "")]:
        (tmp_path / name).write_text(text)
        digests.append(wordnet_digest())
    assert len(set(digests)) == 3
    monkeypatch.setattr("engine.variants.wordnet.find_wordnet", lambda: None)
    with pytest.raises(InputError, match="is not installed"):
        wordnet_digest()


def test_data_in_an_archive_are_read_there(tmp_path: Path) -> None:
    archive = tmp_path / "wordnet.zip"
    digests = set()
    for data in (b"one", b"another"):
        archive.write_bytes(data)
        digests.add(files_digest(archive / "wordnet"))
    assert len(digests) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"x", lambda data: b""])
def test_a_damaged_file_is_named_and_not_used(
    damage: Callable[[bytes], bytes], corpus: Corpus, folder: Path
) -> None:
    CharSwap().apply(corpus)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=r"\.json: the cached queries cannot be used .*; remove the file"):
        CharSwap().apply(corpus)


@dataclass(frozen=True)
class Shout(QueryPerturbation):
    """A plug-in's."""

    perturbation: ClassVar[str] = "shout"

    def rule(self, corpus: Corpus) -> Rule:
        return lambda caption: Perturbed(caption.text.upper())


def test_the_rules_of_plug_ins_may_change_so_nothing_of_theirs_is_kept(corpus: Corpus, folder: Path) -> None:
    Shout().apply(corpus)
    assert not folder.exists()
