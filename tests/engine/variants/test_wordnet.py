"""WordNet: found, built from a database folder, asked; and what is said where it is not there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.variants.registry import make_variant
from engine.variants.wordnet import RESOURCE, WAYS, data_folder, open_wordnet
from engine.variants.wordnet_setup import (
    DATABASE_FILES,
    download,
    install_from,
    installed_folder,
    lexnames,
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No NLTK data folder but ours, and that is empty and below the folder given."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def database(wordnet: Path, tmp_path: Path) -> Path:
    """A WordNet database folder as Debian's packages make it: no lexnames."""
    if not wordnet.is_dir():
        pytest.skip("WordNet is there as an archive only")
    folder = tmp_path / "database"
    folder.mkdir()
    for name in DATABASE_FILES:
        (folder / name).symlink_to(wordnet / name)
    return folder


def test_the_45_lexicographer_files_are_numbered() -> None:
    rows = [line.split("\t") for line in lexnames().splitlines()]
    assert [int(number) for number, _, _ in rows] == list(range(45))
    assert rows[3] == ["03", "noun.Tops", "1"]
    assert rows[29] == ["29", "verb.body", "2"]
    assert rows[44] == ["44", "adj.ppl", "3"]
    assert rows[2] == ["02", "adv.all", "4"]


def test_without_wordnet_the_error_names_the_three_ways(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus("test", (ImageItem("i", "i.png"),), (Caption("c", "a big dog", 0),))
    for name in ("synonym_noun", "synonym_adj:mode=paper"):
        with pytest.raises(InputError) as caught:
            make_variant(name).apply(corpus)
        assert str(caught.value) == f"WordNet 3.0 is not installed; {WAYS}"
    for way in ("itrstress setup wordnet --from DIR", "--download", "NLTK data folder"):
        assert way in WAYS
    assert run(["setup", "wordnet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--from DIR" in error


def test_it_is_built_from_a_database_folder_and_used(
    nowhere: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", "wordnet", "--from", str(database)]) == 0
    assert installed_folder() == nowhere / "data" / "itrstress" / "nltk_data" / "corpora" / "wordnet"
    out = capsys.readouterr().out
    assert out.splitlines() == [f"wrote {installed_folder()}", f"WordNet 3.0 at {installed_folder()}"]
    assert {path.name for path in installed_folder().iterdir()} == {*DATABASE_FILES, "lexnames"}
    assert not any(path.is_symlink() for path in installed_folder().iterdir())
    assert [path.name for path in data_folder().iterdir()] == ["corpora"]  # nothing temporary stays
    assert "domestic dog" in open_wordnet().first_sense("dog", "n")
    with pytest.raises(InputError, match="WordNet is there already; add --force"):
        install_from(database)


def test_force_replaces_it(nowhere: Path, database: Path) -> None:
    installed_folder().mkdir(parents=True)
    (installed_folder() / "data.noun").write_text("damaged")
    assert install_from(database, force=True) == installed_folder()
    assert (installed_folder() / "data.noun").stat().st_size > 10_000_000
    assert [path.name for path in data_folder().iterdir()] == ["corpora"]


def test_an_archive_is_read_too(nowhere: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    root = nowhere / "nltk_data"
    content = nowhere / "content"
    shutil.copytree(database, content / "wordnet")
    (content / "wordnet" / "lexnames").write_text(lexnames())
    (root / "corpora").mkdir(parents=True)
    shutil.make_archive(str(root / RESOURCE), "zip", content, "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(root)])
    assert open_wordnet().depth("dog") == 9


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("index.sense", None, "no WordNet database folder: index.sense missing; expected 14 files"),
        ("data.noun", "  1 WordNet 2.1 Copyright 2005 ", "WordNet 2.1; expected WordNet 3.0"),
        ("data.noun", "nothing", "no WordNet version in data.noun; expected WordNet 3.0"),
        ("data.noun", "  1 WordNet 3.0 Copyright 2006 ", "cannot be read as WordNet"),
        ("index.noun", "dog n nothing\n", "cannot be read as WordNet"),
    ],
)
def test_a_folder_that_is_no_wordnet_3_is_refused_and_nothing_stays(
    nowhere: Path, database: Path, name: str, content: str | None, message: str
) -> None:
    (database / name).unlink()
    if content is not None:
        (database / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        install_from(database)
    assert "\n" not in str(caught.value)
    assert not installed_folder().exists()


def test_damage_that_shows_later_is_named(nowhere: Path, database: Path) -> None:
    folder = installed_folder()
    shutil.copytree(database, folder)
    (folder / "lexnames").write_text(lexnames())
    adjectives = (folder / "data.adj").read_bytes()
    (folder / "data.adj").unlink()
    (folder / "data.adj").write_bytes(adjectives[: len(adjectives) // 2])
    opened = open_wordnet()
    with pytest.raises(InputError, match=r"cannot be read as WordNet .*remove it, then run `itrstress setup"):
        opened.lemma_names("wooden")


def test_options_exclude_each_other(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "wordnet", "--from", ".", "--download"]) == 2
    assert "--from and --download exclude each other" in capsys.readouterr().err


def test_a_download_that_fails_is_one_line_and_leaves_nothing(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import nltk.downloader

    def fail(self: object, *arguments: object, **options: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(nltk.downloader.Downloader, "download", fail)
    assert run(["setup", "wordnet", "--download"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        "error: WordNet cannot be downloaded: no network; run `itrstress setup wordnet --from"
    )
    assert list((data_folder() / "corpora").iterdir()) == []


@pytest.mark.parametrize("zipped", [True, False])
def test_a_download_is_unpacked_and_tried(
    nowhere: Path, database: Path, zipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk.downloader

    (database / "lexnames").write_text(lexnames())

    def fetch(self: nltk.downloader.Downloader, name: str, **options: object) -> None:
        root = Path(self.download_dir) / "corpora"
        if zipped:
            content = nowhere / "content"
            shutil.copytree(database, content / "wordnet")
            shutil.make_archive(str(root / name), "zip", content, "wordnet")
        else:
            shutil.copytree(database, root / name, dirs_exist_ok=True)

    monkeypatch.setattr(nltk.downloader.Downloader, "download", fetch)
    assert download() == installed_folder()
    assert open_wordnet().depth("dog") == 9


@pytest.mark.usefixtures("wordnet")
def test_questions() -> None:
    wordnet = open_wordnet()
    assert wordnet.version == "3.0"
    assert wordnet.lemma_names("blue")[:2] == ("blue", "blueness")
    assert wordnet.first_sense("blue", "a")[:2] == ("blue", "bluish")
    assert wordnet.first_sense("large", "a") == ("large", "big")
    assert wordnet.first_sense("awake", "a") == ()  # cannot stand before a noun
    assert "Gunter Grass" in wordnet.lemma_names("grass")
    assert wordnet.first_sense("grass", "n") == ("grass",)
    assert wordnet.first_sense("qwertzuiop", "n") == ()
    assert all("_" not in name for name in wordnet.lemma_names("dog"))
    assert wordnet.lemma_names("qwertzuiop") == ()
    assert wordnet.depth("entity") == 0
    assert wordnet.depth("qwertzuiop") is None
    assert {"dog.n.01", "frank.n.02"} <= wordnet.synsets("dog")
