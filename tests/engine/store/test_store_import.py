"""Embeddings made elsewhere come in normalised and in order, or not at all, with the file and row named."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from engine.cli.main import run
from engine.store import open_store
from indexes.errors import SearchInputError
from indexes.files import open_npy

IMAGES, CAPTIONS, DIM = 4, 9, 5
TEXTS = [f"Caption {row} of  things." for row in range(CAPTIONS)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A corpus table, embeddings of any length, and the working folder set to where they are."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"image": f"a/{row % IMAGES}.jpg", "caption": TEXTS[row]}) for row in range(CAPTIONS)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    np.save("i.npy", rows_of(IMAGES, seed=1))
    np.save("c.npy", rows_of(CAPTIONS, seed=2))
    return tmp_path


def rows_of(rows, dim=DIM, seed=0, dtype="f4"):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal((rows, dim)) * generator.uniform(0.1, 30, (rows, 1))).astype(dtype)


def unit(rows):
    """The slow oracle: one row at a time, in Python's own arithmetic."""
    return np.array([[float(x) / sum(float(y) ** 2 for y in row) ** 0.5 for x in row] for row in rows])


def imported(*options, images="i.npy", captions="c.npy", out="s.h5"):
    fixed = [
        "--images",
        images,
        "--captions",
        captions,
        "--corpus",
        "corpus.jsonl",
        "--model",
        "m",
        "--out",
        out,
    ]
    return run(["import", *fixed, *options])


def left_behind(folder):
    return sorted(
        entry.name for entry in folder.iterdir() if entry.name not in ("corpus.jsonl", "i.npy", "c.npy")
    )


@pytest.mark.parametrize(
    ("given", "kept"), [("f4", "float32"), ("f2", "float32"), (">f8", "float32"), ("f4", "float16")]
)
def test_rows_are_normalised_and_keep_their_order(folder, given, kept):
    np.save("c.npy", np.asfortranarray(rows_of(CAPTIONS, seed=2).astype(given)))
    assert imported("--dtype", kept) == 0
    with open_store(folder / "s.h5") as store:
        assert (store.header.encoder_spec, store.header.dim, store.header.dtype) == ("imported:m", DIM, kept)
        captions = store.load("captions", "original")
        expected = unit(rows_of(CAPTIONS, seed=2).astype(given))
        np.testing.assert_array_equal(
            captions.rows.read(0, CAPTIONS), expected.astype(np.float32).astype(kept)
        )
        assert captions.content == tuple(TEXTS)
        assert captions.image.tolist() == [row % IMAGES for row in range(CAPTIONS)]
        images = store.load("images", "original")
        np.testing.assert_allclose(images.rows.read(0, IMAGES), unit(rows_of(IMAGES, seed=1)), atol=1e-3)
    assert left_behind(folder) == ["s.h5"]


def test_lengths_beyond_float32_squares_are_normalised(folder):
    rows = rows_of(CAPTIONS, seed=2, dtype="f8")
    np.save("c.npy", rows * np.array([1e-200, 1e200, 1e-45] * 3)[:, None])
    assert imported() == 0
    with open_store(folder / "s.h5") as store:
        read = store.load("captions", "original").rows.read(0, CAPTIONS)
        np.testing.assert_allclose(read, unit(rows), rtol=1e-6)


def test_the_fingerprint_is_of_the_model_and_the_arrays(folder):
    def fingerprint(name):
        with open_store(folder / name) as store:
            return store.header.encoder_fingerprint

    assert imported(out="1.h5") == imported(out="2.h5") == imported("--model", "n", out="3.h5") == 0
    np.save("c.npy", rows_of(CAPTIONS, seed=3))
    assert imported(out="4.h5") == 0
    assert fingerprint("1.h5") == fingerprint("2.h5")
    assert len({fingerprint(f"{number}.h5") for number in (1, 3, 4)}) == 3


def with_value(value, row):
    rows = rows_of(CAPTIONS, seed=2)
    rows[row] = value
    return rows


