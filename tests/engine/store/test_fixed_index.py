"""Fixed indexes: frozen byte for byte, whole or not at all, and opened only as what they were made as."""

from __future__ import annotations

import json
import os
import re

import faiss
import numpy as np
import pytest

from engine.cli.main import run
from engine.errors import InputError
from engine.store import SetPlan, VariantRecord, open_store, open_writer
from engine.store.fixed_index import GALLERY_FILE, INDEX_FILE, build_index, open_index
from engine.store.fixed_index.export import export_set
from engine.store.fixed_index.formats import FORMATS

SKIPPED = 4  # an image of the store


def query_variant(corpus):
    """A variant of the queries: no part of any gallery."""
    rows = len(corpus.captions)
    return SetPlan(
        modality="captions",
        name="typo",
        ids=tuple(f"c{row}@typo" for row in range(rows)),
        source=np.arange(rows, dtype=np.int64),
        content=tuple(f"typo {row}" for row in range(rows)),
        variant=VariantRecord("typo", "query", "captions", 1.0, {}),
        change=("{}",) * rows,
        changed=np.ones(rows, dtype=bool),
    )


@pytest.fixture
def store_path(tmp_path, small, unit_rows):
    """Originals (an image skipped), the gallery variant of `small`, and a query variant."""
    path = tmp_path / "s.h5"
    plans = [*small.plans, query_variant(small.corpus)]
    with open_writer(path, small.header, plans) as writer:
        for seed, plan in enumerate(plans):
            numbers = np.arange(plan.rows)
            if plan.label == "images/original":
                writer.skip("images", "original", np.array([SKIPPED]), ["cut off"])
                numbers = np.delete(numbers, SKIPPED)
            writer.write(plan.modality, plan.name, numbers, unit_rows(plan.rows, seed=seed)[numbers])
    return path


def build(store_path, out, **options):
    with open_store(store_path) as store:
        return build_index(store, out, **options)


def labels(folder):
    with open_index(folder) as index:
        return [info.label for info in index.gallery.sets]


def rows_of(store, modality, name):
    found = store.load(modality, name)
    return found.rows.read(0, found.rows.shape[0]).tobytes()


# ---------------------------------------------------------------- build


def test_an_index_has_the_gallery_sets_of_its_store_as_they_are(tmp_path, store_path):
    record = build(store_path, tmp_path / "idx")
    assert labels(tmp_path / "idx") == ["images/original", "captions/original", "captions/swap:seed=1.5"]
    with open_store(store_path) as store, open_index(tmp_path / "idx") as index:
        assert index.fingerprint == record.fingerprint
        assert record.space == store.header.encoder_fingerprint
        for info in index.gallery.sets:
            there = next(one for one in store.sets if one.label == info.label)
            assert (info.content_key, info.skipped_digest, info.variant) == (
                there.content_key,
                there.skipped_digest,
                there.variant,
            )
            assert rows_of(index.gallery, info.modality, info.name) == rows_of(
                store, info.modality, info.name
            )
            assert not index.gallery.verify(info.modality, info.name)


def test_equal_indexes_have_equal_fingerprints_and_what_matters_changes_them(tmp_path, store_path):
    made = {
        "a": {},
        "again": {},
        "captions": {"sides": ["captions"]},
        "plain": {"variants": []},
        "declared": {"space": "b32"},
    }
    found = {name: build(store_path, tmp_path / name, **options) for name, options in made.items()}
    prints = {name: record.fingerprint for name, record in found.items()}
    assert prints["a"] == prints["again"]
    assert len(set(prints.values())) == len(made) - 1
    assert labels(tmp_path / "captions") == ["captions/original", "captions/swap:seed=1.5"]
    assert labels(tmp_path / "plain") == ["images/original", "captions/original"]
    assert found["declared"].space == "b32"


def test_an_index_is_read_only_and_holds_two_files(tmp_path, store_path):
    build(store_path, tmp_path / "idx")
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "idx").iterdir()}
    assert modes == {GALLERY_FILE: 0o444, INDEX_FILE: 0o444}


def test_the_gallery_is_an_ordinary_store(tmp_path, store_path, capsys):
    build(store_path, tmp_path / "idx", sides=["captions"])
    assert run(["store", "inspect", str(tmp_path / "idx" / GALLERY_FILE)]) == 0
    assert "captions/swap:seed=1.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": ["typo"]}, "unknown gallery variant 'typo'"),
        ({"variants": ["swap:seed=1.5"], "sides": ["images"]}, "holds no gallery variant 'swap:seed=1.5'"),
        ({"space": "a\tb"}, "a space cannot have the name"),
    ],
)
def test_what_cannot_be_built_leaves_nothing(tmp_path, store_path, options, message):
    with pytest.raises(InputError, match=message):
        build(store_path, tmp_path / "idx", **options)
    assert not (tmp_path / "idx").exists()


