"""Embedding from region features: every layout gives the same store, and what does not fit is one line."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.encoders.regions import check_regions
from engine.errors import InputError
from engine.store.embedding.embed import embed
from engine.store.image_source import RegionImages, open_source
from engine.store.reader import open_store
from engine.variants.registry import make_variant

IMAGES, DIM = 5, 3
Save = Callable[[Path, list[NDArray[np.float32]]], Path]


class RegionEncoder:
    """Mean and maximum of an image's regions, and a plain function of a text."""

    spec, dim, fingerprint, reads = "fake:regions", 2 * DIM, "a" * 64, "regions"

    def __init__(self, regions: int | None = None, fail_after: int = 10**9) -> None:
        self._regions, self._left = regions, fail_after

    def prepare_image(self, image: Any) -> NDArray[np.float32]:
        return check_regions(image, self.spec, DIM, self._regions)

    def encode_images(self, images: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return unit([np.concatenate([one.mean(axis=0), one.max(axis=0)]) for one in images])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return unit([[len(text), 1.0, 2.0, 3.0, 4.0, 5.0] for text in texts])


def unit(rows: Sequence[Any]) -> NDArray[np.float32]:
    table = np.asarray(rows, dtype=np.float64)
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


def make_corpus() -> Corpus:
    images = tuple(ImageItem(f"{7 * i:04d}", f"img_{7 * i:012d}.jpg") for i in range(IMAGES))
    captions = tuple(Caption(f"c{i}", f"caption {i}", i // 2) for i in range(2 * IMAGES))
    return Corpus("regions", images, captions)


def make_features(seed: int = 0, ragged: bool = False) -> list[NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    counts = [3 + i % 3 if ragged else 4 for i in range(IMAGES)]
    return [generator.random((count, DIM), dtype=np.float32) for count in counts]


def save_npy(folder: Path, features: list[NDArray[np.float32]]) -> Path:
    np.save(folder / "features.npy", np.stack(features))
    return folder / "features.npy"


def save_npy_a_caption(folder: Path, features: list[NDArray[np.float32]]) -> Path:
    np.save(folder / "repeated.npy", np.repeat(np.stack(features), 2, axis=0))
    return folder / "repeated.npy"


def save_hdf5(folder: Path, features: list[NDArray[np.float32]]) -> Path:
    """Ragged, and in another order than the corpus: the ids decide."""
    order = [3, 0, 4, 1, 2]
    with h5py.File(folder / "features.h5", "w") as file:
        file["features"] = np.concatenate([features[i] for i in order])
        file["offsets"] = np.cumsum([0, *(len(features[i]) for i in order)])
        file["image_ids"] = [f"{7 * i:04d}" for i in order]
    return folder / "features.h5"


def save_npz(folder: Path, features: list[NDArray[np.float32]]) -> Path:
    (folder / "npz").mkdir()
    for i, regions in enumerate(features):
        np.savez(folder / "npz" / f"{7 * i}.npz", x=regions)  # named by the number in the file's name
    return folder / "npz"


def go(path: Path, out: Path, encoder: RegionEncoder | None = None, **options: Any) -> None:
    corpus = make_corpus()
    source = RegionImages(corpus, path)
    options = {"batch_size": 2, "workers": 2, **options}
    embed(encoder or RegionEncoder(), corpus, source, options.pop("variants", []), out, **options)


def images_of(path: Path) -> NDArray[np.float32]:
    with open_store(path) as store:
        return store.load("images", "original").rows.read(0, IMAGES)


@pytest.mark.parametrize(
    ("save", "ragged"),
    [
        (save_npy, False),
        (save_npy_a_caption, False),
        (save_hdf5, False),
        (save_hdf5, True),
        (save_npz, True),
    ],
)
def test_rows_are_what_the_encoder_gives_for_an_images_own_regions(
    save: Save, ragged: bool, tmp_path: Path
) -> None:
    features = make_features(ragged=ragged)
    go(save(tmp_path, features), tmp_path / "s.h5")
    np.testing.assert_array_equal(images_of(tmp_path / "s.h5"), RegionEncoder().encode_images(features))


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tmp_path: Path) -> None:
    path = save_npy(tmp_path, make_features())
    go(path, tmp_path / "whole.h5")
    with pytest.raises(KeyboardInterrupt):
        go(path, tmp_path / "cut.h5", RegionEncoder(fail_after=1))
    go(path, tmp_path / "cut.h5")
    assert images_of(tmp_path / "cut.h5").tobytes() == images_of(tmp_path / "whole.h5").tobytes()


def test_another_layout_of_the_same_features_is_the_same_store_and_other_values_are_not(
    tmp_path: Path,
) -> None:
    features = make_features()
    go(save_npy(tmp_path, features), tmp_path / "s.h5")
    go(save_hdf5(tmp_path, features), tmp_path / "s.h5")
    features[2][1, 0] += 1e-3
    with pytest.raises(InputError, match=r"images/original is there with another digest at row 2"):
        go(save_npy(tmp_path, features), tmp_path / "s.h5")


def test_features_that_do_not_fit_the_model_are_named_before_any_work(tmp_path: Path) -> None:
    path = save_npz(tmp_path, make_features(ragged=True))
    with pytest.raises(InputError, match=r"^image '0000': .*3 regions; the model needs 4 in each image$"):
        go(path, tmp_path / "s.h5", RegionEncoder(regions=4))
    np.savez(path / "28.npz", x=np.ones((4, DIM + 1), np.float32))
    with pytest.raises(InputError, match=r"^image '0028': .*\[4, 4\]; expected \[regions, 3\]$"):
        go(path, tmp_path / "s.h5")
    np.savez(path / "28.npz", x=np.full((4, DIM), np.nan, np.float32))
    with pytest.raises(InputError, match=r"^image '0028': .*NaN"):
        go(path, tmp_path / "s.h5")
    (path / "28.npz").unlink()
    with pytest.raises(InputError, match=r"no 0028\.npz or .*28\.npz for image '0028'"):
        go(path, tmp_path / "s.h5")
    assert not (tmp_path / "s.h5").exists()


def huge_npz(folder: Path) -> Path:
    """One image whose head promises more values than any memory holds."""
    path = save_npz(folder, make_features())
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f4", "fortran_order": False, "shape": (10**9, DIM)}
    )
    with zipfile.ZipFile(path / "14.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(64))
    return path


def huge_hdf5(folder: Path) -> Path:
    """A small file with a dataset of a billion regions that are nowhere."""
    with h5py.File(folder / "huge.h5", "w") as file:
        file.create_dataset("features", (10**9, DIM), "f4", chunks=(1000, DIM))
        file["offsets"] = [0, 4, 8, 10**9 - 8, 10**9 - 4, 10**9]
    return folder / "huge.h5"


def words_npy(folder: Path) -> Path:
    np.save(folder / "words.npy", np.full((IMAGES, 4, DIM), "one"))
    return folder / "words.npy"


def pickled_npz(folder: Path) -> Path:
    path = save_npz(folder, make_features())
    np.savez(path / "14.npz", x=np.full((4, DIM), None))
    return path


@pytest.mark.parametrize(
    ("save", "said"),
    [
        (huge_npz, r"14\.npz: features of an image of shape \[1000000000, 3\]; expected at most"),
        (huge_hdf5, r"huge\.h5: features of an image of shape \[999999984, 3\]; expected at most"),
        (words_npy, r"words\.npy: holds <U3; expected numbers"),
        (pickled_npz, r"14\.npz: holds object; expected numbers"),
    ],
)
def test_features_are_looked_at_before_memory_is_taken(
    tmp_path: Path, save: Callable[[Path], Path], said: str
) -> None:
    path = save(tmp_path)
    with pytest.raises(InputError, match=said):
        go(path, tmp_path / "s.h5")
    assert not (tmp_path / "s.h5").exists()


def test_exactly_the_input_that_the_model_reads_is_taken(tmp_path: Path) -> None:
    corpus, encoder = make_corpus(), RegionEncoder()
    with pytest.raises(InputError, match="both --images and --features are given; expected --features alone"):
        open_source(encoder, encoder.spec, corpus, tmp_path, tmp_path)
    with pytest.raises(InputError, match="neither --images nor --features is given; expected --features"):
        open_source(encoder, encoder.spec, corpus, None, None)
    with pytest.raises(InputError, match="give --features instead of --images"):
        open_source(encoder, encoder.spec, corpus, tmp_path, None)
    with pytest.raises(InputError, match="give --features instead of --images"):
        embed(encoder, corpus, tmp_path, [], tmp_path / "s.h5", batch_size=2, workers=1)


def test_a_variant_that_draws_images_has_nothing_to_draw_from(tmp_path: Path) -> None:
    path = save_npy(tmp_path, make_features())
    with pytest.raises(InputError, match=r"variant mix:0.9:seed=1: draws new images"):
        go(path, tmp_path / "s.h5", variants=[make_variant("mix:0.9:seed=1")])