@pytest.mark.parametrize(
    ("captions", "line"),
    [
        (rows_of(CAPTIONS - 1), "c.npy has 8 rows, corpus corpus has 9 captions; expected one row each"),
        (
            rows_of(CAPTIONS, dim=4),
            "c.npy has 4 dimensions, i.npy has 5; expected images and captions in one space",
        ),
        (with_value(np.nan, 7), "c.npy row 7 has NaN or infinite values"),
        (with_value(-np.inf, 8), "c.npy row 8 has NaN or infinite values"),
        (with_value(0, 3), "c.npy row 3 has only zeros"),
        (rows_of(CAPTIONS)[:, 0], r"c.npy has shape (9,), expected (rows, dimensions)"),
        (rows_of(CAPTIONS).astype(int), "c.npy holds int64, expected float16, float32 or float64"),
        (rows_of(CAPTIONS).astype(complex), "c.npy holds complex128"),
        (np.array([{}], dtype=object), "c.npy is not a whole .npy file of numbers"),
        (np.zeros((0, DIM), "f4"), "c.npy"),
    ],
)
def test_arrays_that_do_not_fit_are_named_and_nothing_is_left(folder, capsys, captions, line):
    np.save("c.npy", captions)
    assert imported() == 2
    shown = capsys.readouterr().err.splitlines()
    assert line in shown[-1]
    assert left_behind(folder) == []


@pytest.mark.parametrize("length", [0, 5, 60, 130, 300])
def test_an_array_file_that_is_cut_off_is_named(folder, capsys, length):
    content = (folder / "c.npy").read_bytes()
    assert length < len(content)
    (folder / "c.npy").write_bytes(content[:length])
    assert imported() == 2
    assert "c.npy is not a whole .npy file" in capsys.readouterr().err
    assert left_behind(folder) == []


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'shape': (",
        b"{'descr': [[]], 'fortran_order': 0, 'shape': 1}",
        b"'''",
        b"{1: }",
        b"[" * 90,
        b"{'descr': 3, 'fortran_order': False, 'shape': (1, 1)}",
    ],
)
@pytest.mark.parametrize("as_rows", [False, True])
def test_a_header_that_is_no_literal_is_named(folder, capsys, header, as_rows):
    text = header + b" " * (117 - len(header)) + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    (folder / "c.npy").write_bytes(start + text + bytes(64))
    if as_rows:
        with pytest.raises(SearchInputError, match=r"c.npy: not a .npy file of numbers"):
            open_npy(folder / "c.npy")
    else:
        assert imported() == 2
        assert "c.npy is not a whole .npy file" in capsys.readouterr().err


def test_an_output_that_is_there_stays_as_it_is(folder, capsys):
    assert imported() == 0
    before = (folder / "s.h5").read_bytes()
    assert imported() == 2
    assert "s.h5 is there already; choose another --out, or --force" in capsys.readouterr().err
    np.save("c.npy", with_value(np.nan, 8))
    assert imported("--force") == 2
    assert (folder / "s.h5").read_bytes() == before
    np.save("c.npy", rows_of(CAPTIONS, seed=9))
    assert imported("--force") == 0
    assert (folder / "s.h5").read_bytes() != before
    assert left_behind(folder) == ["s.h5"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--images", "i.npy", "--captions", "c.npy"], "--corpus missing"),
        (["--corpus", "corpus.jsonl"], "--images, --captions missing"),
        (["--clip-retrieval", ".", "--images", "i.npy"], "give one or the other"),
        (["--clip-retrieval", "."], "has no metadata/metadata_0.parquet"),
        (
            ["--images", "x.npy", "--captions", "c.npy", "--corpus", "corpus.jsonl"],
            "x.npy: no such file; expected a .npy file",
        ),
    ],
)
def test_options_that_do_not_fit_are_named(folder, capsys, options, line):
    assert run(["import", *options, "--model", "m", "--out", "s.h5"]) == 2
    assert line in capsys.readouterr().err


def test_an_unknown_variant_or_a_missing_file_part_is_named(folder, capsys):
    assert imported("--variant", "rococo") == 2
    assert "--variant rococo: expected SPEC=FILE" in capsys.readouterr().err
    assert imported("--variant", "rococoo:x=c.npy") == 2
    assert "did you mean 'rococo'" in capsys.readouterr().err
    assert imported(out="nowhere/s.h5") == 2
    assert "the folder nowhere is not there" in capsys.readouterr().err


