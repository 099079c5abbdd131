"""A damaged, cut, foreign or hostile file gives one line that names it and what is good, never a crash."""

from __future__ import annotations

import shutil
from dataclasses import replace

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from engine.cli.main import run
from engine.errors import InputError
from engine.store import open_store, open_writer
from engine.store.reader import DamagedRows


@pytest.fixture(scope="module")
def whole(tmp_path_factory, small, unit_rows):
    """A complete store; tests copy it."""
    path = tmp_path_factory.mktemp("whole") / "s.h5"
    with open_writer(path, small.header, small.plans) as writer:
        for plan in small.plans:
            writer.write(plan.modality, plan.name, np.arange(plan.rows), unit_rows(plan.rows))
    return path


@pytest.fixture
def store_file(tmp_path, whole):
    return shutil.copy(whole, tmp_path / "s.h5")


def region(path, label, part):
    modality, _, name = label.partition("/")
    with open_store(path) as store:
        return store.stored(modality, name).regions[part]


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("part", ["embeddings", "checksums", "state"])
def test_one_changed_bit_of_a_row_is_found_and_named(store_file, part):
    place = region(store_file, "captions/original", part)
    flip(store_file, place.offset + 5 * place.row_bytes)
    with open_store(store_file) as store:
        if part == "state":  # complete -> pending: not damage, but not complete either
            with pytest.raises(InputError, match="lacks 1 of 19 rows"):
                store.load("captions", "original")
            return
        assert store.verify("captions", "original") == [DamagedRows(5, 6)]
        rows = store.load("captions", "original").rows
        rows.read(0, 5)
        rows.read(6, 19)
        with pytest.raises(InputError, match=r"s\.h5 is damaged: the checksum of captions/original row 5"):
            rows.read(0, 19)


def test_damaged_rows_are_pending_again_and_can_be_repaired(store_file, small, unit_rows):
    place = region(store_file, "captions/original", "embeddings")
    flip(store_file, place.offset + 5 * place.row_bytes)
    with open_writer(store_file, small.header, small.plans) as writer:
        assert writer.damaged == {"captions/original": 1}
        assert writer.pending("captions", "original").tolist() == [5]
        writer.write("captions", "original", np.array([5]), unit_rows(19)[5:6])
    with open_store(store_file) as store:
        assert store.verify("captions", "original") == []
        np.testing.assert_array_equal(store.load("captions", "original").rows.read(0, 19), unit_rows(19))


@pytest.mark.parametrize("part", ["ids", "ids_ends", "content", "source", "image"])
def test_one_changed_bit_of_an_item_is_found_and_the_other_sets_stay_good(store_file, part):
    flip(store_file, region(store_file, "captions/original", part).offset)
    line = (
        r"s\.h5 is damaged: captions/original: its ids, texts or row numbers do not have the digest.*"
        r"still good: images/original 7 of 7 rows, captions/swap:seed=1.5 11 of 11 rows"
    )
    with pytest.raises(InputError, match=line):
        open_store(store_file)
    with open_store(store_file, tolerant=True) as store:
        assert set(store.damage) == {"captions/original"}
        store.load("images", "original")
        with pytest.raises(InputError, match="captions/original is damaged"):
            store.load("captions", "original")


def test_a_file_cut_off_in_the_rows_of_the_last_set_keeps_the_sets_before(store_file, unit_rows):
    place = region(store_file, "captions/swap:seed=1.5", "embeddings")
    with store_file.open("r+b") as file:
        file.truncate(place.offset + 4 * place.row_bytes + 1)
    line = (
        r"s\.h5 is damaged: the file: cut off, it has [\d,]+ of [\d,]+ bytes; still good: "
        r"images/original 7 of 7 rows, captions/original 19 of 19 rows, captions/swap:seed=1.5 4 of 11 rows"
    )
    with pytest.raises(InputError, match=line):
        open_store(store_file)
    with open_store(store_file, tolerant=True) as store:
        rows = store.load("captions", "swap:seed=1.5").rows
        np.testing.assert_array_equal(rows.read(0, 4), unit_rows(11)[:4])
        with pytest.raises(InputError, match="row 4 does not hold"):
            rows.read(3, 11)


