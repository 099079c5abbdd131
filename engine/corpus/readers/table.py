"""A table of captions beside a folder of images (CSV, TSV, JSON Lines): one row a caption."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.corpus.document import Document, JSONFault, parse_json, parse_object
from engine.corpus.reader import Collector, Reading
from engine.corpus.shape import expect_field, expect_image_file, expect_object, expect_text, shorten
from engine.errors import InputError

COLUMNS = ("image", "caption")
_DELIMITERS = {",": "CSV", "\t": "TSV"}


@dataclass(frozen=True)
class Row:
    """The two values of a row and where it stands."""

    image: Any
    caption: Any
    place: str


class TableReader:
    """Image id: the file. Caption id: ``<image id>#<k>``, k counting the rows of that image.

    Images are in the order of their first rows. Further columns are allowed and not read.
    """

    name = "table"
    layout = "CSV, TSV or JSON Lines with the columns image and caption, one row a caption"
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """A first line that is a header with `image` and `caption`, or a JSON object with both."""
        if _is_json_lines(document.text):
            return "JSON Lines: the first line is an object with 'image' and 'caption'"
        delimiter = _find_delimiter(document.text)
        if delimiter is None:
            return None
        return f"{_DELIMITERS[delimiter]}: the header has the columns image and caption"

    def read(self, document: Document, split: str) -> Reading:
        """One caption a row."""
        collector = Collector()
        rows_of_image: dict[str, int] = {}
        captions_of_image: dict[str, int] = {}
        for row in _iterate_rows(document):
            file = expect_image_file(row.image, f"{row.place}: column 'image'")
            text = expect_text(row.caption, f"{row.place}: column 'caption'")
            if file not in rows_of_image:
                rows_of_image[file] = collector.add_image(file, file, row.place)
            k = captions_of_image.get(file, 0)
            captions_of_image[file] = k + 1
            collector.add_caption(f"{file}#{k}", text, rows_of_image[file], row.place)
        if not collector.captions:
            raise InputError(
                f"{document.path}: the table has a header and no row; expected one row a caption"
            )
        return collector.reading()


def _iterate_rows(document: Document) -> Iterator[Row]:
    if _is_json_lines(document.text):
        return _iterate_json_lines(document)
    delimiter = _find_delimiter(document.text)
    if delimiter is None:
        found = shorten(_first_line(document.text), 80)
        raise InputError(
            f"{document.path}: line 1: no header with the columns image and caption; found {found!r}; "
            f"expected {TableReader.layout}"
        )
    return _iterate_delimited(document, delimiter)


def _iterate_json_lines(document: Document) -> Iterator[Row]:
    # not splitlines(): U+2028 and its like may stand unescaped inside a JSON text
    for number, line in enumerate(document.text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{document.path}: line {number}"
        try:
            value = parse_json(line)
        except JSONFault as fault:
            raise InputError(f"{place}: not valid JSON: {fault}") from None
        entry = expect_object(value, place)
        yield Row(expect_field(entry, "image", place), expect_field(entry, "caption", place), place)


def _iterate_delimited(document: Document, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(document.text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = _header(next(reader))
        image, caption = (header.index(column) for column in COLUMNS)
        for cells in reader:
            if not cells:
                continue
            place = f"{document.path}: line {reader.line_num}"
            if len(cells) != len(header):
                raise InputError(
                    f"{place}: {len(cells)} columns; expected {len(header)} as in the header "
                    "(a text with the separator or a quote in it must be quoted)"
                )
            yield Row(cells[image], cells[caption], place)
    except csv.Error as error:
        place, kind = f"{document.path}: line {reader.line_num}", _DELIMITERS[delimiter]
        fault = f"{error}; a quote that opens a text must close it, a quote inside is doubled"
        if "field larger" in str(error):
            fault = (
                f"a text of more than {csv.field_size_limit():,} characters; close the quote that opens it, "
                "or split the text"
            )
        raise InputError(f"{place}: not a valid {kind} row: {fault}") from None


def _is_json_lines(text: str) -> bool:
    row = parse_object(_first_line(text))
    return row is not None and all(column in row for column in COLUMNS)


def _find_delimiter(text: str) -> str | None:
    for delimiter in _DELIMITERS:
        try:
            header = _header(next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), []))
        except csv.Error:
            continue
        if all(header.count(column) == 1 for column in COLUMNS):
            return delimiter
    return None


def _header(cells: list[str]) -> list[str]:
    return [cell.strip().lower() for cell in cells]


def _first_line(text: str) -> str:
    return text.lstrip().split("\n", 1)[0].rstrip()


READER = TableReader()
