"""Precomputed caption and id files: ``test_caps.txt`` beside ``test_ids.txt``.

The layout of SCAN's data, which VSRN, SGRAF and VSE-infinity read too. Their images are region features,
in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from engine.corpus.document import Document, load_document
from engine.corpus.reader import Collector, Reading
from engine.corpus.shape import expect_id, expect_image_file, expect_object, expect_text
from engine.errors import InputError

_CAPTIONS = "_caps.txt"
_IDS = "_ids.txt"
_FILES = "id_mapping.json"


class PrecompReader:
    """One caption a line; the id file has a line a caption (runs of one id are an image) or a line an image.

    Caption id: ``<image id>#<k>``. The file of an image comes from an ``id_mapping.json`` (VSE-infinity) in
    the folder or the one above; without one it is the id, and features are what there is to read.
    """

    name = "precomp"
    layout = "a file named <split>_caps.txt, one caption a line, beside <split>_ids.txt"
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """By the name, unlike other layouts: lines of plain text look like nothing in particular."""
        named = document.path.name.endswith(_CAPTIONS) and not document.is_json
        return f"the name ends in {_CAPTIONS}" if named else None

    def read(self, document: Document, split: str) -> Reading:
        """Every caption, without the white space around it, as the published code reads them."""
        ids_path = _ids_path(document.path)
        captions = _lines(document)
        lines = _lines(load_document(ids_path))
        ids = [expect_id(line, f"{ids_path}: line {n}") for n, line in enumerate(lines, start=1)]
        files = _read_files(document.path)
        collector = Collector()
        start = 0
        for id, count, place in _images(ids, len(captions), ids_path):
            file = expect_image_file(files.get(id, id), f"{place}: image {id!r}")
            row = collector.add_image(id, file, place)
            for k in range(count):
                number = start + k
                where = f"{document.path}: line {number + 1}"
                collector.add_caption(f"{id}#{k}", expect_text(captions[number], where), row, where)
            start += count
        return collector.reading()


def _images(ids: list[str], captions: int, path: Path) -> Iterator[tuple[str, int, str]]:
    """Each image's id, how many captions it has, and where its id stands."""
    if captions % len(ids):
        raise InputError(
            f"{path}: {len(ids)} ids for {captions} captions; expected one a caption, or one an image that "
            "has as many captions as any other"
        )
    each = captions // len(ids)
    line = 1
    for id, run in groupby(ids) if each == 1 else ((id, [id]) for id in ids):
        count = len(list(run))
        yield id, count * each, f"{path}: line {line}"
        line += count


def _lines(document: Document) -> list[str]:
    return [line.strip() for line in document.text.removesuffix("\n").split("\n")]


def _ids_path(path: Path) -> Path:
    if not path.name.endswith(_CAPTIONS):
        raise InputError(f"{path}: expected a file named <split>{_CAPTIONS}, with <split>{_IDS} beside it")
    return path.with_name(path.name.removesuffix(_CAPTIONS) + _IDS)


def _read_files(path: Path) -> dict[str, object]:
    """Image files by id, where the data come with them."""
    found = next((f for folder in path.parents[:2] if (f := folder / _FILES).is_file()), None)
    if found is None:
        return {}
    document = load_document(found)
    if not document.is_json:
        raise InputError(f"{found}: not valid JSON: {document.fault}")
    return expect_object(document.value, str(found))


READER = PrecompReader()
