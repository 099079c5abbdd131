"""Reading a variant's file (`engine.variants.variant_file`): untrusted, so that every line is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args

from engine.corpus.corpus import Corpus
from engine.corpus.document import parse_json
from engine.corpus.shape import describe, expect_field, expect_id, expect_object, expect_text, shorten
from engine.errors import InputError, unknown_name
from engine.inputs import check_regular_file
from engine.variants.checks import contradiction, require_change
from engine.variants.recipes import DescribedRecipe, recipe_from_json
from engine.variants.variant import ImageRecipe, Modality, Side, VariantItem, VariantItems
from engine.variants.variant_file import MARK, SCHEMA, Header, original_ids

LARGEST_FILE = 1 << 32
LONGEST_LINE = 1 << 20
LONGEST_NAME = 255
"""Bytes of a variant's name: what a set's name in a store may have."""
ORIGINAL = "original"

SIDES: tuple[Side, ...] = get_args(Side)
MODALITIES: tuple[Modality, ...] = get_args(Modality)
CONTENT_FIELDS: Mapping[Modality, str] = {"captions": "text", "images": "recipe"}
CORPUS_FIELDS = ("name", "fingerprint", "normalisation", *MODALITIES)
HEADER_FIELDS = (
    *(MARK, "name", "family", "parameters", "seed", "side", "modality", "corpus"),
    *("items", "left_out", "changed_rate", "made_with", "versions"),
)
EXPECTED = "a file of `itrstress variants make`"


def read_header(path: Path) -> Header:
    """The header of a file. Raises `InputError` when it is no such file, or of another schema."""
    return _parse_header(path, next(iter(_lines(path)), (1, b""))[1])


def read_variant_file(path: Path, corpus: Corpus) -> tuple[Header, VariantItems]:
    """The header and the items of a file made for this corpus.

    Raises `InputError` (file, line, field) for a file that is too large, cut off or not as the module says,
    for another corpus, for ids that the corpus does not have or that are there twice, for texts that belie
    their `changed`, for recipes that do not fit the corpus, and when no item is changed.
    """
    lines = _lines(path)
    header = _parse_header(path, next(lines, (1, b""))[1])
    _check_corpus(path, header, corpus)
    reader = _ItemReader(path, header, corpus)
    for number, line in lines:
        reader.take(number, line)
    items = VariantItems(tuple(reader.items), reader.left_out, header.made_with)
    for what, found, expected in (
        ("items", len(items.items), header.items),
        ("originals left out", len(items.left_out), header.left_out),
    ):
        if found != expected:
            raise InputError(
                f"{path}: {found:,} {what}; expected {expected:,} as in its header; the file is cut off or "
                "was changed, make it again"
            )
    if not math.isclose(items.changed_rate, header.changed_rate, abs_tol=1e-9):
        raise InputError(
            f"{path}: changed rate {items.changed_rate:.4f}; expected {header.changed_rate:.4f} as in its "
            "header; the file was changed, make it again"
        )
    return header, require_change(header.name, items)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers from 1, none longer than `LONGEST_LINE`."""
    size = check_regular_file(path, EXPECTED).st_size
    if size > LARGEST_FILE:
        raise InputError(f"{path}: {size:,} bytes; expected {LARGEST_FILE:,} at most in {EXPECTED}")
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{path} line {number}: longer than {LONGEST_LINE:,} bytes; expected {EXPECTED}"
                )
            yield number, line


def _record(place: str, line: bytes) -> dict[str, Any]:
    try:
        record = expect_object(parse_json(line.decode("utf-8")), place)
        if b"NaN" in line or b"Infinity" in line:  # also words of a caption; numbers only as Python's own
            json.dumps(record, allow_nan=False)
    except UnicodeDecodeError:
        raise InputError(f"{place}: not UTF-8; expected {EXPECTED}") from None
    except ValueError as fault:  # `JSONFault` is one
        raise InputError(f"{place}: not valid JSON ({fault}); expected one record a line") from None
    return record