def test_a_store_that_declares_another_space_is_refused(tmp_path, small, unit_rows):
    with open_writer(tmp_path / "s.h5", small.with_header(space="b16"), [small.images]) as writer:
        writer.write("images", "original", np.arange(7), unit_rows(7))
    with pytest.raises(InputError, match="is of the space 'b16', not 'b32'"):
        build(tmp_path / "s.h5", tmp_path / "idx", space="b32")
    assert build(tmp_path / "s.h5", tmp_path / "idx").space == "b16"


def test_a_store_that_is_not_complete_or_damaged_is_refused(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, [small.images]) as writer:
        writer.write("images", "original", np.arange(6), unit_rows(7)[:6])
    with pytest.raises(InputError, match="images/original lacks 1 of 7 rows"):
        build(path, tmp_path / "idx")
    with open_writer(path, small.header, [small.images]) as writer:
        writer.write("images", "original", np.array([6]), unit_rows(7)[6:])
    content = path.read_bytes()
    path.write_bytes(content.replace(unit_rows(7)[2].tobytes(), unit_rows(7)[3].tobytes()))
    with pytest.raises(InputError, match="the checksum of images/original row 2 does not hold"):
        build(path, tmp_path / "idx")
    assert not (tmp_path / "idx").exists()


def test_a_folder_with_something_in_it_is_kept(tmp_path, store_path):
    build(store_path, tmp_path / "idx")
    before = {file.name: file.read_bytes() for file in (tmp_path / "idx").iterdir()}
    with pytest.raises(InputError, match="the folder is not empty"):
        build(store_path, tmp_path / "idx", space="b32")
    assert {file.name: file.read_bytes() for file in (tmp_path / "idx").iterdir()} == before
    assert build(store_path, tmp_path / "idx", space="b32", force=True).space == "b32"


# ---------------------------------------------------------------- open


def edited(folder, **changes):
    file = folder / INDEX_FILE
    told = json.loads(file.read_text()) | changes
    file.chmod(0o644)
    file.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "index schema 2, this itrstress reads schema 1; build the index again"),
        ({"schema_version": True}, "index schema True"),
        ({"kind": "other"}, "not the record of an index"),
        ({"space": "b32"}, "changed since it was written"),
        ({"fingerprint": "0" * 64}, "changed since it was written"),
        ({"dim": "6"}, "dim: "),
        ({"sets": None}, "sets: "),
        ({"more": 1}, "more: "),
    ],
)
def test_a_record_that_is_not_what_was_written_is_refused(tmp_path, store_path, changes, message):
    build(store_path, tmp_path / "idx")
    edited(tmp_path / "idx", **changes)
    with pytest.raises(InputError, match=message):
        open_index(tmp_path / "idx")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", '{"a": 1}', "\xff"])
def test_a_record_that_is_no_json_is_refused(tmp_path, store_path, text):
    build(store_path, tmp_path / "idx")
    (tmp_path / "idx" / INDEX_FILE).chmod(0o644)
    (tmp_path / "idx" / INDEX_FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"index\.json: not"):
        open_index(tmp_path / "idx")


def test_a_folder_that_is_no_index_is_named(tmp_path, store_path):
    (tmp_path / "empty").mkdir()
    for place, message in (
        (tmp_path / "empty", "no index, it holds no index.json"),
        (tmp_path / "none", "not there, expected the folder of an index"),
        (store_path, "a file, expected the folder of an index"),
    ):
        with pytest.raises(InputError, match=message):
            open_index(place)


def test_a_gallery_that_is_missing_cut_off_or_another_is_refused(tmp_path, store_path):
    build(store_path, tmp_path / "idx")
    gallery = tmp_path / "idx" / GALLERY_FILE
    gallery.chmod(0o644)
    whole = gallery.read_bytes()
    os.truncate(gallery, len(whole) - 10)
    with pytest.raises(InputError, match=r"gallery\.h5 is damaged: the file: cut off"):
        open_index(tmp_path / "idx")
    gallery.unlink()
    with pytest.raises(InputError, match=r"gallery\.h5: no such file"):
        open_index(tmp_path / "idx")
    build(store_path, tmp_path / "other", variants=[])
    gallery.write_bytes((tmp_path / "other" / GALLERY_FILE).read_bytes())
    with pytest.raises(InputError, match=r"another set captions/swap:seed=1\.5"):
        open_index(tmp_path / "idx")