def test_every_length_of_a_cut_off_file_gives_one_line_that_names_it(store_file):
    whole = store_file.read_bytes()
    for length in sorted({*range(0, 200, 7), *range(200, len(whole), 997), len(whole) - 1}):
        store_file.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"s\.h5 ") as caught:
            open_store(store_file)
        assert "\n" not in str(caught.value)


def test_a_changed_byte_anywhere_is_an_error_line_or_does_not_matter(store_file, unit_rows):
    """Unused bytes exist in an HDF5 file; whatever still opens and verifies must hold the right rows."""
    whole = store_file.read_bytes()
    with h5py.File(store_file) as file:
        structure = file["captions/swap:seed=1.5/embeddings"].id.get_offset()
    for offset in np.random.default_rng(3).integers(0, min(structure, 40_000), 250).tolist():
        changed = bytearray(whole)
        changed[offset] ^= 1 << (offset % 8)
        store_file.write_bytes(changed)
        try:
            with open_store(store_file) as store:
                for info in store.sets:
                    loaded = store.load(info.modality, info.name)
                    np.testing.assert_array_equal(loaded.rows.read(0, info.rows), unit_rows(info.rows))
        except InputError:
            continue


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", r"not an HDF5 file \(0 bytes\)"),
        (b"{}", "not an HDF5 file"),
        (b"\x89HDF\r\n\x1a\n" * 40, "is damaged"),
    ],
)
def test_what_is_no_store_is_named(tmp_path, small, content, line):
    path = tmp_path / "s.h5"
    path.write_bytes(content)
    with pytest.raises(InputError, match=line):
        open_store(path)
    with pytest.raises(InputError, match=line):
        open_writer(path, small.header, small.plans)
    assert path.read_bytes() == content