def _parse_header(path: Path, line: bytes) -> Header:
    place = f"{path} line 1"
    if not line.startswith(b"{"):
        raise InputError(f"{place}: no header of a variant; expected {EXPECTED}")
    record = _record(place, line)
    if not (_is_whole(record.get(MARK)) and record[MARK] == SCHEMA):
        found = f"{describe(record[MARK])} in the field {MARK!r}" if MARK in record else f"no field {MARK!r}"
        raise InputError(f"{place}: {found}; expected {SCHEMA}, as in {EXPECTED}")
    inner = f"{place}: field 'corpus'"
    corpus = expect_object(expect_field(record, "corpus", place), inner)
    _expect_known(record, HEADER_FIELDS, place)
    _expect_known(corpus, CORPUS_FIELDS, inner)
    return Header(
        name=_variant_name(expect_field(record, "name", place), place),
        side=_one_of(record, "side", SIDES, place),
        modality=_one_of(record, "modality", MODALITIES, place),
        corpus=expect_text(expect_field(corpus, "name", inner), f"{inner}: 'name'"),
        fingerprint=expect_text(expect_field(corpus, "fingerprint", inner), f"{inner}: 'fingerprint'"),
        normalisation=expect_text(expect_field(corpus, "normalisation", inner), f"{inner}: 'normalisation'"),
        rows={modality: _count(corpus, modality, inner) for modality in MODALITIES},
        items=_count(record, "items", place),
        left_out=_count(record, "left_out", place),
        changed_rate=_rate(record, place),
        family=_family(record, place),
        parameters=_parameters(record, place),
        made_with=expect_object(record.get("made_with", {}), f"{place}: field 'made_with'"),
        versions=_versions(record, place),
    )


def _expect_known(record: dict[str, Any], known: Sequence[str], place: str) -> None:
    for name in record:
        if name not in known:
            raise InputError(f"{place}: {unknown_name('field', shorten(name), known)}")


def _family(record: dict[str, Any], place: str) -> str | None:
    family = record.get("family")
    return None if family is None else expect_text(family, f"{place}: field 'family'")


def _parameters(record: dict[str, Any], place: str) -> dict[str, Any]:
    """The parameters, and among them the seed, which is there twice in our files."""
    inner = f"{place}: field 'parameters'"
    parameters = expect_object(record.get("parameters", {}), inner)
    seeds = {
        _count(one, "seed", where) for one, where in ((record, place), (parameters, inner)) if _seeded(one)
    }
    if len(seeds) > 1:
        raise InputError(f"{place}: field 'seed' is not the seed among the parameters; expected the same")
    return {**parameters, "seed": seeds.pop()} if seeds else parameters


def _seeded(record: dict[str, Any]) -> bool:
    return record.get("seed") is not None


def _versions(record: dict[str, Any], place: str) -> dict[str, str]:
    inner = f"{place}: field 'versions'"
    versions = expect_object(record.get("versions", {}), inner)
    return {name: expect_text(version, f"{inner}: {shorten(name)!r}") for name, version in versions.items()}


def _variant_name(value: Any, place: str) -> str:
    """A name that a set of a store can have."""
    name = expect_text(value, f"{place}: field 'name'")
    if not name or not name.isprintable() or "/" in name or name in (ORIGINAL, ".", ".."):
        raise InputError(
            f"{place}: field 'name' is {shorten(repr(name))}; expected a variant's name: printable text "
            f"without '/', not {ORIGINAL!r}"
        )
    if len(name.encode()) > LONGEST_NAME:
        raise InputError(f"{place}: field 'name' is longer than {LONGEST_NAME} bytes: {shorten(repr(name))}")
    return name


def _one_of(record: dict[str, Any], name: str, known: Iterable[Any], place: str) -> Any:
    value = expect_field(record, name, place)
    if value not in known:
        raise InputError(f"{place}: field {name!r} is {describe(value)}; expected {' or '.join(known)}")
    return value


def _count(record: dict[str, Any], name: str, place: str) -> int:
    value = expect_field(record, name, place)
    if not _is_whole(value) or value < 0:
        raise InputError(f"{place}: field {name!r} is {describe(value)}; expected a whole number from 0 up")
    return value


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _rate(record: dict[str, Any], place: str) -> float:
    value = expect_field(record, "changed_rate", place)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InputError(f"{place}: field 'changed_rate' is {describe(value)}; expected a number from 0 to 1")
    return float(value)


def _check_corpus(path: Path, header: Header, corpus: Corpus) -> None:
    if header.fingerprint == corpus.fingerprint:
        return
    if header.normalisation != corpus.normalisation:
        how = (
            f"its texts are {header.normalisation!r} and the corpus' {corpus.normalisation!r}; "
            f"use --normalisation {header.normalisation}, or make the variant again with this one"
        )
    else:
        how = (
            f"it has {header.rows['images']:,} images and {header.rows['captions']:,} captions, the corpus "
            f"{len(corpus.images):,} and {len(corpus.captions):,}; use that corpus, or make the variant again"
        )
    raise InputError(
        f"{path}: made from the corpus {shorten(header.corpus)!r} (fingerprint "
        f"{shorten(header.fingerprint, 12)}), not from {corpus.name!r} ({corpus.fingerprint[:9]}...): {how}"
    )


