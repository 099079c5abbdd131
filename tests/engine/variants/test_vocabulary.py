"""Where random words come from: BERT's vocabulary, a cached tokenizer, wordfreq; and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.registry import make_variant
from engine.variants.vocabulary import LARGEST_FILE, cached_bert, open_vocabulary, read_vocabulary

TOKENS = (
    "[PAD]",
    "[UNK]",
    "!",
    "a",
    "the",
    "##ing",
    "Paris",
    "naïve",
    "house",
    "the",
    "3d",
    "x" * 18,
    "boat",
)
WORDS = ("the", "house", "boat")


@pytest.fixture
def vocab_txt(tmp_path: Path) -> Path:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def tokenizer_json(tmp_path: Path) -> Path:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    ids = {token: row for row, token in enumerate(dict.fromkeys(TOKENS))}
    shuffled = dict(sorted(ids.items()))
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({"version": "1.0", "model": {"type": "WordPiece", "vocab": shuffled}}))
    return file


def test_whole_words_of_letters_are_taken_in_the_order_of_the_file(vocab_txt: Path) -> None:
    vocabulary = read_vocabulary(vocab_txt)
    assert vocabulary.words == WORDS
    digest = hashlib.sha256(vocab_txt.read_bytes()).hexdigest()
    assert vocabulary.source == f"vocab.txt, sha256 {digest}, 3 words"


def test_windows_line_ends_are_line_ends(vocab_txt: Path) -> None:
    vocab_txt.write_bytes("\r\n".join(TOKENS).encode())
    assert read_vocabulary(vocab_txt).words == WORDS


def test_a_tokenizer_of_word_pieces_gives_the_same_words_also_by_its_folder(tokenizer_json: Path) -> None:
    assert read_vocabulary(tokenizer_json).words == WORDS
    assert read_vocabulary(tokenizer_json.parent).words == WORDS


def test_the_cached_tokenizer_is_found_without_a_network(
    tokenizer_json: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: list[object]
) -> None:
    import huggingface_hub

    def find(repository: str, name: str) -> str | None:
        known = ("bert-base-uncased", "tokenizer.json")
        return str(tokenizer_json) if (repository, name) == known else None

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", find)
    assert cached_bert("x") == tokenizer_json
    assert open_vocabulary("bert").words == open_vocabulary(None, published=True).words == WORDS
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: None)
    with pytest.raises(InputError, match=r"bert-base-uncased is not in the cache .* vocabulary=FILE"):
        open_vocabulary("bert")
    assert no_sockets == []


def test_in_paper_mode_other_words_than_berts_are_named(
    make_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the paper's name they would stand beside the paper's figures."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: None)
    corpus = make_corpus(["my dog runs quickly"])
    with pytest.raises(InputError, match=r"^mode=paper: the words are BERT's, .* vocabulary=wordfreq draws"):
        make_variant("rand_voca:mode=paper").apply(corpus)
    (item,) = make_variant("rand_voca:mode=paper:vocabulary=wordfreq").apply(corpus).items
    assert item.id == "c0@rand_voca:mode=paper:vocabulary=wordfreq:seed=0"
    assert item.change["vocabulary"].startswith("wordfreq ")


def test_without_a_choice_it_is_wordfreq_whatever_is_cached(tokenizer_json: Path) -> None:
    assert open_vocabulary(None).source.startswith("wordfreq ")
    assert len(open_vocabulary(None).words) == 20_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "0 whole words of English letters"),
        (b"house\n[PAD]\n##s\n", "1 whole words of English letters"),
        (b"house\n\xff\nboat", "byte 6 is not UTF-8"),
        (b" " * (LARGEST_FILE + 1), "more than 67,108,864 bytes"),
        (b'{"model": ', "not valid JSON"),
        (b'{"a":' * 50_000, "not valid JSON"),
        (b"{}", "its model is None"),
        (b'{"model": {"type": "BPE", "vocab": {"house": 1}}}', "its model is 'BPE'"),
        (b'{"model": {"type": "WordPiece", "vocab": ["house"]}}', "'model.vocab' is not tokens"),
        (b'{"model": {"type": "WordPiece", "vocab": {"house": "1"}}}', "'model.vocab' is not tokens"),
        (b'{"model": {"type": ["x"], "vocab": {}}}', "its model is ['x']"),
    ],
)
@pytest.mark.parametrize("family", ["rand_voca", "substitute:2"])
def test_a_file_that_is_none_is_one_line_that_names_it(
    family: str, content: bytes | None, message: str, tmp_path: Path, make_corpus: Callable[..., Corpus]
) -> None:
    file = tmp_path / "mine.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        make_variant(f"{family}:vocabulary={file}").apply(make_corpus(["a dog runs fast"]))
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_targets_are_of_the_vocabulary_and_its_source_is_recorded(
    vocab_txt: Path, make_corpus: Callable[..., Corpus]
) -> None:
    for spec in ("rand_voca", "rand_voca:mode=paper", "substitute:2"):
        outcome = make_variant(f"{spec}:vocabulary={vocab_txt}").apply(make_corpus(["my dog runs quickly"]))
        (item,) = outcome.items
        targets = [one["target"] for one in item.change.get("replaced", [item.change])]
        assert set(targets) <= set(WORDS)
        assert item.change["vocabulary"].startswith("vocab.txt, sha256 ")
        assert outcome.made_with["vocabulary"] == item.change["vocabulary"]
        assert item.id == f"c0@{spec}:vocabulary=vocab:seed=0"
