"""The readers, and which of them a file's content asks for."""

from __future__ import annotations

from collections.abc import Mapping

from engine.corpus.document import Document
from engine.corpus.reader import Reader
from engine.corpus.readers import blip, rococo, table
from engine.corpus.shape import describe, shorten
from engine.errors import InputError, unknown_name

READERS: Mapping[str, Reader] = {reader.name: reader for reader in (rococo.READER, blip.READER, table.READER)}


def find_reader(name: str) -> Reader:
    """The reader of that name; `InputError` with the nearest known name otherwise."""
    if name not in READERS:
        raise unknown_name("reader", name, READERS)
    return READERS[name]


def detect_reader(document: Document) -> tuple[Reader, str]:
    """The one reader that recognises the content, and why. Raises `InputError` when none or several do."""
    reasons = {name: reason for name, reader in READERS.items() if (reason := reader.recognise(document))}
    if not reasons:
        raise _unrecognised(document)
    if len(reasons) > 1:
        known_as = " or ".join(reasons)
        raise InputError(
            f"{document.path}: could be {known_as} ({next(iter(reasons.values()))}); say which with --reader"
        )
    name, reason = next(iter(reasons.items()))
    return READERS[name], reason


def _unrecognised(document: Document) -> InputError:
    layouts = "; ".join(f"{reader.name}: {reader.layout}" for reader in READERS.values())
    if document.is_json:
        found = f"JSON, but no corpus: found {describe(document.value)}"
        if isinstance(document.value, list) and document.value:
            found += f", the first {describe(document.value[0])}"
    elif document.text.lstrip()[0] in "[{":
        return InputError(f"{document.path}: not valid JSON: {document.fault}")
    else:
        first = shorten(document.text.lstrip().split("\n", 1)[0], 80)
        found = f"neither JSON nor a table with the columns image and caption: the first line is {first!r}"
    return InputError(f"{document.path}: {found}; known layouts: {layouts}")
