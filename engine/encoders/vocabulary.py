"""Word vocabularies of the GRU models: the published JSON form, and pickles read without executing
anything."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.inputs import check_regular_file

START, END, UNKNOWN = "<start>", "<end>", "<unk>"
MASK = "<mask>"
_PICKLED_CLASS = "Vocabulary"
# what the unpickler raises for bytes that are no pickle, or not all of one
_BROKEN_PICKLE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    AssertionError,
    MemoryError,
    struct.error,
)
_PATTERNS = ("*vocab*.json", "*vocab*.pkl")
_MOST_BYTES = 64 * 2**20  # the published files have less than one MB


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids, which are rows of a model's embedding table. `source` names the file in errors."""

    source: str
    ids: Mapping[str, int]

    def __len__(self) -> int:
        """Rows an embedding table needs: the highest id and one."""
        return max(self.ids.values()) + 1

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of ``<start>``, the words, ``<end>``; a word that is not there is ``<unk>``."""
        unknown = self.ids[UNKNOWN]
        return [self.ids[START], *(self.ids.get(word, unknown) for word in words), self.ids[END]]

    def with_word(self, word: str) -> Vocabulary:
        """With one more word at the end; itself when the word is there."""
        return self if word in self.ids else Vocabulary(self.source, {**self.ids, word: len(self)})

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of words and ids."""
        ordered = sorted(self.ids.items(), key=lambda item: item[1])
        return hashlib.sha256(json.dumps(ordered).encode()).hexdigest()


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary: JSON with ``word2idx`` (SCAN, SGRAF, VSE-infinity), or a pickle of a class
    ``Vocabulary`` (VSRN).

    Which one is decided by the content. Words of Python 2 files are read as Latin-1. Raises `InputError`
    when the file is missing, neither of them, asks for another class, or its ids are not 0, 1, 2, ... with
    the three special words.
    """
    data = _read_bytes(path)
    value = _parse_json(path, data) if data.lstrip()[:1] == b"{" else _read_pickle(path, data)
    if not isinstance(value, Mapping) or "word2idx" not in value:
        raise InputError(f"{path}: no 'word2idx' in it; expected a vocabulary (JSON or a pickled Vocabulary)")
    return Vocabulary(str(path), _checked_ids(path, value["word2idx"]))


def find_vocabularies(paths: Sequence[Path]) -> list[Vocabulary]:
    """The vocabularies in `vocabulary_files`."""
    return [read_vocabulary(file) for file in vocabulary_files(paths)]


def vocabulary_files(paths: Sequence[Path]) -> list[Path]:
    """The files among paths, and those in the folders (there ``*vocab*.json`` and ``*vocab*.pkl``)."""
    files: list[Path] = []
    for path in paths:
        files.extend(sorted(f for p in _PATTERNS for f in path.glob(p)) if path.is_dir() else [path])
    return files


def choose_vocabulary(
    vocabularies: Sequence[Vocabulary], rows: int, checkpoint: str, added: int = 0
) -> Vocabulary:
    """The one vocabulary with as many words as the checkpoint's embedding table has `rows`.

    `added` of them are not in the files but already in `vocabularies`; errors speak of the files.

    Raises `InputError` when none has, or two that differ do: another vocabulary of the same data gives
    wrong words silently (VSRN's and SCAN's COCO vocabularies agree in the special words only).
    """
    if not vocabularies:
        raise InputError(
            f"{checkpoint}: needs a vocabulary of {rows - added} words, none is beside it (*vocab*.json, "
            "*vocab*.pkl); give it with vocab=PATH"
        )
    fitting = [vocabulary for vocabulary in vocabularies if len(vocabulary) == rows]
    if not fitting:
        found = ", ".join(f"{vocabulary.source} has {len(vocabulary) - added}" for vocabulary in vocabularies)
        raise InputError(f"{checkpoint}: needs a vocabulary of {rows - added} words; {found}")
    if any(vocabulary.ids != fitting[0].ids for vocabulary in fitting):
        names = ", ".join(vocabulary.source for vocabulary in fitting)
        raise InputError(
            f"{checkpoint}: {names} have {rows} words each and differ; give the one it was trained with"
        )
    return fitting[0]


def _read_bytes(path: Path) -> bytes:
    size = check_regular_file(path, "a vocabulary file").st_size
    if not size or size > _MOST_BYTES:
        raise InputError(f"{path}: {size} bytes; expected a vocabulary of 1 to {_MOST_BYTES} bytes")
    return path.read_bytes()


def _parse_json(path: Path, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); expected a vocabulary with 'word2idx'") from None


def _checked_ids(path: Path, ids: Any) -> dict[str, int]:
    if not isinstance(ids, dict) or not ids:
        raise InputError(
            f"{path}: 'word2idx' is {type(ids).__name__} with no words; expected words and their ids"
        )
    for word, index in ids.items():
        if not isinstance(word, str) or type(index) is not int:
            raise InputError(f"{path}: word {word!r} has the id {index!r}; expected text and a whole number")
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"{path}: the ids of {len(ids)} words are not 0 to {len(ids) - 1}, each once")
    absent = [word for word in (START, END, UNKNOWN) if word not in ids]
    if absent:
        raise InputError(
            f"{path}: the word {absent[0]!r} is missing; expected the special words of a vocabulary"
        )
    return ids


class _InertUnpickler(pickle._Unpickler):
    """Builds plain values and, for a class named Vocabulary, an object that is nothing but its attributes.

    The class and the function it hands out are made anew for each file, so nothing a file does to them lasts.
    It is the unpickler in Python, not the one in C: there a file of ten bytes can fill the memory, by
    numbering what it remembers from the highest number down.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        inert = type(_PICKLED_CLASS, (), {})

        def reconstruct(kind: Any, base: Any, state: Any) -> Any:
            if kind is not inert or base is not object or state is not None:
                raise _RefusedError("copy_reg._reconstructor of another class")
            return inert()

        self._known = {
            "copy_reg._reconstructor": reconstruct,
            "copyreg._reconstructor": reconstruct,
            "__builtin__.object": object,
            "builtins.object": object,
        }
        self._inert = inert

    def find_class(self, module_name: str, global_name: str) -> Any:
        """What a name stands for; everything but Vocabulary is refused before anything is imported."""
        if global_name == _PICKLED_CLASS:
            return self._inert
        name = f"{module_name}.{global_name}"
        if name not in self._known:
            raise _RefusedError(name)
        return self._known[name]


class _RefusedError(Exception):
    """A pickle asked for something that is not inert; its text is what."""


def _read_pickle(path: Path, data: bytes) -> Any:
    try:
        value = _InertUnpickler(data).load()
    except _RefusedError as error:
        raise InputError(
            f"{path}: refused: this pickle asks for {error}, which could run code; only a class named "
            "Vocabulary is read, as inert data; give the vocabulary as JSON"
        ) from None
    except _BROKEN_PICKLE as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(
            f"{path}: neither JSON nor a whole pickle ({reason}); expected a vocabulary"
        ) from None
    return value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
