"""Similarity matrices made elsewhere: whatever the file, the same store; what does not fit is one line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.cli.main import run
from engine.store import similarities
from engine.store.reader import open_store

IMAGES, CAPTIONS = 4, 10
Matrix = NDArray[np.float64]
Save = Callable[[Path, Matrix], Path]


def save_npy(folder: Path, matrix: Matrix) -> Path:
    np.save(folder / "s.npy", matrix)
    return folder / "s.npy"


def save_fortran(folder: Path, matrix: Matrix) -> Path:
    np.save(folder / "f.npy", np.asfortranarray(matrix.astype(np.float32)))
    return folder / "f.npy"


def save_npz(folder: Path, matrix: Matrix) -> Path:
    np.savez(folder / "s.npz", npts=np.array(IMAGES), sims=matrix)
    return folder / "s.npz"


def save_compressed(folder: Path, matrix: Matrix) -> Path:
    np.savez_compressed(folder / "c.npz", sims=np.asfortranarray(matrix))
    return folder / "c.npz"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of uneven captions, two variants as files, and small blocks."""
    monkeypatch.setattr(similarities, "BLOCK_BYTES", 200)
    monkeypatch.setattr(similarities, "COPY_BYTES", 64)
    rows = [f"{min(i // 2, IMAGES - 1)}.png,a dog number {i}" for i in range(CAPTIONS)]
    (tmp_path / "c.csv").write_text("image,caption\n" + "\n".join(rows) + "\n")
    return tmp_path


def make_matrix(rows: int = IMAGES, columns: int = CAPTIONS, seed: int = 0) -> Matrix:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def go(folder: Path, file: Path, *options: str) -> int:
    named = ["--similarities", str(file), "--corpus", str(folder / "c.csv"), "--model", "mine"]
    return run(["import", *named, "--out", str(folder / "s.h5"), *options])


def rows_of(path: Path, modality: str, name: str) -> NDArray[np.float32]:
    with open_store(path) as store:
        found = store.load(modality, name)
        return found.rows.read(0, len(found.ids))


@pytest.mark.parametrize("save", [save_npy, save_fortran, save_npz, save_compressed])
def test_a_captions_row_is_the_matrix_column_whatever_the_file(folder: Path, save: Save) -> None:
    matrix = make_matrix()
    assert go(folder, save(folder, matrix)) == 0
    np.testing.assert_array_equal(
        rows_of(folder / "s.h5", "captions", "original"), matrix.T.astype(np.float32)
    )
    assert rows_of(folder / "s.h5", "images", "original").shape == (IMAGES, 0)


def test_variants_bring_their_own_columns_and_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, mix = make_matrix(columns=CAPTIONS, seed=1), make_matrix(IMAGES, CAPTIONS, seed=2)
    np.save(folder / "words.npy", words)
    np.save(folder / "mix.npy", mix)
    typos, drawn = "char_swap:seed=0", "mix:0.5:seed=0"
    options = [f"{typos}={folder}/words.npy", f"{drawn}={folder}/mix.npy"]
    assert go(folder, save_npy(folder, make_matrix()), *(f"--variant={one}" for one in options)) == 0
    np.testing.assert_array_equal(rows_of(folder / "s.h5", "captions", typos), words.T.astype(np.float32))
    np.testing.assert_array_equal(rows_of(folder / "s.h5", "images", drawn), mix.astype(np.float32))
    capsys.readouterr()
    assert run(["evaluate", str(folder / "s.h5"), "--resamples", "0"]) == 0
    assert drawn in capsys.readouterr().out


def poisoned(row: int, column: int, value: float) -> Matrix:
    matrix = make_matrix()
    matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (lambda f: save_npy(f, poisoned(2, 7, np.nan)), "s.npy: row 2, column 7 is nan; expected a finite"),
        (lambda f: save_npz(f, poisoned(3, 0, np.inf)), "s.npz: row 3, column 0 is inf; expected a finite"),
        (lambda f: save_npy(f, poisoned(1, 9, 1e300)), "row 1, column 9 is 1e+300; expected a finite"),
        (
            lambda f: save_npy(f, make_matrix(IMAGES, 9)),
            "has shape [4, 9], expected [4, 10]: corpus c has 4 im",
        ),
        (
            lambda f: save_npz(f, make_matrix(CAPTIONS, IMAGES)),
            "expected [4, 10]: corpus c has 4 images and 10",
        ),
        (lambda f: save_npz(f, make_matrix(CAPTIONS, IMAGES)), "; transpose it"),
        (lambda f: save_npy(f, make_matrix().astype(int)), "s.npy holds int64, expected float16"),
        (lambda f: save_npz(f, make_matrix().astype(object)), "'sims' holds object; expected float16"),
        (lambda f: named_otherwise(f), "no array 'sims' in it; found npts, scores"),
        (lambda f: cut_off(save_npz(f, make_matrix())), "s.npz is not a whole .npz file of numbers"),
        (lambda f: too_short(f), "s.npz is not a whole .npz file of numbers (cut off, 80 of 320 bytes"),
        (lambda f: f / "none.npz", "none.npz: no such file; expected a similarity matrix"),
        (lambda f: f / "none.npy", "none.npy: no such file"),
        (lambda f: f / "c.csv", "c.csv is not a whole .npy file of numbers"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(
    folder: Path, file: Callable[[Path], Path], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(folder)
    before = {one.name for one in folder.iterdir()}
    assert go(folder, path) == 2
    error = capsys.readouterr().err
    assert said in error
    assert [line for line in error.splitlines() if line.startswith("error: ")] == [error.splitlines()[-1]]
    assert {one.name for one in folder.iterdir()} == before


def named_otherwise(folder: Path) -> Path:
    np.savez(folder / "s.npz", npts=np.array(1), scores=make_matrix())
    return folder / "s.npz"


def cut_off(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:200])
    return path


def too_short(folder: Path) -> Path:
    """An array whose head promises more than follows."""
    whole = save_npy(folder, make_matrix()).read_bytes()
    with zipfile.ZipFile(folder / "s.npz", "w") as archive:
        archive.writestr("sims.npy", whole[: len(whole) - 80])
    return folder / "s.npz"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--images", "a.npy"], "--similarities was given with --images; give one or the other"),
        (["--clip-retrieval", "a"], "--similarities was given with --clip-retrieval"),
        (["--dtype", "float16"], "--dtype float16: scores are kept as float32"),
        (["--variant", "char_swap"], "--variant char_swap: expected SPEC=FILE"),
    ],
)
def test_options_that_do_not_go_together(
    folder: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(folder, save_npy(folder, make_matrix()), *options) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "s.h5").exists()


def test_the_corpus_is_needed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = save_npy(folder, make_matrix())
    assert run(["import", "--similarities", str(file), "--model", "m", "--out", str(folder / "s.h5")]) == 2
    assert "--corpus missing; --similarities needs the corpus" in capsys.readouterr().err


def test_the_shape_of_a_variant_is_that_of_its_items(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "v.npy", make_matrix(IMAGES, CAPTIONS + 1))
    assert go(folder, save_npy(folder, make_matrix()), "--variant", f"char_swap={folder}/v.npy") == 2
    assert "variant char_swap:seed=0 has 10 items, the corpus 4 images" in capsys.readouterr().err
    assert go(folder, save_npy(folder, make_matrix()), "--variant", f"mix:0.5={folder}/v.npy") == 2
    assert "variant mix:0.5:seed=0 has 4 items, the corpus 10 captions" in capsys.readouterr().err