class _ItemReader:
    """Takes the lines after the header, in their order, into `items` and `left_out`."""

    def __init__(self, path: Path, header: Header, corpus: Corpus) -> None:
        self.items: list[VariantItem] = []
        self.left_out: dict[int, str] = {}
        self._path, self._header, self._corpus = path, header, corpus
        self._rows = {name: row for row, name in enumerate(original_ids(corpus, header.modality))}
        self._content = CONTENT_FIELDS[header.modality]
        self._fields = ("id", "original", self._content, "changed", "change")
        self._line_of_id: dict[str, int] = {}
        self._with_item: set[int] = set()

    def take(self, number: int, line: bytes) -> None:
        """Read one line. Raises `InputError` that begins with the file and the line."""
        place = f"{self._path} line {number}"
        record = _record(place, line)
        if "left_out" in record:
            self._take_left_out(record, place)
            return
        _expect_known(record, self._fields, place)
        row = self._row(record, place)
        item_id = self._id(record, number, place)
        content = self._read_content(record, row, place)
        self._check_room(row, place)
        changed = self._changed(record, row, content, place)
        self.items.append(VariantItem(item_id, row, content, changed, self._change(record, content, place)))

    def _changed(self, record: dict[str, Any], row: int, content: str | ImageRecipe, place: str) -> bool:
        changed = expect_field(record, "changed", place)
        if not isinstance(changed, bool):
            raise InputError(f"{place}: field 'changed' is {describe(changed)}; expected true or false")
        why = None
        if isinstance(content, str):
            why = contradiction(changed, self._corpus.captions[row].text, content)
        if why is not None:
            raise InputError(
                f"{place}: field 'changed' is {describe(changed)}, but {why}; expected "
                f"{describe(not changed)}: the file was changed, make it again"
            )
        return changed

    def _take_left_out(self, record: dict[str, Any], place: str) -> None:
        _expect_known(record, ("original", "left_out"), place)
        row = self._row(record, place)
        if row in self.left_out or row in self._with_item:
            raise InputError(f"{place}: original {record['original']!r} is there before; expected it once")
        self.left_out[row] = expect_text(record["left_out"], f"{place}: field 'left_out'")

    def _row(self, record: dict[str, Any], place: str) -> int:
        original = expect_id(expect_field(record, "original", place), f"{place}: field 'original'")
        if original not in self._rows:
            raise InputError(
                f"{place}: original {shorten(repr(original))} is none of the {len(self._rows):,} "
                f"{self._header.modality} of the corpus {self._corpus.name!r}; use the corpus that the file "
                "was made from"
            )
        return self._rows[original]

    def _id(self, record: dict[str, Any], number: int, place: str) -> str:
        item_id = expect_id(expect_field(record, "id", place), f"{place}: field 'id'")
        before = self._line_of_id.setdefault(item_id, number)
        if before != number:
            raise InputError(f"{place}: the id {shorten(repr(item_id))} is that of line {before}, too")
        return item_id

    def _read_content(self, record: dict[str, Any], row: int, place: str) -> str | ImageRecipe:
        value = expect_field(record, self._content, place)
        if self._header.modality == "captions":
            return expect_text(value, f"{place}: field 'text'")
        try:
            recipe = recipe_from_json(expect_object(value, f"{place}: field 'recipe'"))
        except InputError as error:
            message = str(error)
            raise InputError(message if message.startswith(place) else f"{place}: {message}") from None
        self._check_references(recipe, row, place)
        return recipe

    def _check_references(self, recipe: DescribedRecipe, row: int, place: str) -> None:
        images = self._corpus.images
        for reference in recipe.references:
            if reference.row >= len(images) or images[reference.row].id != reference.id:
                raise InputError(
                    f"{place}: the recipe draws from image {shorten(repr(reference.id))} in row "
                    f"{reference.row:,}, which the corpus {self._corpus.name!r} has not there; use the "
                    "corpus that the file was made from"
                )
        if recipe.sources[0] != row:
            raise InputError(
                f"{place}: the recipe draws from image {recipe.references[0].id!r}; expected the item's "
                f"original {images[row].id!r}"
            )

    def _change(self, record: dict[str, Any], content: str | ImageRecipe, place: str) -> Mapping[str, Any]:
        change = expect_object(record.get("change", {}), f"{place}: field 'change'")
        return change if isinstance(content, str) else {**change, **content.describe()}

    def _check_room(self, row: int, place: str) -> None:
        if len(self.items) >= self._header.items:
            raise InputError(
                f"{place}: one item more than the {self._header.items:,} of the header; the file was "
                "changed, make it again"
            )
        if row in self.left_out:
            raise InputError(f"{place}: the original is left out in a line before; expected one of the two")
        if self._header.side == "query" and row in self._with_item:
            raise InputError(
                f"{place}: a second item of one original; expected one, because a query variant replaces the "
                "queries"
            )
        self._with_item.add(row)