@pytest.fixture
def rococo(folder):
    """A small file of the published layout: two images, five originals and five adversarials each."""
    entries = [
        {
            "image": f"val2014/{image}.jpg",
            "caption": [f"a dog {image} {row}" for row in range(5)]
            + [f"a cat {image} {row}" for row in range(5)],
        }
        for image in range(2)
    ]
    (folder / "small.json").write_text(json.dumps(entries))
    np.save("i.npy", rows_of(2))
    np.save("c.npy", rows_of(10))
    return folder


def test_a_variant_comes_in_in_the_order_of_its_items(rococo, capsys):
    np.save("v.npy", rows_of(10, seed=4))
    options = [
        "--images",
        "i.npy",
        "--captions",
        "c.npy",
        "--corpus",
        "small.json",
        "--model",
        "m",
        "--out",
        "s.h5",
    ]
    assert run(["import", *options, "--variant", "rococo:small.json=v.npy"]) == 0
    with open_store("s.h5") as store:
        loaded = store.load("captions", "rococo:small")
        np.testing.assert_array_equal(loaded.rows.read(0, 10), unit(rows_of(10, seed=4)).astype(np.float32))
        assert loaded.content[7] == "a cat 1 2"
        assert loaded.source.tolist() == list(range(10))
        assert loaded.variant.changed_rate == 1.0
    np.save("v.npy", rows_of(9))
    assert run(["import", *options, "--force", "--variant", "rococo:small.json=v.npy"]) == 2
    assert "v.npy has 9 rows, variant rococo:small has 10 captions" in capsys.readouterr().err


@pytest.fixture
def clip_retrieval(folder):
    """A clip-retrieval folder of two parts (numbers that sort wrongly as text): a row a caption."""
    root = folder / "clip"
    for name in ("img_emb", "text_emb", "metadata"):
        (root / name).mkdir(parents=True)
    images = rows_of(IMAGES, seed=1, dtype="f2")[[row % IMAGES for row in range(CAPTIONS)]]
    texts = rows_of(CAPTIONS, seed=2, dtype="f2")
    paths = [f"/data/pictures/a/{row % IMAGES}.jpg" for row in range(CAPTIONS)]
    for number, part in ((2, slice(0, 4)), (10, slice(4, CAPTIONS))):
        np.save(root / "img_emb" / f"img_emb_{number}.npy", images[part])
        np.save(root / "text_emb" / f"text_emb_{number}.npy", texts[part])
        table = pyarrow.table({"caption": TEXTS[part], "image_path": paths[part], "other": paths[part]})
        pyarrow.parquet.write_table(table, root / "metadata" / f"metadata_{number}.parquet")
    return root


def import_folder(*options):
    return run(["import", "--clip-retrieval", "clip", "--model", "m", "--out", "s.h5", *options])


def test_a_clip_retrieval_folder_makes_its_own_corpus(clip_retrieval):
    assert import_folder() == 0
    with open_store("s.h5") as store:
        images, captions = store.load("images", "original"), store.load("captions", "original")
        assert images.content == tuple(f"{row}.jpg" for row in range(IMAGES))
        assert captions.content == tuple(TEXTS)
        assert captions.image.tolist() == [row % IMAGES for row in range(CAPTIONS)]
        expected = unit(rows_of(IMAGES, seed=1, dtype="f2")).astype(np.float32)
        np.testing.assert_array_equal(images.rows.read(0, IMAGES), expected)


