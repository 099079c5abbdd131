"""The readers, and which of them a file's content asks for."""

from __future__ import annotations

from collections.abc import Mapping

from engine.corpus.document import Document, parse_object
from engine.corpus.reader import Reader
from engine.corpus.readers import blip, coco_captions, fine_grained, karpathy, precomp, rococo, table
from engine.corpus.shape import describe, shorten
from engine.errors import InputError, unknown_name

READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        karpathy.READER,
        blip.READER,
        rococo.READER,
        coco_captions.READER,
        fine_grained.READER,
        table.READER,
        precomp.READER,
    )
}


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
    first_line = document.text.lstrip().split("\n", 1)[0].rstrip()
    if document.is_json:
        found = f"is JSON, but no corpus: found {_describe_value(document.value)}"
    elif (row := parse_object(first_line)) is not None:
        found = f"looks like JSON Lines, but its first line is {describe(row)}"
    elif first_line.startswith(("[", "{")):
        return InputError(f"{document.path}: not valid JSON: {document.fault}")
    else:
        found = (
            f"is neither JSON nor a table with a known header: the first line is {shorten(first_line, 80)!r}"
        )
    layouts = "; ".join(f"{reader.name}: {reader.layout}" for reader in READERS.values())
    return InputError(f"{document.path}: {found}; known layouts are {layouts}")


def _describe_value(value: object) -> str:
    if isinstance(value, list) and value:
        return f"{describe(value)}, the first {describe(value[0])}"
    return describe(value)
