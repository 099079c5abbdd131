"""What is written is read back, in any order and any batches; what differs is named, never reused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from engine.store import COMPLETE, PENDING, SKIPPED, SetPlan, VariantRecord, open_store, open_writer
from engine.store.plans import original_plans, variant_plan
from engine.store.raw import pack_texts, row_checksums, runs, unpack_texts
from engine.variants.variant import VariantItem, VariantItems


def fill(path, small, unit_rows, plans=None):
    with open_writer(path, small.header, plans or small.plans) as writer:
        for seed, plan in enumerate(plans or small.plans):
            rows = writer.pending(plan.modality, plan.name)
            writer.write(plan.modality, plan.name, rows, unit_rows(plan.rows, seed=seed)[rows])


def test_a_store_gives_back_everything_it_was_given(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    with open_store(path) as store:
        assert [info.label for info in store.sets] == [
            "images/original",
            "captions/original",
            "captions/swap:seed=1.5",
        ]
        assert replace(store.header, created="", versions={}) == small.header
        assert store.header.created.endswith("+00:00")
        assert store.header.versions["numpy"] == np.__version__
        for seed, plan in enumerate(small.plans):
            loaded = store.load(plan.modality, plan.name)
            assert (loaded.ids, loaded.content) == (plan.ids, plan.content)
            assert loaded.change == plan.change
            assert loaded.variant == plan.variant
            np.testing.assert_array_equal(loaded.source, plan.source)
            for part in ("image", "changed"):
                ours, theirs = getattr(loaded, part), getattr(plan, part)
                assert (ours is None) == (theirs is None)
                if theirs is not None:
                    np.testing.assert_array_equal(ours, theirs)
            assert (loaded.state == COMPLETE).all()
            rows = loaded.rows.read(0, plan.rows)
            assert rows.dtype == np.float32
            assert rows.flags.c_contiguous
            np.testing.assert_array_equal(rows, unit_rows(plan.rows, seed=seed))
            assert store.verify(plan.modality, plan.name) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.h5"]


def test_other_hdf5_readers_see_the_same_rows(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    with h5py.File(path) as file:
        group = file["captions/original"]
        np.testing.assert_array_equal(group["embeddings"][:], unit_rows(19, seed=1))
        ends = group["content_ends"][:]
        assert bytes(group["content"][ends[3] : ends[4]]).decode() == small.captions.content[4]
        assert file.attrs["encoder_spec"].decode() == "fake:model"
        assert file.attrs["normalised"] == 1


@settings(max_examples=25, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float32", "float16"]))
def test_any_order_batches_and_interruptions_give_the_same_rows(small, unit_rows, data, dtype):
    plan, expected = small.captions, unit_rows(small.captions.rows)
    order = data.draw(st.permutations(range(plan.rows)))
    cuts = sorted(data.draw(st.lists(st.integers(0, plan.rows), max_size=4)))
    done: set[int] = set()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.h5"
        header = small.with_header(dtype=dtype)
        for start, stop in zip([0, *cuts], [*cuts, plan.rows], strict=True):
            with open_writer(path, header, [plan]) as writer:
                assert writer.pending("captions", "original").tolist() == sorted(set(range(plan.rows)) - done)
                rows = np.array(order[start:stop], dtype=np.int64)
                writer.write("captions", "original", rows, expected[rows])
                done |= set(rows.tolist())
        with open_store(path) as store:
            loaded = store.load("captions", "original")
            start, stop = sorted(data.draw(st.tuples(st.integers(0, plan.rows), st.integers(0, plan.rows))))
            np.testing.assert_array_equal(loaded.rows.read(start, stop), expected.astype(dtype)[start:stop])


def test_an_incomplete_set_says_how_many_rows_are_missing(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, [small.images]) as writer:
        writer.write("images", "original", np.array([4, 1]), unit_rows(2))
        writer.skip("images", "original", np.array([0]), ["truncated JPEG ä"])
    with open_store(path) as store:
        with pytest.raises(
            InputError, match=r"s\.h5: images/original lacks 4 of 7 rows; run `itrstress embed`"
        ):
            store.load("images", "original")
        loaded = store.load("images", "original", complete=False)
        assert loaded.reasons == {0: "truncated JPEG ä"}
        expected = [SKIPPED, COMPLETE, PENDING, PENDING, COMPLETE, PENDING, PENDING]
        assert loaded.state.tolist() == expected


def test_a_set_with_skipped_rows_is_complete_and_says_why(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    with open_writer(path, small.header, [small.images]) as writer:
        writer.write("images", "original", np.arange(6), unit_rows(6))
        writer.skip("images", "original", np.array([6]), ["ü" * 200])
        assert len(writer.pending("images", "original")) == 0
    with open_store(path) as store:
        assert store.load("images", "original").reasons == {6: "ü" * 48}
        assert store.verify("images", "original") == []


def test_which_rows_were_skipped_is_told_by_a_digest(tmp_path, small, unit_rows):
    digests = set()
    for skipped in (2, 2, 6):
        path = tmp_path / f"{len(digests)}-{skipped}.h5"
        with open_writer(path, small.header, [small.images]) as writer:
            kept = np.delete(np.arange(7), skipped)
            writer.write("images", "original", kept, unit_rows(6))
            writer.skip("images", "original", np.array([skipped]), ["cut off"])
        with open_store(path) as store:
            digests.add(store.sets[0].skipped_digest)
    assert len(digests) == 2


def test_adding_a_set_keeps_the_others_byte_for_byte(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows, small.plans[:2])
    with open_store(path) as store:
        created = store.header.created
    with open_writer(path, small.header, small.plans) as writer:
        assert len(writer.pending("captions", "original")) == 0
        assert len(writer.pending("captions", small.variant.name)) == small.variant.rows
    with open_store(path) as store:
        assert store.header.created == created
        for seed, plan in enumerate(small.plans[:2]):
            loaded = store.load(plan.modality, plan.name)
            np.testing.assert_array_equal(loaded.rows.read(0, plan.rows), unit_rows(plan.rows, seed=seed))


def test_a_plan_that_is_there_leaves_the_structure_alone(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    before = path.stat().st_ino, path.read_bytes()
    with open_writer(path, small.header, small.plans[1:2]) as writer:
        assert len(writer.pending("captions", "original")) == 0
    assert (path.stat().st_ino, path.read_bytes()) == before


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"encoder_fingerprint": "cd" * 32, "encoder_spec": "fake:other"},
            r"checkpoint fake:model \(abab.*fake:other \(cdcd",
        ),
        ({"corpus_fingerprint": "ef" * 32, "corpus_name": "large"}, r"corpus small \(.*not large \(efef"),
        ({"normalisation": "pre_caption"}, r"text raw\), not small .*text pre_caption"),
        ({"dim": 7}, "has dim 6, not 7"),
        ({"dtype": "float16"}, "has dtype float32, not float16"),
    ],
)
def test_a_store_of_something_else_is_named_and_replaced_only_by_force(
    tmp_path, small, unit_rows, changes, line
):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    before = path.read_bytes()
    with pytest.raises(InputError, match=line):
        open_writer(path, small.with_header(**changes), small.plans)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.h5"]
    with open_writer(path, small.with_header(**changes), [small.captions], force=True) as writer:
        assert len(writer.pending("captions", "original")) == small.captions.rows


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"content": ("other 0", "OTHER 1", *(f"other {row}" for row in range(2, 11)))},
            "content at row 1: 'other 1', not 'OTHER 1'",
        ),
        ({"source": np.array([*range(10), 18])}, "source at row 10: 10, not 18"),
        (
            {"ids": ("x", *(f"c{row}@swap:seed=1.5" for row in range(1, 11)))},
            "id at row 0: 'c0@swap:seed=1.5', not 'x'",
        ),
        (
            {"content_digest": ("d",) * 11},
            r"digest at row 0 \(the bytes of c0@swap:seed=1.5\): None, not 'd'",
        ),
    ],
)
def test_another_set_under_the_same_name_says_what_differs(tmp_path, small, unit_rows, changes, line):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    other = replace(small.variant, **changes)
    with pytest.raises(
        InputError, match=f"captions/swap:seed=1.5 is there with another {line}; --force replaces it"
    ):
        open_writer(path, small.header, [other])
    with open_writer(path, small.header, [other], force=True) as writer:
        assert len(writer.pending("captions", other.name)) == 11
    with open_store(path) as store:
        np.testing.assert_array_equal(
            store.load("captions", "original").rows.read(0, 19), unit_rows(19, seed=1)
        )


def test_another_number_of_items_is_named(tmp_path, small, unit_rows):
    path = tmp_path / "s.h5"
    fill(path, small, unit_rows)
    with pytest.raises(InputError, match="is there with 11 items, not 9"):
        open_writer(path, small.header, [small.with_variant(rows=9)])


def test_the_key_follows_the_items_and_the_encoder_and_not_what_was_noted_of_them(small):
    key = small.variant.content_key("a")
    assert key == small.with_variant().content_key("a")
    assert key != small.variant.content_key("b")
    assert key == replace(small.variant, change=("{}",) * 11).content_key("a")
    # texts that only move between neighbours make another key
    moved = ("other 0other 1", "", *small.variant.content[2:])
    assert key != replace(small.variant, content=moved).content_key("a")


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (np.full(6, np.nan), "row 17: the embedding has NaN or infinite values"),
        (np.array([np.inf, 0, 0, 0, 0, 0]), "row 17: the embedding has NaN or infinite values"),
        (np.zeros(6), "row 17: the embedding has length 0, expected L2-normalised"),
        (np.array([1.002, 0, 0, 0, 0, 0]), "row 17: the embedding has length 1.002"),
    ],
)
def test_rows_that_no_encoder_may_give_are_refused_and_nothing_of_the_batch_is_kept(
    tmp_path, small, unit_rows, row, line
):
    batch = unit_rows(3)
    batch[1] = row
    with open_writer(tmp_path / "s.h5", small.header, [small.captions]) as writer:
        with pytest.raises(InputError, match=f"captions/original {line}"):
            writer.write("captions", "original", np.array([3, 17, 5]), batch)
        assert len(writer.pending("captions", "original")) == 19


def test_calls_that_do_not_fit_are_refused(tmp_path, small, unit_rows):
    with open_writer(tmp_path / "s.h5", small.header, [small.captions]) as writer:
        for rows, batch in (
            (np.array([0, 0]), unit_rows(2)),
            (np.array([19]), unit_rows(1)),
            (np.array([-1]), unit_rows(1)),
            (np.array([0]), unit_rows(2)),
            (np.array([0]), unit_rows(1, dim=5)),
        ):
            with pytest.raises(ValueError):  # noqa: PT011 - any of the messages
                writer.write("captions", "original", rows, batch)
        with pytest.raises(ValueError, match="not one of the sets"):
            writer.write("images", "original", np.array([0]), unit_rows(1))
        with pytest.raises(ValueError, match="only images"):
            writer.skip("captions", "original", np.array([0]), ["why"])


def test_two_writers_do_not_meet_and_a_lock_file_alone_does_not_block(tmp_path, small):
    path = tmp_path / "s.h5"
    (tmp_path / ".s.h5.lock").write_text("left by a killed process")
    with open_writer(path, small.header, small.plans), pytest.raises(InputError, match="another process"):
        open_writer(path, small.header, small.plans)
    with open_writer(path, small.header, small.plans):
        pass


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "a\nb", "x" * 300])
def test_names_that_cannot_be_a_group_are_refused(small, name):
    with pytest.raises(InputError, match="name"):
        replace(small.variant, name=name)


def test_plans_whose_parts_do_not_fit_are_refused(small):
    for changes, line in (
        ({"ids": ()}, "no items"),
        ({"content": ("one",)}, "1 entries of content for 11 ids"),
        ({"ids": ("same",) * 11}, "rows 0 and 1 have the same id 'same'"),
        ({"variant": None}, "variant is missing"),
        ({"image": np.zeros(11, dtype=np.int64)}, "image is not part"),
    ):
        with pytest.raises(InputError, match=line):
            replace(small.variant, **changes)


def test_text_without_utf8_form_is_named(tmp_path, small):
    broken = replace(small.variant, content=("ok", "bad \ud800", *small.variant.content[2:]))
    with pytest.raises(InputError, match=r"captions/swap:seed=1.5 content row 1: the character '\\ud800'"):
        open_writer(tmp_path / "s.h5", small.header, [broken])
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_survive_packing_zero_characters_included(texts):
    assert unpack_texts(*pack_texts("t", texts)) == tuple(texts)


@given(st.lists(st.integers(0, 30), unique=True).map(sorted))
def test_runs_are_the_stretches_of_consecutive_numbers(numbers):
    found = [numbers[start:stop] for start, stop in runs(np.array(numbers, dtype=np.int64))]
    assert [number for run in found for number in run] == numbers
    assert all(run == list(range(run[0], run[0] + len(run))) for run in found)
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(found))


def test_a_checksum_knows_its_row_so_exchanged_rows_show(unit_rows):
    rows = unit_rows(2)
    straight = row_checksums(rows, np.array([0, 1]))
    exchanged = row_checksums(rows[::-1], np.array([0, 1]))
    assert not np.any(straight == exchanged)


class Recipe:
    sources = (2, 0)

    def draw(self, images):
        raise NotImplementedError

    def describe(self):
        return {"z": 1, "a": [0.5]}


class FakeVariant:
    name, side, modality = "mix:0.9:seed=1", "gallery", "images"


def test_an_image_variant_is_planned_with_its_recipe_and_the_digests_it_draws_from(corpus):
    items = VariantItems((VariantItem("m2", 2, Recipe(), True, {"fake": 0}),), {0: "too small"})
    digests = tuple(f"digest{row}" for row in range(7))
    plan = variant_plan(corpus, FakeVariant(), items, digests)
    assert plan.content == ('{"a":[0.5],"z":1}',)
    assert plan.content_digest == ("digest2 digest0",)
    assert plan.variant == VariantRecord("mix:0.9:seed=1", "gallery", "images", 1.0, {0: "too small"})
    assert plan.content_key("e") != variant_plan(corpus, FakeVariant(), items).content_key("e")
    images, _ = original_plans(corpus, digests)
    assert images.content_digest == digests
    with pytest.raises(ValueError, match="outside"):
        variant_plan(corpus, FakeVariant(), VariantItems((VariantItem("m", 7, Recipe(), True),)))


def test_a_digest_is_kept_in_the_file(tmp_path, small, unit_rows):
    plan: SetPlan = replace(small.images, content_digest=tuple(f"d{row}" for row in range(7)))
    with open_writer(tmp_path / "s.h5", small.header, [plan]) as writer:
        writer.write("images", "original", np.arange(7), unit_rows(7))
    with open_store(tmp_path / "s.h5") as store:
        assert store.load("images", "original").content_digest == plan.content_digest
