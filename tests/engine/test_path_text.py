"""Any path becomes text that JSON, HDF5 and Parquet take, and UTF-8 is never touched."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.path_text import path_text, storable


@given(st.text(st.characters(codec="utf-8")))
def test_valid_text_stays(text: str) -> None:
    assert path_text(text) == text


@given(st.binary())
def test_every_file_name_becomes_valid_text(name: bytes) -> None:
    path_text(name.decode("utf-8", "surrogateescape")).encode()


@given(st.text(st.characters(codec="utf-8")))
def test_utf_8_that_the_c_locale_did_not_know_is_read(text: str) -> None:
    assert path_text(text.encode().decode("ascii", "surrogateescape")) == text


def test_a_byte_that_is_no_text_is_escaped() -> None:
    assert path_text(Path("a", b"\xff.json".decode("utf-8", "surrogateescape"))) == "a/\\xff.json"
    assert path_text("\ud800") == "\\ud800"


def test_texts_inside_a_value_are_escaped() -> None:
    value = {"a\udcff": ["\udcff", {"b": ("\udcff", 1, None, True)}], "c": 0.5}
    assert storable(value) == {"a\\xff": ["\\xff", {"b": ["\\xff", 1, None, True]}], "c": 0.5}