def test_rows_that_were_exchanged_with_their_checksums_are_noticed(tmp_path, small, unit_rows):
    folders = []
    for seed in (1, 2):  # equal keys, other rows
        path = tmp_path / f"{seed}.h5"
        with open_writer(path, small.header, [small.images]) as writer:
            writer.write("images", "original", np.arange(7), unit_rows(7, seed=seed))
        folders.append(tmp_path / f"idx{seed}")
        build(path, folders[-1])
    (folders[0] / GALLERY_FILE).chmod(0o644)
    (folders[0] / GALLERY_FILE).write_bytes((folders[1] / GALLERY_FILE).read_bytes())
    with pytest.raises(InputError, match="another set images/original"):
        open_index(folders[0])


def test_inspect_shows_the_index_and_fails_for_a_row_that_changed(tmp_path, store_path, unit_rows, capsys):
    build(store_path, tmp_path / "idx", space="b32")
    assert run(["index", "inspect", str(tmp_path / "idx")]) == 0
    shown = capsys.readouterr().out
    assert "space       b32" in shown
    assert "captions/swap:seed=1.5" in shown
    gallery = tmp_path / "idx" / GALLERY_FILE
    gallery.chmod(0o644)
    rows = unit_rows(19, seed=1)
    gallery.write_bytes(gallery.read_bytes().replace(rows[5].tobytes(), rows[6].tobytes()))
    assert run(["index", "inspect", str(tmp_path / "idx")]) == 2
    assert (
        "captions/original: 1 rows do not keep their checksum, the first is row 5" in capsys.readouterr().err
    )


# ---------------------------------------------------------------- export and import


@pytest.fixture
def corpus_file(tmp_path, small):
    """The corpus of `small` as a table: images and captions in the same order, with the same ids."""
    lines = [{"image": f"{row % 4}.jpg", "caption": f"caption {row}"} for row in range(9)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "corpus.jsonl"


def index_of(tmp_path, corpus_file, rows, side, *options, name="idx", file="rows.npy"):
    np.save(tmp_path / "rows.npy", rows)
    place = ["--corpus", str(corpus_file), "--side", side, "--space", "b32", "--out", str(tmp_path / name)]
    return run(["index", "import", str(tmp_path / file), *place, *options])


def unit(rows):
    return rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)


@pytest.mark.parametrize("form", FORMATS)
def test_rows_come_out_as_they_went_in_through_every_format(tmp_path, corpus_file, form):
    rows = np.random.default_rng(1).standard_normal((9, 6)).astype(np.float32)
    assert index_of(tmp_path, corpus_file, rows, "captions") == 0
    out = tmp_path / f"out{FORMATS[form].suffixes[0]}"
    assert (
        run(["index", "export", str(tmp_path / "idx"), "--set", "captions/original", "--out", str(out)]) == 0
    )
    exported = FORMATS[form].open(out).read(0, 9)
    np.testing.assert_allclose(exported, unit(rows), atol=1e-7)
    ids = [json.loads(line) for line in (tmp_path / f"{out.name}.ids.jsonl").read_text().splitlines()]
    assert [one["row"] for one in ids] == list(range(9))
    options = ("--ids", str(tmp_path / f"{out.name}.ids.jsonl"))
    assert index_of(tmp_path, corpus_file, rows, "captions", *options, name="back", file=out.name) == 0
    with open_index(tmp_path / "idx") as first, open_index(tmp_path / "back") as second:
        assert rows_of(first.gallery, "captions", "original") == rows_of(
            second.gallery, "captions", "original"
        )
        assert second.record.space == "b32"
        assert second.record.encoder_spec == "imported:b32"