@pytest.mark.parametrize("normalisation", ["raw", "pre_caption"])
def test_a_clip_retrieval_folder_is_matched_to_a_corpus_by_file_and_text(clip_retrieval, normalisation):
    order = [7, 2, 5, 0]
    lines = [json.dumps({"image": f"a/{row % IMAGES}.jpg", "caption": TEXTS[row]}) for row in order]
    (clip_retrieval.parent / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    assert import_folder("--corpus", "corpus.jsonl", "--normalisation", normalisation) == 0
    with open_store("s.h5") as store:
        images, captions = store.load("images", "original"), store.load("captions", "original")
        rows = rows_of(CAPTIONS, seed=2, dtype="f2")[order]
        np.testing.assert_array_equal(captions.rows.read(0, 4), unit(rows).astype(np.float32))
        rows = rows_of(IMAGES, seed=1, dtype="f2")[[int(file[2]) for file in images.content]]
        np.testing.assert_array_equal(images.rows.read(0, len(rows)), unit(rows).astype(np.float32))


def test_a_clip_retrieval_folder_without_an_item_of_the_corpus_names_it(clip_retrieval, capsys):
    corpus = clip_retrieval.parent / "corpus.jsonl"
    whole = corpus.read_text()
    corpus.write_text(whole + json.dumps({"image": "a/1.jpg", "caption": "unheard of"}) + "\n")
    assert import_folder("--corpus", "corpus.jsonl") == 2
    assert "no row for caption" in capsys.readouterr().err
    corpus.write_text(whole + json.dumps({"image": "b/1.jpg", "caption": "unheard of"}) + "\n")
    assert import_folder("--corpus", "corpus.jsonl") == 2
    assert "no row for image b/1.jpg" in capsys.readouterr().err


def drop_part(root):
    (root / "text_emb" / "text_emb_10.npy").unlink()


def rename_part(root):
    (root / "text_emb" / "text_emb_10.npy").rename(root / "text_emb" / "text_emb_11.npy")


def shorten_part(root):
    np.save(root / "img_emb" / "img_emb_2.npy", rows_of(3))


def other_dimension(root):
    np.save(root / "img_emb" / "img_emb_10.npy", rows_of(5, dim=4))


def other_embedding_of_one_image(root):
    rows = np.load(root / "img_emb" / "img_emb_10.npy")
    np.save(root / "img_emb" / "img_emb_10.npy", -rows)


def no_column(root):
    table = pyarrow.table({"caption": TEXTS[:4]})
    pyarrow.parquet.write_table(table, root / "metadata" / "metadata_2.parquet")


def null_caption(root):
    table = pyarrow.table({"caption": ["a", None, "b", "c"], "image_path": ["/x/1", "/x/2", "/x/3", "/x/4"]})
    pyarrow.parquet.write_table(table, root / "metadata" / "metadata_2.parquet")


def path_that_leads_out(root):
    table = pyarrow.table({"caption": TEXTS[:4], "image_path": ["../../etc/1", "2", "3", "4"]})
    pyarrow.parquet.write_table(table, root / "metadata" / "metadata_2.parquet")


def root_as_path(root):
    table = pyarrow.table({"caption": TEXTS[:4], "image_path": ["/", "/x/2", "//x/3", "/x/4"]})
    pyarrow.parquet.write_table(table, root / "metadata" / "metadata_2.parquet")


def no_parquet(root):
    (root / "metadata" / "metadata_2.parquet").write_bytes(b"PAR1 not really")


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (drop_part, "text_emb has 1 parts, clip/metadata has 2"),
        (rename_part, "text_emb_11.npy stands where the part of metadata_10.parquet is expected"),
        (shorten_part, "img_emb_2.npy has 3 rows, clip/metadata/metadata_2.parquet has 4"),
        (other_dimension, "img_emb_10.npy has 4 dimensions, clip/img_emb/img_emb_2.npy has 5"),
        (
            other_embedding_of_one_image,
            "img_emb_10.npy row 0 and clip/img_emb/img_emb_2.npy row 0 are of one image",
        ),
        (no_column, "metadata_2.parquet has no column image_path; it has caption"),
        (null_caption, "metadata_2.parquet row 1: caption is null; expected text"),
        (path_that_leads_out, "row 0: image_path leads out of the image folder"),
        (root_as_path, "row 0: image_path is"),
        (no_parquet, "metadata_2.parquet cannot be read as Parquet"),
    ],
)
def test_a_clip_retrieval_folder_that_does_not_fit_itself_is_named(clip_retrieval, capsys, spoil, line):
    spoil(clip_retrieval)
    assert import_folder() == 2
    assert line in capsys.readouterr().err
    assert not (clip_retrieval.parent / "s.h5").exists()
