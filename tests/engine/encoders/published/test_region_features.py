"""Region features from every published layout, and files that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.encoders.regions import RegionFeatures, check_image_source, check_regions, open_regions
from engine.errors import InputError

MakeFeatures = Callable[..., list[np.ndarray]]


def corpus_of(*captions_an_image: int, ids: tuple[str, ...] | None = None) -> Corpus:
    names = ids or tuple(str(10 + i) for i in range(len(captions_an_image)))
    images = tuple(ImageItem(name, f"COCO_val2014_{int(name):012d}.jpg") for name in names)
    captions = tuple(
        Caption(f"{i}-{k}", "a dog", i) for i, count in enumerate(captions_an_image) for k in range(count)
    )
    return Corpus("tiny", images, captions)


def assert_reads(found: RegionFeatures, expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for row in (2, 0, 1):
        read = found.read(row)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, expected[row])


def test_an_array_is_read_by_image_row(tmp_path: Path, features: MakeFeatures) -> None:
    expected = features(4, 4, 4)
    np.save(tmp_path / "x.npy", np.stack(expected).astype(np.float64))
    assert_reads(open_regions(tmp_path / "x.npy", corpus_of(5, 5, 5)), expected)


def test_an_array_with_a_row_a_caption_is_read_at_an_images_first_caption(
    tmp_path: Path, features: MakeFeatures
) -> None:
    expected = features(4, 4, 4)
    np.save(tmp_path / "x.npy", np.repeat(np.stack(expected), (2, 1, 3), axis=0))
    assert_reads(open_regions(tmp_path / "x.npy", corpus_of(2, 1, 3)), expected)


def test_packed_hdf5_keeps_ragged_regions(tmp_path: Path, features: MakeFeatures) -> None:
    expected = features(4, 1, 6)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.concatenate(expected)
        file["offsets"] = np.array([0, 4, 5, 11])
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        file["image_features"] = np.concatenate(expected)
        file["pos_boxes"] = np.array([[0, 4], [4, 5], [5, 11]], dtype=np.int32)
    for name in ("a.h5", "b.hdf5"):
        assert_reads(open_regions(tmp_path / name, corpus_of(1, 1, 1)), expected)


def test_padded_hdf5_is_cut_to_the_true_regions_and_found_by_id(
    tmp_path: Path, features: MakeFeatures
) -> None:
    expected = features(4, 1, 6)
    padded = np.full((3, 6, 5), 99, dtype=np.float16)
    for row, item in enumerate(expected):
        padded[row, : len(item)] = item
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = padded[[2, 0, 1]]
        file["lengths"] = np.array([6, 4, 1])
        file["image_ids"] = np.array([12, 10, 11])
    found = open_regions(tmp_path / "a.h5", corpus_of(1, 1, 1))
    assert_reads(found, [item.astype(np.float16).astype(np.float32) for item in expected])


@pytest.mark.parametrize("key", ["{}", "{}_features", "{}/features"])
def test_hdf5_with_a_dataset_an_image(tmp_path: Path, features: MakeFeatures, key: str) -> None:
    expected = features(4, 1, 6)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, item in zip(("10", "11", "12"), expected, strict=True):
            file[key.format(name)] = item
    assert_reads(open_regions(tmp_path / "a.h5", corpus_of(1, 1, 1)), expected)


@pytest.mark.parametrize("name", ["{}", "COCO_val2014_{:0>12}", "COCO_val2014_{:0>12}.jpg"])
@pytest.mark.parametrize("array", ["x", "features"])
def test_a_folder_of_npz_files_beside_pickled_extras(
    tmp_path: Path, features: MakeFeatures, name: str, array: str
) -> None:
    expected = features(4, 1, 6)
    for id, item in zip(("10", "11", "12"), expected, strict=True):
        extras = {"bbox": np.ones((len(item), 4)), "info": np.array({"a": 1}, dtype=object)}
        np.savez(tmp_path / f"{name.format(id)}.npz", **{array: item}, **extras)
    assert_reads(open_regions(tmp_path, corpus_of(1, 1, 1)), expected)


def test_arrays_of_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy: cut off or no \.npy of numbers"):
        open_regions(tmp_path / "x.npy", corpus_of(1))
    np.savez(tmp_path / "10.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"10\.npz: holds object; expected numbers"):
        open_regions(tmp_path, corpus_of(1)).read(0)


def test_files_that_do_not_fit_the_corpus_are_named(tmp_path: Path, features: MakeFeatures) -> None:
    np.save(tmp_path / "x.npy", np.stack(features(4, 4)))
    with pytest.raises(
        InputError, match=r"x\.npy: features of 2 images; the corpus has 3 images and 6 captions"
    ):
        open_regions(tmp_path / "x.npy", corpus_of(2, 2, 2))
    with pytest.raises(InputError, match=r"no 10\.npz or .* for image '10'"):
        open_regions(tmp_path, corpus_of(1))
    with pytest.raises(InputError, match="no such file or folder"):
        open_regions(tmp_path / "none.npy", corpus_of(1))
    (tmp_path / "x.txt").write_text("1 2 3")
    with pytest.raises(InputError, match="not known as region features"):
        open_regions(tmp_path / "x.txt", corpus_of(1))
    np.save(tmp_path / "flat.npy", np.ones((3, 5)))
    with pytest.raises(InputError, match=r"shape \[3, 5\]; expected \[images, regions, dim\]"):
        open_regions(tmp_path / "flat.npy", corpus_of(1, 1, 1))


@pytest.mark.parametrize("name", ["x.npy", "x.h5"])
def test_a_file_cut_off_is_named(tmp_path: Path, features: MakeFeatures, name: str) -> None:
    whole = tmp_path / f"whole.{name[2:]}"
    if name == "x.npy":
        np.save(whole, np.stack(features(9, 9, 9)))
    else:
        with h5py.File(whole, "w") as file:
            file["features"] = np.stack(features(9, 9, 9))
    (tmp_path / name).write_bytes(whole.read_bytes()[:-300])
    with pytest.raises(InputError, match=rf"{name}: cut off"):
        open_regions(tmp_path / name, corpus_of(1, 1, 1))


def test_hdf5_parts_that_contradict_each_other_are_named(tmp_path: Path, features: MakeFeatures) -> None:
    packed = np.concatenate(features(4, 1, 6))
    cases = (
        ({"features": packed}, "neither 'offsets' nor 'pos_boxes'"),
        (
            {"features": packed, "offsets": np.array([0, 4, 4, 11])},
            "image row 1 has the regions 4 to 4 of 11",
        ),
        (
            {"features": packed, "offsets": np.array([0, 4, 5, 12])},
            "image row 2 has the regions 5 to 12 of 11",
        ),
        ({"features": packed, "offsets": np.array([0.0, 4, 5, 11])}, "'offsets' is float64"),
        ({"features": np.ones((3, 4, 5)), "lengths": np.array([4, 5, 1])}, "'lengths' has 5 in row 1"),
        ({"features": np.ones((3, 4, 5)), "lengths": np.array([4, 4])}, "'lengths' has 2 rows"),
        ({"features": np.ones((3, 4, 5)), "ids": np.array([1, 2])}, "'ids' has 2 rows"),
        ({"features": np.ones((3, 4, 5)), "ids": np.array([10, 11, 13])}, "no features for image '12'"),
        ({"features": np.ones(3)}, r"'features' has shape \[3\]"),
        ({"99": np.ones((4, 5))}, "no features for image '10'"),
    )
    for number, (content, said) in enumerate(cases):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            for key, value in content.items():
                file[key] = value
        with pytest.raises(InputError, match=said):
            open_regions(path, corpus_of(1, 1, 1))


def test_hdf5_links_to_other_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["features"] = np.ones((1, 4, 5))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = h5py.ExternalLink("secret.h5", "features")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["10"] = h5py.ExternalLink("secret.h5", "features")
    for name in ("a.h5", "b.h5"):
        with pytest.raises(InputError, match="no dataset of this file"):
            open_regions(tmp_path / name, corpus_of(1))


def test_an_image_id_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    np.savez(tmp_path / "10.npz", x=np.ones((4, 5)))
    outside = Corpus("tiny", (ImageItem("../10", "none.jpg"),), (Caption("c", "a dog", 0),))
    with pytest.raises(InputError, match=r"no none\.npz"):
        open_regions(tmp_path / "inner", outside)


def test_features_are_checked_against_the_model() -> None:
    values = np.ones((35, 5), dtype=np.float64)
    assert check_regions(values, "saf:x", 5).dtype == np.float32
    with pytest.raises(InputError, match="saf:x: features with 35 regions; the model needs 36"):
        check_regions(values, "saf:x", 5, 36)
    with pytest.raises(InputError, match=r"shape \[35, 5\]; expected \[regions, 2048\]"):
        check_regions(values, "saf:x", 2048)
    with pytest.raises(InputError, match="found something else"):
        check_regions(Image.new("RGB", (3, 3)), "saf:x", 5)
    values[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        check_regions(values, "saf:x", 5)


def test_images_and_features_both_neither_or_the_wrong_one() -> None:
    here = Path("x")
    check_image_source("vsrn:m", "regions", None, here)
    check_image_source("blip:m", "images", here, None)
    with pytest.raises(
        InputError, match="vsrn:m: both --images and --features are given; expected --features"
    ):
        check_image_source("vsrn:m", "regions", here, here)
    with pytest.raises(
        InputError, match="blip:m: neither --images nor --features is given; expected --images"
    ):
        check_image_source("blip:m", "images", None, None)
    with pytest.raises(InputError, match="give --features instead of --images"):
        check_image_source("vsrn:m", "regions", here, None)
    with pytest.raises(InputError, match="give --images instead of --features"):
        check_image_source("blip:m", "images", None, here)