def test_faiss_reads_an_export_and_finds_what_is_nearest(tmp_path, store_path):
    build(store_path, tmp_path / "idx")
    with open_index(tmp_path / "idx") as index:
        assert export_set(index, "images/original", FORMATS["faiss"], tmp_path / "i.faiss") == 6
        stored = index.gallery.load("images", "original")
        rows = np.delete(stored.rows.read(0, 7), SKIPPED, axis=0)
        ids = np.delete(np.array(stored.ids), SKIPPED).tolist()
    found = faiss.read_index(str(tmp_path / "i.faiss"))
    assert found.search(rows, 1)[1][:, 0].tolist() == list(range(6))
    lines = (tmp_path / "i.faiss.ids.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids


def test_ids_put_rows_in_their_places_and_images_without_one_are_left_out(tmp_path, corpus_file, capsys):
    rows = np.random.default_rng(1).standard_normal((3, 6)).astype(np.float32)
    ids = tmp_path / "ids.jsonl"
    ids.write_text("".join(json.dumps({"id": f"{row}.jpg"}) + "\n" for row in (3, 0, 2)))
    assert index_of(tmp_path, corpus_file, rows, "images", "--ids", str(ids)) == 0
    assert "note: 1 images have no row" in capsys.readouterr().out
    with open_index(tmp_path / "idx") as index:
        found = index.gallery.load("images", "original")
        assert found.reasons == {1: "has no row in the imported file"}
        np.testing.assert_allclose(found.rows.read(0, 4)[[3, 0, 2]], unit(rows), atol=1e-7)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0.jpg", "1.jpg", "2.jpg"], "3 ids, .*rows.npy has 4 rows"),
        (["0.jpg", "1.jpg", "2.jpg", "0.jpg"], "lines 1 and 4 have the same id '0.jpg'"),
        (["0.jpg", "1.jpg", "2.jpg", "9.jpg"], "line 4: no images of corpus corpus has the id '9.jpg'"),
        (["0.jpg", "1.jpg", "2.jpg", None], "line 4: expected"),
        (["0.jpg", "1.jpg", "2.jpg", True], "line 4: expected"),
    ],
)
def test_ids_that_do_not_fit_are_named(tmp_path, corpus_file, capsys, lines, message):
    ids = tmp_path / "ids.jsonl"
    ids.write_text("".join(json.dumps({"id": one}) + "\n" for one in lines))
    rows = np.ones((4, 6), dtype=np.float32)
    assert index_of(tmp_path, corpus_file, rows, "images", "--ids", str(ids)) == 2
    error = capsys.readouterr().err.splitlines()
    assert len([line for line in error if line.startswith("error: ")]) == 1
    assert not (tmp_path / "idx").exists()
    assert re.search(message, error[-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"row": 1, "id": "0.jpg"}\n', "line 1: is of row 1, expected 0"),
        ("[1]\n", "line 1: expected"),
        ("x" * 100_000, "no ids of the 4 rows"),
    ],
)
def test_ids_that_are_no_ids(tmp_path, corpus_file, capsys, text, message):
    (tmp_path / "ids.jsonl").write_text(text)
    rows = np.ones((4, 6), dtype=np.float32)
    assert index_of(tmp_path, corpus_file, rows, "images", "--ids", str(tmp_path / "ids.jsonl")) == 2
    assert message in capsys.readouterr().err


def test_captions_must_all_have_a_row(tmp_path, corpus_file, small, capsys):
    rows = np.ones((8, 6), dtype=np.float32)
    assert index_of(tmp_path, corpus_file, rows, "captions") == 2
    assert "8 rows, corpus corpus has 9 captions; expected one row each, or --ids" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "words"), [(0, "only zeros"), (np.nan, "NaN or infinite values")])
def test_a_row_without_a_direction_is_named_and_nothing_is_left(tmp_path, corpus_file, capsys, value, words):
    rows = np.ones((9, 6), dtype=np.float32)
    rows[7] = value
    assert index_of(tmp_path, corpus_file, rows, "captions") == 2
    assert f"rows.npy row 7 has {words}" in capsys.readouterr().err
    assert not (tmp_path / "idx").exists()


def test_a_variant_of_the_gallery_comes_with_its_rows(tmp_path, small, capsys):
    entries = [
        {"image": f"{row}.jpg", "caption": [f"a cat {row}"] * 5 + [f"a dog {row}"] * 5} for row in range(2)
    ]
    corpus = tmp_path / "rococo.json"
    corpus.write_text(json.dumps(entries))
    generator = np.random.default_rng(0)
    np.save(tmp_path / "fakes.npy", generator.standard_normal((10, 6)).astype(np.float32))
    rows = generator.standard_normal((10, 6)).astype(np.float32)
    variant = ("--reader", "rococo", "--variant", f"rococo:{corpus}={tmp_path / 'fakes.npy'}")
    assert index_of(tmp_path, corpus, rows, "captions", *variant) == 0
    assert labels(tmp_path / "idx") == ["captions/original", "captions/rococo:rococo"]
    assert index_of(tmp_path, corpus, rows[:2], "images", *variant, name="images") == 2
    assert "rococo:rococo: adds nothing to a gallery of images" in capsys.readouterr().err


def test_exports_are_not_replaced_unasked_and_bad_names_are_said(tmp_path, store_path, capsys):
    build(store_path, tmp_path / "idx")
    idx, out = str(tmp_path / "idx"), tmp_path / "a.npy"
    out.write_text("mine")
    command = ["index", "export", idx, "--set", "captions/original", "--out"]
    assert run([*command, str(out)]) == 2
    assert "there already" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run([*command, str(out), "--force"]) == 0
    assert run([*command, str(tmp_path / "a.txt")]) == 2
    assert "its name says no format of rows" in capsys.readouterr().err
    assert run(["index", "export", idx, "--set", "captions/none", "--out", str(tmp_path / "b.npy")]) == 2
    assert "has no set captions/none; it has: images/original" in capsys.readouterr().err
    assert run([*command, str(tmp_path / "idx" / GALLERY_FILE), "--format", "npy", "--force"]) == 2
    assert "the command reads it" in capsys.readouterr().err
    assert not (tmp_path / "b.npy").exists()
