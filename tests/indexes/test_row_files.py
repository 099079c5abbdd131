"""Row files: what is read is what was written, and every file that cannot be trusted is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexes.errors import SearchInputError
from indexes.files import FileRows, open_fbin, open_npy


def write_fbin(path: Path, rows: np.ndarray, header: tuple[int, int] | None = None) -> Path:
    path.write_bytes(np.array(header or rows.shape, "<u4").tobytes() + rows.astype("<f4").tobytes())
    return path


def write_npy(path: Path, rows: Any) -> Path:
    np.save(path, rows)
    return path


OPENERS = {"npy": (write_npy, open_npy), "fbin": (write_fbin, open_fbin)}


@pytest.mark.parametrize("kind", OPENERS)
@pytest.mark.parametrize(("start", "stop"), [(0, 9), (3, 4), (8, 9), (4, 4)])
def test_any_stretch_is_read_as_written(tmp_path, unit_rows, kind, start, stop):
    rows = unit_rows(1, 9, 5)
    write, open_rows = OPENERS[kind]
    source = open_rows(
        write(tmp_path / "rows", rows) if kind == "fbin" else write(tmp_path / "rows.npy", rows)
    )
    assert source.shape == (9, 5)
    np.testing.assert_array_equal(source.read(start, stop), rows[start:stop])
    source.close()


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
def test_every_float_is_read_in_native_order(tmp_path, unit_rows, dtype):
    rows = unit_rows(2, 4, 3).astype(dtype)
    found = open_npy(write_npy(tmp_path / "rows.npy", rows)).read(1, 4)
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, rows[1:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros(4, "f4"), r"shape \(4,\), expected \[rows, dim\]"),
        (np.zeros((2, 0), "f4"), r"shape \(2, 0\)"),
        (np.zeros((3, 2), "i4"), "holds int32, expected float16, float32 or float64"),
        (np.asfortranarray(np.zeros((3, 2), "f4")), "in Fortran order"),
        (np.array([[None]]), "holds object"),
    ],
)
def test_an_array_that_is_no_table_of_floats_is_refused(tmp_path, content, message):
    np.save(tmp_path / "rows.npy", content, allow_pickle=True)
    with pytest.raises(SearchInputError, match=message) as error:
        open_npy(tmp_path / "rows.npy")
    assert str(error.value).startswith(str(tmp_path / "rows.npy"))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not an array at all", b"\x93NUMPY\x09\x00"])
def test_a_file_that_is_no_npy_is_refused(tmp_path, content):
    (tmp_path / "rows.npy").write_bytes(content)
    with pytest.raises(SearchInputError, match=r"not a \.npy file"):
        open_npy(tmp_path / "rows.npy")


@pytest.mark.parametrize("open_rows", [open_npy, open_fbin])
def test_a_missing_file_or_a_folder_is_named(tmp_path, open_rows):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SearchInputError, match=f"{path}: cannot be read"):
            open_rows(path)


@pytest.mark.parametrize("cut", [-1, -40, 3])
@pytest.mark.parametrize("kind", OPENERS)
def test_a_size_that_is_not_the_headers_is_refused(tmp_path, unit_rows, kind, cut):
    write, open_rows = OPENERS[kind]
    path = write(tmp_path / "rows.npy", unit_rows(1, 9, 5))
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] if cut < 0 else whole + bytes(cut))
    with pytest.raises(
        SearchInputError, match=rf"{len(whole) + cut:,} bytes, its header .* says {len(whole):,}"
    ):
        open_rows(path)


@pytest.mark.parametrize("header", [(0, 5), (9, 0), (2**32 - 1, 2**32 - 1)])
def test_an_absurd_fbin_header_is_refused(tmp_path, unit_rows, header):
    with pytest.raises(SearchInputError, match="header"):
        open_fbin(write_fbin(tmp_path / "rows.fbin", unit_rows(1, 9, 5), header))
    (tmp_path / "short.fbin").write_bytes(b"1234")
    with pytest.raises(SearchInputError, match="4 bytes, expected the 8"):
        open_fbin(tmp_path / "short.fbin")


def test_a_file_cut_off_or_written_to_after_opening_is_an_error_not_a_crash(tmp_path, unit_rows):
    path = write_fbin(tmp_path / "rows.fbin", unit_rows(1, 9, 5))
    source = open_fbin(path)
    source.read(0, 9)
    with path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(SearchInputError, match=r"cut off at 100 of 188 bytes while rows 2 to 4 were read"):
        source.read(2, 5)
    source = FileRows(write_fbin(path, unit_rows(1, 9, 5)), 8, (9, 5), np.dtype("<f4"))
    os.utime(path, ns=(0, 0))
    with pytest.raises(SearchInputError, match="written to while"):
        source.read(0, 1)


def test_a_replaced_file_keeps_its_old_content(tmp_path, unit_rows):
    rows = unit_rows(1, 9, 5)
    source = open_fbin(write_fbin(tmp_path / "rows.fbin", rows))
    write_fbin(tmp_path / "new.fbin", unit_rows(2, 3, 5)).replace(tmp_path / "rows.fbin")
    np.testing.assert_array_equal(source.read(0, 9), rows)
