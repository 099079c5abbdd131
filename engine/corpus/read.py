"""From a file to a `Corpus`: detection, reading, normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from engine.corpus.corpus import Caption, Corpus
from engine.corpus.document import load_document
from engine.corpus.normalise import find_normalisation
from engine.corpus.reader import AdversarialCaption, Reader
from engine.corpus.registry import detect_reader, find_reader
from engine.errors import InputError
from engine.path_text import path_text

DEFAULT_SPLIT = "test"
ALL_SPLITS = "all"

_Text = TypeVar("_Text", Caption, AdversarialCaption)


@dataclass(frozen=True)
class LoadedCorpus:
    """A corpus, the adversarial captions of its file (a RoCOCO file has them), and how it was understood.

    `reason` says in words why `reader` was chosen; `split` is the part that was read, None for a layout
    without parts.
    """

    corpus: Corpus
    adversarials: tuple[AdversarialCaption, ...]
    reader: str
    reason: str
    split: str | None


def load_corpus(
    path: str | Path, *, reader: str | None = None, split: str = DEFAULT_SPLIT, normalisation: str = "raw"
) -> LoadedCorpus:
    """Read a captioned image set with everything that is known about its file.

    `reader` is a name of `engine.corpus.registry` or None (from the content), `split` a part of a Karpathy
    file or "all", `normalisation` a name of `engine.corpus.normalise`, applied to every caption and every
    adversarial caption. Raises `InputError` (one line: file, entry, field) when the file cannot be read as a
    corpus.
    """
    normalise = find_normalisation(normalisation)
    named = None if reader is None else find_reader(reader)
    document = load_document(path)
    chosen, reason = detect_reader(document) if named is None else (named, "named by the user")
    _check_split(document.path, chosen, split)
    reading = chosen.read(document, split)
    corpus = Corpus(
        name=path_text(document.path.stem) + ("" if reading.split is None else f"-{reading.split}"),
        images=reading.images,
        captions=_normalised(reading.captions, normalise),
        source=document.path,
        normalisation=normalisation,
    )
    return LoadedCorpus(
        corpus, _normalised(reading.adversarials, normalise), chosen.name, reason, reading.split
    )


def read_corpus(
    path: str | Path, *, reader: str | None = None, split: str = DEFAULT_SPLIT, normalisation: str = "raw"
) -> Corpus:
    """The corpus in a file; of a RoCOCO file the originals. Parameters and errors as in `load_corpus`."""
    return load_corpus(path, reader=reader, split=split, normalisation=normalisation).corpus


def read_rococo(
    path: str | Path, normalisation: str = "raw"
) -> tuple[Corpus, tuple[AdversarialCaption, ...]]:
    """The originals of a RoCOCO file and its adversarial captions, five an image, in file order.

    Raises `InputError` as `load_corpus`, also for an entry with fewer than ten captions.
    """
    loaded = load_corpus(path, reader="rococo", normalisation=normalisation)
    return loaded.corpus, loaded.adversarials


def _check_split(path: Path, reader: Reader, split: str) -> None:
    if not reader.has_splits and split not in (DEFAULT_SPLIT, ALL_SPLITS):
        raise InputError(f"{path}: --split {split}: a {reader.name} file has no splits; leave --split out")


def _normalised(items: tuple[_Text, ...], normalise: Callable[[str], str]) -> tuple[_Text, ...]:
    return tuple(replace(item, text=normalise(item.text)) for item in items)
