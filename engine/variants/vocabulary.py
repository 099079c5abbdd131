"""The vocabulary that random words are drawn from: BERT's where the user has it, else frequent English words.

Which one is part of the variant's spec and never found out quietly, because the same name must mean the same
words on every machine: ``vocabulary=FILE`` (a ``vocab.txt``, a ``tokenizer.json`` of word pieces, or a folder
with one of them), ``vocabulary=bert`` (bert-base-uncased in the cache of the model hub, nothing is ever
downloaded), ``vocabulary=wordfreq`` (the most frequent words of that package). Without a choice it is BERT's
in paper mode, whose fakes go by the paper's name, and wordfreq's else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.variants.parameters import Parameter, file_label, parse_file
from engine.variants.user_files import read_user_file

SIZE = 20_000
"""How many words of wordfreq's: the most frequent ones that qualify."""

LARGEST_FILE = 64 * 2**20  # bytes; BERT's vocab.txt has less than a quarter of one MiB
FEWEST = 2
BERT, WORDFREQ = "bert", "wordfreq"
BERT_REPOSITORIES = ("google-bert/bert-base-uncased", "bert-base-uncased")
FILE_NAMES = ("vocab.txt", "tokenizer.json")
EXPECTED = "BERT's vocab.txt (one token a line) or a tokenizer.json of word pieces"

_WORD = re.compile(r"[a-z]{2,17}")
"""What RoCOCO's published random words are: English letters, 2 to 17 of them, no word pieces."""

_ASKED = 26_000  # of so many most frequent entries, more than SIZE qualify


@dataclass(frozen=True)
class Vocabulary:
    """Different words in a fixed order, and where they come from."""

    words: tuple[str, ...]
    source: str


@cache
def default_vocabulary() -> Vocabulary:
    """The `SIZE` most frequent English words of the `wordfreq` version that `source` names."""
    import wordfreq

    words = qualified(wordfreq.top_n_list("en", _ASKED, wordlist="best"))[:SIZE]
    return Vocabulary(words, f"wordfreq {metadata.version('wordfreq')}, en, the {len(words)} most frequent")


def qualified(tokens: Iterable[str]) -> tuple[str, ...]:
    """The different tokens that are whole English words of 2 to 17 letters, in their order."""
    return tuple(dict.fromkeys(token for token in tokens if _WORD.fullmatch(token)))


def parse_vocabulary(text: str) -> Path | str:
    """``bert``, ``wordfreq``, or a path."""
    return text if text in (BERT, WORDFREQ) else parse_file(text)


def vocabulary_parameter() -> Parameter:
    """``vocabulary=FILE``, ``vocabulary=bert`` or ``vocabulary=wordfreq``."""
    return Parameter(
        "vocabulary",
        parse_vocabulary,
        f"{BERT!r}, {WORDFREQ!r} or the path of {EXPECTED}",
        default=None,
        format=lambda value: value if isinstance(value, str) else file_label(value),
        is_file=True,
    )


def open_vocabulary(chosen: Path | str | None, *, published: bool = False) -> Vocabulary:
    """The vocabulary that a spec names, or that of its mode.

    Raises `InputError` for a file that is not there or no vocabulary, and where BERT's is not in the cache.
    """
    if chosen == WORDFREQ or (chosen is None and not published):
        return default_vocabulary()
    if isinstance(chosen, Path):
        return read_vocabulary(chosen)
    return read_vocabulary(cached_bert("mode=paper" if chosen is None else f"vocabulary={BERT}"))


def cached_bert(asked_by: str) -> Path:
    """A vocabulary file of bert-base-uncased in the model hub's cache.

    Raises `InputError` when none is; `asked_by` is what of a spec wants it.
    """
    from huggingface_hub import try_to_load_from_cache

    for repository in BERT_REPOSITORIES:
        for name in FILE_NAMES:
            found = try_to_load_from_cache(repository, name)
            if isinstance(found, str):
                return Path(found)
    raise InputError(
        f"{asked_by}: the words are BERT's, and bert-base-uncased is not in the cache of the model hub "
        f"(HF_HOME), where nothing is downloaded to; give a file with vocabulary=FILE: {EXPECTED}; "
        f"vocabulary={WORDFREQ} draws other words than the paper's"
    )


def read_vocabulary(path: Path) -> Vocabulary:
    """The whole words of a vocabulary file, in its order; of a folder, those of the file in it.

    Raises `InputError` when it cannot be read, is no vocabulary, or has no two words of letters.
    """
    if path.is_dir():
        path = next((path / name for name in FILE_NAMES if (path / name).is_file()), path)
    file = read_user_file(path, EXPECTED, LARGEST_FILE)
    is_json = file.text.lstrip()[:1] == "{"
    lines = (line.removesuffix("\r") for line in file.text.split("\n"))
    words = qualified(_json_tokens(path, file.text) if is_json else lines)
    if len(words) < FEWEST:
        raise InputError(f"{path}: {len(words)} whole words of English letters; expected {EXPECTED}")
    return Vocabulary(words, f"{path.name}, sha256 {file.sha256}, {len(words)} words")


def _json_tokens(path: Path, text: str) -> Sequence[str]:
    """The tokens of a ``tokenizer.json``, by their number."""
    try:
        model: Any = json.loads(text).get("model")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); expected {EXPECTED}") from None
    kind = model.get("type", "WordPiece") if isinstance(model, dict) else None
    ids = model.get("vocab") if isinstance(model, dict) else None
    if kind != "WordPiece":
        raise InputError(f"{path}: its model is {kind!r}, whose tokens are no words; expected {EXPECTED}")
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise InputError(f"{path}: 'model.vocab' is not tokens with their numbers; expected {EXPECTED}")
    return sorted(ids, key=ids.__getitem__)