def test_a_missing_file_a_folder_and_a_foreign_hdf5_file_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file; expected a store file"):
        open_store(tmp_path / "s.h5")
    with pytest.raises(InputError, match="is a folder"):
        open_store(tmp_path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["embeddings"] = np.zeros((3, 2))
    with pytest.raises(InputError, match="is an HDF5 file but not an itrstress store"):
        open_store(tmp_path / "other.h5")


def test_a_newer_schema_names_both_versions(store_file):
    with h5py.File(store_file, "r+") as file:
        file.attrs.modify("schema_version", 7)
    with pytest.raises(
        InputError, match="has store schema 7, this itrstress reads schema 1; update itrstress"
    ):
        open_store(store_file)


@pytest.mark.parametrize("name", ["encoder_fingerprint", "dim", "normalisation", "corpus_fingerprint"])
def test_a_changed_header_is_damage(store_file, name):
    with h5py.File(store_file, "r+") as file:
        value = file.attrs[name]
        file.attrs.modify(name, value + 1 if name == "dim" else np.bytes_(b"x" * len(value)))
    with pytest.raises(InputError, match="is damaged: the header does not have the digest"):
        open_store(store_file)


def test_a_header_of_variable_length_text_or_an_array_is_refused(store_file):
    for value in ("text of any length", np.zeros(3)):
        with h5py.File(store_file, "r+") as file:
            del file.attrs["encoder_spec"]
            file.attrs["encoder_spec"] = value
        with pytest.raises(InputError, match="encoder_spec is not a short text or an integer"):
            open_store(store_file)


def external_link(file, path):
    file["captions/original/embeddings"] = h5py.ExternalLink(str(path), "/captions/original/embeddings")


def soft_link(file, path):
    file["captions/original/embeddings"] = h5py.SoftLink("/images/original/embeddings")


def virtual_dataset(file, path):
    layout = h5py.VirtualLayout((19, 6), "<f4")
    layout[:] = h5py.VirtualSource(str(path), "/captions/original/embeddings", (19, 6))
    file.create_virtual_dataset("captions/original/embeddings", layout)


def external_storage(file, path):
    segments = [(str(path), 0, 19 * 24)]
    file.create_dataset("captions/original/embeddings", (19, 6), "<f4", external=segments)


def chunked(file, path):
    file.create_dataset("captions/original/embeddings", (19, 6), "<f4", chunks=(1, 6))


def a_group(file, path):
    file.create_group("captions/original/embeddings")


def wrong_shape(file, path):
    file["captions/original/embeddings"] = np.ones((18, 6), "<f4")


def wrong_dimension(file, path):
    file["captions/original/embeddings"] = np.ones((19, 7), "<f4")


def wrong_dtype(file, path):
    file["captions/original/embeddings"] = np.ones((19, 6), ">f4")


def unallocated_and_enormous(file, path):
    file.create_dataset("captions/original/embeddings", (1 << 40, 6), "<f4")


def nothing(file, path):
    pass


@pytest.mark.parametrize(
    ("put", "line"),
    [
        (external_link, r"embeddings is a link to elsewhere \(ExternalLink\); refused"),
        (soft_link, r"embeddings is a link to elsewhere \(SoftLink\); refused"),
        (virtual_dataset, "embeddings is not kept in one piece inside the file"),
        (external_storage, "embeddings is not kept in one piece inside the file"),
        (chunked, "embeddings is not kept in one piece inside the file"),
        (a_group, "embeddings is not a dataset"),
        (wrong_shape, r"embeddings is float32 \(18, 6\), expected float32 \(19, 6\)"),
        (wrong_dimension, r"embeddings is float32 \(19, 7\), expected float32 \(19, 6\)"),
        (wrong_dtype, r"embeddings is >f4 \(19, 6\), expected float32 \(19, 6\)"),
        (unallocated_and_enormous, "embeddings has no place in the file"),
        (nothing, r"its datasets are not those of the schema \(too many or missing: embeddings\)"),
    ],
)
def test_datasets_that_lead_out_of_the_file_or_do_not_fit_are_refused(store_file, whole, put, line):
    with h5py.File(store_file, "r+") as file:
        del file["captions/original/embeddings"]
        put(file, whole)
    with pytest.raises(InputError, match=f"captions/original: {line}.*still good: images/original 7 of 7"):
        open_store(store_file)


def test_a_set_or_modality_that_is_a_link_is_refused(store_file, whole):
    with h5py.File(store_file, "r+") as file:
        file["captions/outside"] = h5py.ExternalLink(str(whole), "/captions/original")
        del file["images"]
        file["images"] = h5py.ExternalLink(str(whole), "/images")
    with pytest.raises(InputError, match=r"images: images is a link.*captions/outside: outside is a link"):
        open_store(store_file)


def test_names_with_control_characters_stay_on_the_line(store_file):
    with h5py.File(store_file, "r+") as file:
        file.create_group("captions/a\nb\x1b[31m")
        file["images/original/c\nd"] = np.zeros(1)
    with pytest.raises(InputError, match=r"captions/a\\nb\\x1b\[31m: a set cannot have the name") as caught:
        open_store(store_file)
    assert str(caught.value).isprintable()


def test_a_read_outside_of_the_set_or_after_the_store_is_closed_is_an_error(store_file):
    with open_store(store_file) as store:
        rows = store.load("captions", "original").rows
        for start, stop in ((-1, 2), (3, 2), (0, 20)):
            with pytest.raises(IndexError):
                rows.read(start, stop)
        with pytest.raises(
            InputError, match="has no set captions/x; it has: images/original, captions/original"
        ):
            store.load("captions", "x")
    with pytest.raises(ValueError, match="closed"):
        rows.read(0, 1)


def test_a_store_replaced_while_it_is_read_keeps_its_content_here(store_file, small, unit_rows):
    with open_store(store_file) as store:
        rows = store.load("captions", "original").rows
        with open_writer(store_file, small.with_header(encoder_fingerprint="0"), small.plans, force=True):
            np.testing.assert_array_equal(rows.read(0, 19), unit_rows(19))


@pytest.mark.parametrize(
    ("label", "part"), [("captions/original", "image"), ("captions/swap:seed=1.5", "source")]
)
def test_row_numbers_beyond_the_originals_are_refused_even_with_a_good_digest(tmp_path, small, label, part):
    plans = [small.images, small.captions, small.variant]
    broken = {plan.label: plan for plan in plans}
    broken[label] = replace(broken[label], **{part: np.full(broken[label].rows, 19)})
    with pytest.raises(InputError, match=f"{label}: {part} has rows 19 to 19, there are only (7|19)"):
        open_writer(tmp_path / "s.h5", small.header, list(broken.values()))


def test_inspect_shows_the_sets_and_their_verdict(store_file, capsys):
    assert run(["store", "inspect", str(store_file)]) == 0
    shown = capsys.readouterr().out
    for text in ("fake:model (abababababab)", "captions/swap:seed=1.5", "90.91%", "6 dimensions, float32"):
        assert text in shown
    assert sum(line.split()[-1:] == ["ok"] for line in shown.splitlines()) == 3
    assert "note: captions/swap:seed=1.5 leaves out 2 originals: no noun" in shown


def test_inspect_of_a_damaged_store_shows_what_is_good_and_ends_with_2(store_file, capsys):
    place = region(store_file, "captions/original", "embeddings")
    flip(store_file, place.offset + 5 * place.row_bytes)
    flip(store_file, region(store_file, "images/original", "ids").offset)
    assert run(["store", "inspect", str(store_file), "--no-verify"]) == 2
    assert run(["store", "inspect", str(store_file)]) == 2
    shown = capsys.readouterr()
    assert "1 rows DAMAGED" in shown.out
    assert "not checked" in shown.out
    assert "captions/original: 1 rows do not keep their checksum, the first is row 5" in shown.err
    assert "images/original: its ids" in shown.err
    assert len(shown.err.splitlines()) == 2


def test_inspect_tells_of_missing_and_skipped_rows(tmp_path, small, unit_rows, capsys):
    with open_writer(tmp_path / "s.h5", small.header, [small.images]) as writer:
        writer.write("images", "original", np.arange(4), unit_rows(4))
        writer.skip("images", "original", np.array([4, 5]), ["not an image"] * 2)
    assert run(["store", "inspect", str(tmp_path / "s.h5")]) == 0
    shown = capsys.readouterr().out
    assert "note: images/original lacks 1 rows" in shown
    assert "note: images/original skipped 2 images: not an image" in shown
    assert (
        "note: there is no captions/original; evaluate needs it, or an index that has it (--index)" in shown
    )


def test_a_store_without_a_modality_says_so(store_file):
    with h5py.File(store_file, "r+") as file:
        del file["images"]
    with pytest.raises(InputError, match="images: images is not there; still good: captions/original"):
        open_store(store_file)


def test_inspect_names_originals_that_were_taken_out(store_file, capsys):
    with h5py.File(store_file, "r+") as file:
        del file["captions/original"]
    assert run(["store", "inspect", str(store_file)]) == 2
    assert "captions/original: it is not there, though variants of it are" in capsys.readouterr().err


def test_inspect_has_a_help_page():
    from engine.cli.store import command

    assert "STORE.h5" in CliRunner().invoke(command, ["inspect", "--help"]).output


def test_a_header_that_no_store_can_have_names_the_file(tmp_path, small):
    path = tmp_path / "s.h5"
    open_writer(path, small.header, [small.images]).close()
    with h5py.File(path, "r+") as file:
        file.attrs["dim"] = -1
    with pytest.raises(InputError, match=r"s\.h5: an embedding has -1 dimensions, expected at least 1"):
        open_store(path)


@pytest.mark.parametrize("name", ["swap:seed=2", "hello"])
def test_a_set_of_a_variant_under_another_name_is_damage(store_file, name):
    with h5py.File(store_file, "r+") as file:
        file.move("captions/swap:seed=1.5", f"captions/{name}")
    line = f"captions/{name}: it was written as captions/swap:seed=1.5, and has been renamed; still good: "
    with pytest.raises(InputError, match=line):
        open_store(store_file)
