"""WordNet 3.0 through NLTK's reader: where its files are looked for, and what is asked of it.

It is looked for in the usual NLTK folders (``NLTK_DATA``, ``~/nltk_data``, ...) and in our own NLTK data
folder in the user's data directory, which `engine.variants.wordnet_setup` fills.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from engine.errors import InputError
from engine.variants.cache import files_digest

PartOfSpeech = Literal["n", "a"]

VERSION = "3.0"
RESOURCE = "corpora/wordnet"
ARCHIVE = "corpora/wordnet.zip/wordnet/"
SHOWN = 120
"""Characters of NLTK's own message in ours."""
_NOT_ATTRIBUTIVE = frozenset({"(p)", "(ip)"})
WAYS = (
    "run `itrstress setup wordnet --from DIR` (DIR: a WordNet 3.0 database folder, such as "
    "/usr/share/wordnet of Debian's wordnet-base and wordnet-sense-index), run `itrstress setup wordnet "
    "--download`, or put NLTK's wordnet data into an NLTK data folder"
)


class WordNet:
    """The questions that we ask WordNet; every answer is kept.

    `version` is the database's, such as ``3.0``. All raise `InputError` when the database turns out damaged.
    """

    def __init__(self, reader: Any, folder: str) -> None:
        self._reader = reader
        self._folder = folder
        self.version = str(reader.get_version())
        self.lemma_names = cache(self._lemma_names)
        self.first_sense = cache(self._first_sense)
        self.synsets = cache(self._synsets)
        self.depth = cache(self._depth)
        self.noun_senses = cache(self._noun_senses)
        self.ancestors = cache(self._ancestors)

    def _lemma_names(self, word: str) -> tuple[str, ...]:
        """The lemmas of all synsets of a word, of any part of speech, with spaces for underscores.

        Synsets are in WordNet's order: nouns, verbs, adjectives, adverbs, in each the commonest sense first.
        """
        with self._guarded():
            lemmas = [lemma for synset in self._reader.synsets(word) for lemma in synset.lemmas()]
        return _names(lemmas)

    def _first_sense(self, word: str, part: PartOfSpeech) -> tuple[str, ...]:
        """The lemmas of a noun's (``n``) or adjective's (``a``) commonest sense, with spaces for underscores.

        Adjectives that cannot stand before a noun (``alone``) are left out.
        """
        with self._guarded():
            lemmas = [lemma for synset in self._reader.synsets(word, part)[:1] for lemma in synset.lemmas()]
        return _names(lemma for lemma in lemmas if lemma.syntactic_marker() not in _NOT_ATTRIBUTIVE)

    def _synsets(self, word: str) -> frozenset[str]:
        """The names of all synsets of a word, of any part of speech."""
        with self._guarded():
            return frozenset(str(synset.name()) for synset in self._reader.synsets(word))

    def _noun_senses(self, word: str) -> tuple[str, ...]:
        """The names of a noun's synsets, the commonest sense first; a plural is looked up as its singular."""
        with self._guarded():
            return tuple(str(synset.name()) for synset in self._reader.synsets(word.replace(" ", "_"), "n"))

    def _ancestors(self, sense: str) -> frozenset[str]:
        """The names of all synsets above one in the hypernym tree, instances' classes included."""
        with self._guarded():
            synset = self._reader.synset(sense)
            above = synset.closure(lambda one: one.hypernyms() + one.instance_hypernyms())
            return frozenset(str(one.name()) for one in above)

    def _depth(self, noun: str) -> int | None:
        """The largest over a noun's synsets of the smallest depth in the hypernym tree; None for no noun."""
        with self._guarded():
            depths = [synset.min_depth() for synset in self._reader.synsets(noun, "n")]
        return max(depths) if depths else None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # NLTK's way to say that a synset is not there
            try:
                yield
            except (UserWarning, ValueError, AssertionError) as error:
                raise _damaged(self._folder, error) from None


def _names(lemmas: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lemma.name().replace("_", " ") for lemma in lemmas))


def open_wordnet() -> WordNet:
    """WordNet 3.0, opened once a process. Raises `InputError` that names the three ways to get it."""
    return open_folder(str(_installed()))


def wordnet_digest() -> str:
    """SHA-256 (hex) of the files that `open_wordnet` reads. Raises `InputError` when it is not there."""
    folder = _installed()
    try:
        return files_digest(folder)
    except OSError as error:
        raise _damaged(str(folder), error) from None


def _installed() -> Path:
    found = find_wordnet()
    if found is None:
        raise InputError(f"WordNet {VERSION} is not installed; {WAYS}")
    return found


def find_wordnet() -> Path | None:
    """The folder (or zip archive and folder in it) of WordNet, None when it is in no NLTK data folder."""
    import nltk

    register_folder(data_folder())
    found = _find(nltk.data.path)
    return None if found is None else Path(str(found))


def data_folder() -> Path:
    """Our NLTK data folder in the user's data directory: below ``XDG_DATA_HOME`` on Linux."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "itrstress" / "nltk_data"


@cache
def open_folder(folder: str) -> WordNet:
    """`read_wordnet`, once a process."""
    return read_wordnet(folder)


def read_wordnet(folder: str) -> WordNet:
    """The WordNet in a folder. Raises `InputError` when it is damaged or of another version."""
    from nltk.corpus.reader.wordnet import WordNetCorpusReader, WordNetError

    class EnglishReader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def map_wn(self, version: str = "wordnet") -> None:
            """No map to the WordNet of other languages: never asked for, and half the time of opening."""

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no other languages
            wordnet = WordNet(EnglishReader(_find([_data_folder_of(folder)]), None), folder)
        wordnet.depth("dog")
    except (OSError, LookupError, ValueError, AssertionError, WordNetError) as error:
        raise _damaged(folder, error) from None
    if wordnet.version != VERSION:
        raise InputError(f"{folder}: WordNet {wordnet.version}; expected {VERSION}; {WAYS}")
    return wordnet


def _damaged(folder: str, error: Exception) -> InputError:
    detail = " ".join(str(error).split())[:SHOWN]
    return InputError(f"{folder}: cannot be read as WordNet ({detail}); remove it, then {WAYS}")


def _find(folders: Sequence[str]) -> Any:
    """NLTK's pointer to WordNet in the first of the NLTK data folders that has it, zipped or not, or None."""
    import nltk

    for resource in (RESOURCE, ARCHIVE):
        try:
            return nltk.data.find(resource, paths=list(folders))
        except LookupError:
            continue
    return None


def _data_folder_of(folder: str) -> str:
    """The NLTK data folder of ``ROOT/corpora/wordnet`` or ``ROOT/corpora/wordnet.zip/wordnet``."""
    parts = Path(folder).parts
    return str(Path(*parts[: len(parts) - 1 - parts[::-1].index("corpora")]))


def register_folder(folder: Path) -> None:
    """NLTK reads only from the folders in its data path."""
    import nltk

    if str(folder) not in nltk.data.path:
        nltk.data.path.append(str(folder))
