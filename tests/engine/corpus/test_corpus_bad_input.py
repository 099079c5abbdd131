"""What a user can give wrongly ends in one line that names it, and in exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import run
from engine.corpus import load_corpus, read_corpus
from engine.corpus.registry import READERS
from engine.errors import InputError

GOOD = {"image": "a.jpg", "caption": ["a dog"]}
COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}],
    "annotations": [{"id": 1, "image_id": 1, "caption": "x"}],
}


def karpathy(**changes: object) -> dict[str, object]:
    entry = {"filename": "a.jpg", "split": "test", "sentences": [{"raw": "x", "sentid": 1}], "cocoid": 1}
    return {"images": [{**entry, **changes}]}


JSON_CASES: dict[str, tuple[object, str]] = {
    "entry is no object": (
        [GOOD, "b.jpg"],
        r"entry 1 \(from 0\): found text \('b.jpg'\); expected an object",
    ),
    "no captions field": ([GOOD, {"image": "b.jpg"}], r"entry 1 \(from 0\): field 'caption' is missing"),
    "empty captions": ([GOOD, {"image": "b", "caption": []}], r"entry 1 .*field 'caption' is an empty list"),
    "captions a text": ([GOOD, {"image": "b", "caption": "x"}], r"entry 1 .*field 'caption' is text \('x'\)"),
    "caption a number": (
        [GOOD, {"image": "b", "caption": ["x", 3]}],
        r"entry 1 .*caption 1 is a number \(3\)",
    ),
    "caption null": (
        [GOOD, {"image": "b", "caption": [None]}],
        r"entry 1 .*caption 0 is null; expected text",
    ),
    "caption half a pair": (
        [GOOD, {"image": "b", "caption": ["\ud800"]}],
        r"entry 1 .*half a surrogate pair",
    ),
    "caption with NUL": ([GOOD, {"image": "b", "caption": ["a\0b"]}], r"entry 1 .*caption 0 holds a NUL"),
    "image a list": ([GOOD, {"image": ["b"], "caption": ["x"]}], r"entry 1 .*field 'image' is a list of 1"),
    "image empty": ([GOOD, {"image": "", "caption": ["x"]}], r"entry 1 .*field 'image' is empty"),
    "image twice": ([GOOD, GOOD], r"entry 1 \(from 0\): image id 'a.jpg' is there already \(entry 0"),
    "image twice, other spelling": (
        [GOOD, {**GOOD, "image": "./a.jpg"}],
        r"image id 'a.jpg' is there already",
    ),
    "empty list": ([], r"is JSON, but no corpus: found an empty list; known layouts are karpathy: .*table:"),
    "other JSON": ({"name": "x", "version": 2}, r"found an object with the fields 'name', 'version'; known"),
    "other list": ([[1, 2]], r"found a list of 1, the first a list of 2; known layouts"),
    "karpathy no split": (karpathy(split=3), r"image 0 .*field 'split' is a number \(3\)"),
    "karpathy sentence": (karpathy(sentences=["x"]), r"image 0 .*sentence 0: found text"),
    "karpathy raw": (
        karpathy(sentences=[{"raw": 1}]),
        r"image 0 .*sentence 0: field 'raw' is a number \(1\)",
    ),
    "karpathy empty": (karpathy(sentences=[]), r"split 'test' has 1 images and no sentence"),
    "karpathy id": (karpathy(cocoid=True), r"image 0 .*field 'cocoid' is true; expected a whole number"),
    "karpathy path": (karpathy(filepath="../x"), r"image 0 .*leads out of the image folder: '../x/a.jpg'"),
    "karpathy sentid twice": (
        karpathy(sentences=[{"raw": "x", "sentid": 1}, {"raw": "y", "sentid": 1}]),
        r"image 0 .*sentence 1: caption id '1' is there already",
    ),
    "coco image twice": ({**COCO, "images": COCO["images"] * 2}, r"image 1 .*image id '1' is there already"),
    "coco caption twice": (
        {**COCO, "annotations": COCO["annotations"] * 2},
        r"annotation 1 .*caption id '1' is there already",
    ),
    "coco stray caption": (
        {**COCO, "annotations": [{"id": 1, "image_id": 9, "caption": "x"}]},
        r"annotation 0 .*field 'image_id' is '9'; expected the id of one of 'images'",
    ),
    "coco no caption": (
        {**COCO, "annotations": [*COCO["annotations"], {"id": 2, "image_id": 1}]},
        r"annotation 1 .*field 'caption' is missing; found the fields 'id', 'image_id'",
    ),
    "coco instances": ({**COCO, "annotations": [{"id": 1, "bbox": []}]}, r"is JSON, but no corpus"),
}
ESCAPES = ["../a.jpg", "/etc/passwd", "a/../../b.jpg", "..", "C:\\a.jpg", "a\\..\\..\\b.jpg"]
TEXT_CASES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\n", "the file is empty"),
    "no JSON": (
        b'[{"image": "a.jpg",\n "caption": oops}]',
        r"not valid JSON: line 2 column 13: Expecting value$",
    ),
    "cut off in a list": (json.dumps([GOOD, GOOD]).encode()[:-20], r"line 1 column \d+: .*cut off\?"),
    "cut off in a text": (
        json.dumps([GOOD]).encode()[:-5],
        r"line 1 column 33: Unterminated string.*cut off\?",
    ),
    "not UTF-8": (b"image,caption\na.jpg,caf\xe9\n", r"line 2: byte 23 \(0xe9\) is not UTF-8"),
    "nested": (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
    "long number": (b"[" + b"1" * 10_000 + b"]", "thousands of digits|is JSON, but no corpus"),
    "key twice": (
        b'[{"image": "a.jpg", "caption": ["x"], "caption": ["y"]}]',
        "the key 'caption' stands twice in one object",
    ),
    "key twice in a line": (
        b'{"image": "a.jpg", "caption": "x"}\n{"image": "b.jpg", "image": "c.jpg", "caption": "x"}\n',
        "line 2: not valid JSON: the key 'image' stands twice",
    ),
    "key twice in the first line": (
        b'{"image": "b.jpg", "image": "c.jpg", "caption": "x"}\n',
        "line 1: not valid JSON: the key 'image' stands twice",
    ),
    "long cell": (
        b'image,caption\na.jpg,"' + b"x " * 100_000 + b'"\n',
        "line 2: not a valid CSV row: a text of more than 131,072 characters; close the quote",
    ),
    "binary": (b"\x89PNG\r\n\x1a\n", r"line 1: byte 0 \(0x89\) is not UTF-8"),
    "other table": (
        b"picture,text\na.jpg,x\n",
        r"neither JSON nor a table .*'picture,text'; known layouts are",
    ),
    "prose": (b"hello\nworld", r"neither JSON nor a table with a known header: the first line is 'hello'"),
    "header only": (b"image,caption\n", "a header and no row"),
    "too many cells": (b"image,caption\na.jpg,x\na.jpg,one, two\n", "line 3: 3 columns; expected 2"),
    "too few cells": (b"image,caption\na.jpg\n", "line 2: 1 columns; expected 2"),
    "open quote": (b'image,caption\na.jpg,"one\nb.jpg,two\n', "not a valid CSV row"),
    "no image": (b"image,caption\n,x\n", "line 2: column 'image' is empty"),
    "other lines": (
        b'{"target": "a.jpg", "text": "x"}\n{"target": "b.jpg"}\n',
        "looks like JSON Lines, but its first",
    ),
    "broken line": (b'{"image": "a.jpg", "caption": "x"}\n{"image": \n', "line 2: not valid JSON"),
    "line without caption": (
        b'{"image": "a", "caption": "x"}\n{"image": "a"}\n',
        "line 2: field 'caption' is missing",
    ),
    "line with number": (b'{"image": "a", "caption": 1}\n', r"line 1: column 'caption' is a number \(1\)"),
    "line nested": (b'{"image": "a", "caption": "x"}\n' + b"[" * 200_000, "line 2: not valid JSON"),
}


def check(path: Path, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The library raises InputError with `message`; the command line prints it on one line and returns 2."""
    with pytest.raises(InputError, match=message) as error:
        read_corpus(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert run(["corpus", "inspect", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("case", JSON_CASES)
def test_a_wrong_shape_names_entry_and_field(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, message = JSON_CASES[case]
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps(value))
    check(path, message, capsys)


@pytest.mark.parametrize("case", TEXT_CASES)
def test_a_file_that_is_no_corpus(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, message = TEXT_CASES[case]
    path = tmp_path / "corpus.json"
    path.write_bytes(data)
    check(path, message, capsys)


@pytest.mark.parametrize("file", ESCAPES)
def test_an_image_field_cannot_leave_the_folder(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps([GOOD, {"image": file, "caption": ["x"]}]))
    check(path, r"entry 1 .*field 'image' leads out of the image folder", capsys)


def test_a_missing_file_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(tmp_path / "nothing.json", "no such file", capsys)
    check(tmp_path, "is a folder; expected a corpus file", capsys)


def test_a_missing_image_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps([GOOD]))
    for images, found in ((tmp_path / "none", "nothing"), (path, "a file")):
        assert run(["corpus", "inspect", str(path), "--images", str(images)]) == 2
        printed = capsys.readouterr()
        assert (
            printed.err
            == f"error: image folder {images}: found {found}; expected a folder, give it with --images\n"
        )
        assert printed.out == ""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b"[[]]", b"hello", b'{"images": 3}', b'{"images": [{}]}', b'[{"image": 1}]']
)
def test_a_named_reader_meets_a_foreign_file_with_one_line(reader: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"^[^\n]*$"):
        load_corpus(path, reader=reader)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "image",
                    "caption",
                    "images",
                    "annotations",
                    "sentences",
                    "split",
                    "filename",
                    "raw",
                    "id",
                    "file_name",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(value=json_values, reader=st.sampled_from([None, *READERS]))
@settings(max_examples=300, deadline=None)
def test_any_json_is_read_or_refused_in_one_line(
    value: object, reader: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value))
    try:
        outcome = read_corpus(path, reader=reader)
    except InputError as error:
        outcome = str(error)
    assert "\n" not in outcome if isinstance(outcome, str) else outcome.captions
