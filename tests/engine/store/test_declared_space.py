"""The declared space of a store: said where it is, absent where it is not, never changed unasked."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from engine.errors import InputError
from engine.store import open_store, open_writer


def write(path, small, unit_rows, **changes):
    with open_writer(path, small.with_header(**changes), [small.images]) as writer:
        numbers = writer.pending("images", "original")
        writer.write("images", "original", numbers, unit_rows(7)[numbers])


def test_a_space_is_kept_and_else_it_is_the_encoders_own(tmp_path, small, unit_rows):
    write(tmp_path / "a.h5", small, unit_rows, space="b32")
    write(tmp_path / "b.h5", small, unit_rows)
    with open_store(tmp_path / "a.h5") as declared, open_store(tmp_path / "b.h5") as silent:
        assert (declared.header.space, declared.header.space_id) == ("b32", "b32")
        assert (silent.header.space, silent.header.space_id) == ("", "ab" * 32)
    with h5py.File(tmp_path / "b.h5") as file:  # as in stores older than spaces
        assert "space" not in file.attrs


def test_a_space_that_was_changed_in_the_file_is_damage(tmp_path, small, unit_rows):
    write(tmp_path / "a.h5", small, unit_rows, space="b32")
    data = (tmp_path / "a.h5").read_bytes()
    assert data.count(b"b32") == 1
    (tmp_path / "a.h5").write_bytes(data.replace(b"b32", b"b16"))
    with pytest.raises(InputError, match="the header does not have the digest"):
        open_store(tmp_path / "a.h5")


def test_a_store_without_a_space_gets_it(tmp_path, small, unit_rows):
    path = tmp_path / "a.h5"
    write(path, small, unit_rows)
    with open_store(path) as store:
        created = store.header.created
    write(path, small, unit_rows, space="b32")
    with open_store(path) as store:
        assert (store.header.space, store.header.created) == ("b32", created)
        np.testing.assert_array_equal(store.load("images", "original").rows.read(0, 7), unit_rows(7))


@pytest.mark.parametrize(("space", "words"), [("b16", "not 'b16'"), ("", r"none is declared now \(--space,")])
def test_another_space_or_none_is_refused_and_nothing_changes(tmp_path, small, unit_rows, space, words):
    path = tmp_path / "a.h5"
    write(path, small, unit_rows, space="b32")
    before = path.read_bytes()
    with pytest.raises(InputError, match=rf"a\.h5 is of the space 'b32', {words}.*--force replaces"):
        write(path, small, unit_rows, space=space)
    assert path.read_bytes() == before
    with open_writer(path, small.with_header(space=space), [small.images], force=True) as writer:
        assert len(writer.pending("images", "original")) == 7
    with open_store(path) as store:
        assert store.header.space == space


@pytest.mark.parametrize("name", [" b32", "b\n32", "x" * 256])
def test_names_that_no_space_can_have(small, name):
    with pytest.raises(InputError, match="space"):
        small.with_header(space=name)
