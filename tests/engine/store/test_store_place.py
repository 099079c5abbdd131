"""A store replaces stores, other HDF5 files and empty files, when told to; nothing else, ever."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

from engine.errors import InputError
from engine.store import importer, open_store, open_writer
from engine.store.distractors import DistractorHeader, set_file, write_set
from engine.store.importer import ImportedSet, import_store
from engine.store.place import check_store_place


def array_bytes() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.eye(3))
    return buffer.getvalue()


FOREIGN = {
    "an array": (array_bytes(), "a NumPy array"),
    "a corpus": (b'[{"image": "a.jpg"}]', "text"),
    "text of ours": (b"see `itrstress store`: encoder_fingerprint\n", "text"),
    "a picture": (b"\xff\xd8\xff\xe0\0", "a JPEG image"),
    "a checkpoint": (b"PK\x03\x04\0", "a zip archive or a checkpoint of torch"),
    "a table": (b"PAR1\0\0", "a Parquet file"),
    "bytes": (b"\x01\x00\x02", "data of another kind"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_store_is_named_and_stays(tmp_path, small, name, force):
    content, kind = FOREIGN[name]
    path = tmp_path / "s.h5"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"s\.h5: {kind}, not an HDF5 file, and so never replaced"):
        open_writer(path, small.header, small.plans, force=force)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["s.h5"]


@pytest.mark.parametrize("damage", ["empty", "cut in the signature", "cut", "other HDF5", "no signature"])
def test_damaged_stores_and_other_hdf5_files_are_replaced_by_force(tmp_path, small, damage):
    path = tmp_path / "s.h5"
    open_writer(path, small.header, small.plans).close()
    whole = path.read_bytes()
    if damage == "other HDF5":
        with h5py.File(path, "w") as file:
            file["rows"] = np.eye(2)
    elif damage == "no signature":
        path.write_bytes(bytes(8) + whole[8:])
    else:
        path.write_bytes(whole[: {"empty": 0, "cut in the signature": 5, "cut": 1000}[damage]])
    with pytest.raises(InputError):
        open_writer(path, small.header, small.plans)
    open_writer(path, small.header, small.plans, force=True).close()
    with open_store(path) as store:
        assert len(store.sets) == len(small.plans)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_store_is_written(tmp_path, small, unit_rows, there):
    (tmp_path / "disk").mkdir()
    (tmp_path / "s.h5").symlink_to("disk/s.h5")
    if there:
        open_writer(tmp_path / "disk" / "s.h5", small.header, small.plans[:1]).close()
    with open_writer(tmp_path / "s.h5", small.header, small.plans) as writer:
        for plan in small.plans:
            writer.write(plan.modality, plan.name, np.arange(plan.rows), unit_rows(plan.rows))
    assert (tmp_path / "s.h5").is_symlink()
    with open_store(tmp_path / "disk" / "s.h5") as store:
        assert len(store.sets) == len(small.plans)
    assert [file.name for file in (tmp_path / "disk").iterdir()] == ["s.h5"]


def test_a_pipe_a_device_and_a_missing_folder_are_refused(tmp_path, small):
    os.mkfifo(tmp_path / "s.h5")
    for path, line in (
        (tmp_path / "s.h5", "is a pipe, expected a file to write"),
        (Path("/dev/null"), "is a device, expected a file to write"),
        (tmp_path / "new" / "s.h5", "new is not there; create it first"),
    ):
        with pytest.raises(InputError, match=line):
            open_writer(path, small.header, small.plans, force=True)
    assert (tmp_path / "s.h5").is_fifo()


def test_a_distractor_set_replaces_no_other_file(tmp_path):
    path = set_file(tmp_path / "s.h5", "captions", "x")
    path.parent.mkdir()
    path.write_bytes(array_bytes())
    names = {"modality": "captions", "name": "x", "encoder_spec": "m", "encoder_fingerprint": "f"}
    header = DistractorHeader(**names, rows=2, dim=2, dtype="float32", recipe={})

    class Maker:
        def read(self, start, stop):
            return np.eye(2)[start:stop]

    with pytest.raises(InputError, match="a NumPy array, not an HDF5 file"):
        write_set(path, header, Maker(), force=True)
    assert path.read_bytes() == array_bytes()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.h5")
    assert write_set(path, header, Maker()) == 2
    assert path.is_symlink()
    assert (tmp_path / "elsewhere.h5").is_file()


class Table:
    """Rows that are never read."""

    dim, files = 5, ()


def import_captions(out, small):
    import_store(out, "m", small.corpus, [ImportedSet(small.captions, Table(), np.arange(3))])


def test_two_imports_at_once_are_one_too_many(tmp_path, small, monkeypatch):
    """The other one has come, and gone, between the first look at the place and the lock."""
    out, locked = tmp_path / "s.h5", importer.locked

    @contextmanager
    def overtaken(target, path):
        open_writer(out, small.header, small.plans).close()
        with locked(target, path) as lock:
            yield lock

    monkeypatch.setattr(importer, "locked", overtaken)
    with pytest.raises(InputError, match=r"s\.h5 is there already; choose another --out, or --force"):
        import_captions(out, small)
    with open_store(out) as store:
        assert store.header.encoder_spec == small.header.encoder_spec


def test_the_line_of_a_failed_import_shows_no_temporary_name(tmp_path, small, monkeypatch):
    def fail(path, header, sets, progress):
        raise InputError(f"{path}: odd")

    monkeypatch.setattr(importer, "write_sets", fail)
    monkeypatch.setattr(importer, "fingerprint_arrays", lambda model, sets: "f")
    with pytest.raises(InputError) as caught:
        import_captions(tmp_path / "s.h5", small)
    assert str(caught.value) == f"{tmp_path / 's.h5'}: odd"
    assert list(tmp_path.iterdir()) == []


def test_the_inputs_of_a_command_are_refused(tmp_path):
    with h5py.File(tmp_path / "features.h5", "w") as file:
        file["rows"] = np.eye(2)
    with pytest.raises(InputError, match=r"--out .*features\.h5: the command reads it"):
        check_store_place(tmp_path / "features.h5", "--out", [tmp_path / "features.h5"])
