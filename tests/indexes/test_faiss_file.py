"""Files of flat FAISS indexes: the same bytes as FAISS writes, and nothing but what the header may say."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from indexes.errors import SearchInputError
from indexes.faiss_file import FLAT_HEADER, flat_header, open_flat

ROWS, DIM = 7, 5
TABLE = np.random.default_rng(3).standard_normal((ROWS, DIM)).astype(np.float32)


def written(index: faiss.Index, path: Path) -> Path:
    index.add(TABLE)
    faiss.write_index(index, str(path))
    return path


def test_our_file_is_the_file_that_faiss_writes(tmp_path: Path) -> None:
    theirs = written(faiss.IndexFlatIP(DIM), tmp_path / "theirs.faiss")
    ours = tmp_path / "ours.faiss"
    ours.write_bytes(flat_header(ROWS, DIM) + TABLE.tobytes())
    assert ours.read_bytes() == theirs.read_bytes()
    found = faiss.read_index(str(ours))
    assert (type(found), found.metric_type) == (faiss.IndexFlatIP, faiss.METRIC_INNER_PRODUCT)
    np.testing.assert_array_equal(found.reconstruct_n(0, ROWS), TABLE)


def test_the_rows_of_a_file_of_faiss_are_read(tmp_path: Path) -> None:
    rows = open_flat(written(faiss.IndexFlatIP(DIM), tmp_path / "theirs.index"))
    assert rows.shape == (ROWS, DIM)
    np.testing.assert_array_equal(rows.read(2, 6), TABLE[2:6])
    rows.close()


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (faiss.IndexFlatL2(DIM), "IxF2"),
        (faiss.index_factory(DIM, "Flat", faiss.METRIC_L1), "IxFl"),
        (faiss.IndexHNSWFlat(DIM, 4), "IHNf"),
        (faiss.IndexPreTransform(faiss.IndexFlatIP(DIM)), "IxPT"),
    ],
)
def test_other_kinds_of_indexes_are_refused(tmp_path: Path, index: faiss.Index, kind: str) -> None:
    path = written(index, tmp_path / "a.faiss")
    if kind.startswith("Ix"):
        with pytest.raises(SearchInputError, match=rf"kind '{kind}', expected 'IxFI', flat and for inner"):
            open_flat(path)
    else:
        with pytest.raises(SearchInputError, match="no file of a FAISS index"):
            open_flat(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rows", 1 << 60, "its header says 1,152,921,504,606,846,976 rows of 5 in 35 numbers"),
        ("rows", -7, "rows of 5 in 35 numbers"),
        ("rows", 0, "expected at least one row"),
        ("dim", -5, "7 rows of -5"),
        ("floats", 1 << 62, "sizes that agree"),
        ("metric", 1, "its metric is 1, expected 0"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(
    tmp_path: Path, field: str, value: int, message: str
) -> None:
    path = tmp_path / "a.faiss"
    header = np.frombuffer(flat_header(ROWS, DIM), FLAT_HEADER).copy()
    header[field] = value
    path.write_bytes(header.tobytes() + TABLE.tobytes())
    with pytest.raises(SearchInputError, match=message):
        open_flat(path)


def test_sizes_that_agree_are_held_against_the_file_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.faiss"
    path.write_bytes(flat_header(1 << 40, 1 << 10) + TABLE.tobytes())
    with pytest.raises(SearchInputError, match=r"185 bytes, its header .* says 4,503,599,627,370,541"):
        open_flat(path)


@pytest.mark.parametrize("size", [0, 3, 44, 45, 45 + 4 * ROWS * DIM - 1])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.faiss"
    path.write_bytes((flat_header(ROWS, DIM) + TABLE.tobytes())[:size])
    with pytest.raises(SearchInputError, match=r"a\.faiss: (no file of a FAISS index|cut off|.*its header)"):
        open_flat(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SearchInputError, match=r"none\.faiss: cannot be read"):
        open_flat(tmp_path / "none.faiss")
