"""Precomputed region features of a corpus's images: an array, an HDF5 file, or one ``.npz`` an image.

Readers give every image's own regions, float32 [regions, dim], never padding: for some models the number of
regions and their order count.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Corpus, ImageItem
from engine.errors import InputError
from engine.inputs import NO_ARRAY, read_array_head

Regions = NDArray[np.float32]
ImageInput = Literal["images", "regions"]
_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
_HDF5_LAYOUTS = (
    "features [total, dim] with offsets [images + 1] or pos_boxes [images, 2]; features [images, regions, "
    "dim], with lengths [images] where padded; or a dataset an image named by its id"
)
_FEATURE_NAMES = ("features", "image_features")
_LENGTH_NAMES = ("lengths", "num_boxes")
_ID_NAMES = ("image_ids", "ids")
_NPZ_NAMES = ("x", "features")
MOST_VALUES = 1 << 26
"""The most values of one image that are read: a quarter of a GiB as float32."""


def _check_size(path: Path, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Raise `InputError` for what is no number, and for more values of one image than any model reads."""
    if dtype.kind not in "fiu":
        raise InputError(f"{path}: holds {dtype}; expected numbers")
    if math.prod(shape) > MOST_VALUES:
        raise InputError(
            f"{path}: features of an image of shape {list(shape)}; expected at most {MOST_VALUES:,} values"
        )


class RegionFeatures(Protocol):
    """The region features of a corpus, by image row."""

    def __len__(self) -> int:
        """Images."""

    def read(self, row: int) -> Regions:
        """float32 [regions, dim] of the image in a corpus row. Raises `InputError` when they cannot be
        read."""


def open_regions(path: Path, corpus: Corpus) -> RegionFeatures:
    """The features in `path`, aligned with the images of `corpus`.

    A ``.npy`` of shape images x regions x dim (or captions x regions x dim, as some published files repeat
    an image for each of its captions) and an HDF5 file without ids are taken in corpus order; a folder of
    ``<image>.npz`` files and an HDF5 file with ids by the image's id, its file's name or stem, or the number
    the stem ends with. Nothing is unpickled. Raises `InputError` when a row or an image is missing.
    """
    if path.is_dir():
        return _NpzFolder(path, corpus)
    if not path.is_file():
        raise InputError(f"{path}: no such file or folder; expected region features")
    if path.suffix == ".npy":
        return _Array(path, corpus)
    if path.suffix in _HDF5_SUFFIXES:
        return _open_hdf5(path, corpus)
    raise InputError(
        f"{path}: not known as region features; expected a .npy, an HDF5 file ({', '.join(_HDF5_SUFFIXES)}) "
        "or a folder with one .npz an image"
    )


def check_image_source(spec: str, reads: ImageInput, images: Path | None, features: Path | None) -> None:
    """Raise `InputError` unless exactly the one input that the model reads is given."""
    if images is not None and features is not None:
        raise InputError(f"{spec}: both --images and --features are given; expected --{_option(reads)} alone")
    if images is None and features is None:
        raise InputError(f"{spec}: neither --images nor --features is given; expected --{_option(reads)}")
    if (reads == "regions") != (features is not None):
        raise other_input(spec, reads)


def other_input(spec: str, reads: ImageInput) -> InputError:
    """The error for a model that was given the input it does not read."""
    if reads == "regions":
        return InputError(
            f"{spec}: reads precomputed region features, not images; give --features instead of --images"
        )
    return InputError(f"{spec}: reads images, not features; give --images instead of --features")


def _option(reads: ImageInput) -> str:
    return "features" if reads == "regions" else "images"


def check_regions(value: Any, spec: str, dim: int, regions: int | None = None) -> Regions:
    """`value` as float32 [regions, dim] for a model that reads `dim` values a region (and so many regions).

    Raises `InputError` for an image, another shape, or values that are not finite.
    """
    if not isinstance(value, np.ndarray):
        raise InputError(f"{spec}: reads precomputed region features [regions, dim], found something else")
    if value.ndim != 2 or value.shape[1] != dim or not len(value):
        raise InputError(f"{spec}: features of shape {list(value.shape)}; expected [regions, {dim}]")
    if regions is not None and len(value) != regions:
        raise InputError(
            f"{spec}: features with {len(value)} regions; the model needs {regions} in each image"
        )
    checked = np.ascontiguousarray(value, dtype=np.float32)
    if not np.isfinite(checked).all():
        raise InputError(f"{spec}: features with NaN or infinite values; expected finite numbers")
    return checked


class _Array:
    """A ``.npy`` file, read image by image."""

    def __init__(self, path: Path, corpus: Corpus) -> None:
        try:
            self._values = np.lib.format.open_memmap(path, mode="r")
        except (*NO_ARRAY, OSError) as error:
            raise InputError(f"{path}: cut off or no .npy of numbers ({error}); get the file again") from None
        if self._values.ndim != 3:
            shape = list(self._values.shape)
            raise InputError(f"{path}: an array of shape {shape}; expected [images, regions, dim]")
        _check_size(path, self._values.shape[1:], self._values.dtype)
        self._rows = _align_rows(path, len(self._values), corpus)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, row: int) -> Regions:
        return np.array(self._values[self._rows[row]], dtype=np.float32)


def _align_rows(path: Path, rows: int, corpus: Corpus) -> Sequence[int]:
    """The row of every image in a file in corpus order."""
    if rows == len(corpus.images):
        return range(rows)
    if rows == len(corpus.captions) and all(len(captions) for captions in corpus.captions_of_image):
        return [int(captions[0]) for captions in corpus.captions_of_image]
    raise InputError(
        f"{path}: features of {rows} images; the corpus has {len(corpus.images)} images and "
        f"{len(corpus.captions)} captions, expected one row for each of either"
    )


class _NpzFolder:
    """A folder with one ``.npz`` an image; the features are its array ``x`` or ``features``."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        self._files = [_find_npz(folder, image) for image in corpus.images]

    def __len__(self) -> int:
        return len(self._files)

    def read(self, row: int) -> Regions:
        path = self._files[row]
        try:
            with zipfile.ZipFile(path) as archive:
                there = [name.removesuffix(".npy") for name in archive.namelist()]
                name = next((name for name in _NPZ_NAMES if name in there), None)
                if name is None:
                    raise InputError(f"{path}: no array {' or '.join(_NPZ_NAMES)}; found {there[:5]}")
                with archive.open(f"{name}.npy") as member:
                    shape, _, dtype = read_array_head(member)
                    _check_size(path, shape, dtype)
                with archive.open(f"{name}.npy") as member:
                    return np.asarray(np.lib.format.read_array(member, allow_pickle=False), dtype=np.float32)
        except (*NO_ARRAY, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            raise InputError(f"{path}: cut off or no .npz of numbers ({error})") from None


def _find_npz(folder: Path, image: ImageItem) -> Path:
    names = [name for name in _names_of(image) if Path(name).name == name]
    found = next((path for name in names if (path := folder / f"{name}.npz").is_file()), None)
    if found is None:
        raise InputError(
            f"{folder}: no {' or '.join(f'{name}.npz' for name in names)} for image {image.id!r}"
        )
    return found


def _names_of(image: ImageItem) -> list[str]:
    """The names that published features have for an image, without repeats."""
    file = Path(image.file)
    number = re.search(r"(\d+)$", file.stem)
    names = [image.id, file.stem, file.name, *([str(int(number.group()))] if number else [])]
    return list(dict.fromkeys(names))


def _open_hdf5(path: Path, corpus: Corpus) -> RegionFeatures:
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path}: cut off or no HDF5 file ({error}); get the file again") from None
    name = next((name for name in _FEATURE_NAMES if name in file), None)
    if name is None:
        return _NamedDatasets(path, file, corpus)
    features = _dataset(path, file, name)
    if features.ndim not in (2, 3):
        raise InputError(f"{path}: '{name}' has shape {list(features.shape)}; expected {_HDF5_LAYOUTS}")
    spans = _read_packed(path, file, features) if features.ndim == 2 else _read_padded(path, file, features)
    return _Hdf5Rows(path, features, spans, _find_rows(path, file, len(spans), corpus))


def _dataset(path: Path, file: Any, name: str) -> Any:
    """The dataset of that name, in this file itself: a link to another file is refused."""
    value = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(value, h5py.Dataset) or value.is_virtual or value.external:
        raise InputError(f"{path}: '{name}' is no dataset of this file; expected {_HDF5_LAYOUTS}")
    return value


class _Hdf5Rows:
    """Features of images that follow each other in one dataset; `spans` selects an image's part of it."""

    def __init__(
        self, path: Path, features: Any, spans: Sequence[tuple[Any, ...]], rows: Sequence[int]
    ) -> None:
        self._path, self._features, self._spans, self._rows = path, features, spans, rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, row: int) -> Regions:
        span = self._spans[self._rows[row]]
        regions = span[-1].stop - span[-1].start
        _check_size(self._path, (regions, self._features.shape[-1]), self._features.dtype)
        return _read_hdf5(self._path, lambda: self._features[span])


def _read_hdf5(path: Path, read: Callable[[], Any]) -> Regions:
    try:
        return np.asarray(read(), dtype=np.float32)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: features cannot be read ({error}); get the file again") from None


def _read_packed(path: Path, file: Any, features: Any) -> list[tuple[Any, ...]]:
    """[total, dim]: an image's rows are between two offsets, or in its row of ``pos_boxes``."""
    if "offsets" in file:
        offsets = _integers(path, file, "offsets", 1)
        bounds = np.stack([offsets[:-1], offsets[1:]], axis=1)
    elif "pos_boxes" in file:
        bounds = _integers(path, file, "pos_boxes", 2)
    else:
        raise InputError(f"{path}: neither 'offsets' nor 'pos_boxes' in it; expected {_HDF5_LAYOUTS}")
    wrong = np.flatnonzero(
        (bounds[:, 0] < 0) | (bounds[:, 0] >= bounds[:, 1]) | (bounds[:, 1] > len(features))
    )
    if len(wrong):
        start, stop = bounds[wrong[0]].tolist()
        raise InputError(
            f"{path}: image row {wrong[0]} has the regions {start} to {stop} of {len(features)}; "
            "expected at least one region inside the dataset"
        )
    return [(slice(start, stop),) for start, stop in bounds.tolist()]


def _read_padded(path: Path, file: Any, features: Any) -> list[tuple[Any, ...]]:
    """[images, regions, dim], with the true number of regions of each image where one is given."""
    name = next((name for name in _LENGTH_NAMES if name in file), None)
    images, most = features.shape[:2]
    lengths = np.full(images, most) if name is None else _integers(path, file, name, 1)
    wrong = np.flatnonzero((lengths < 1) | (lengths > most))
    if len(lengths) != images or len(wrong):
        found = f"{len(lengths)} rows" if len(lengths) != images else f"{lengths[wrong[0]]} in row {wrong[0]}"
        raise InputError(f"{path}: '{name}' has {found}; expected 1 to {most} for each of {images} images")
    return [(row, slice(0, length)) for row, length in enumerate(lengths.tolist())]


def _integers(path: Path, file: Any, name: str, dims: int) -> NDArray[np.int64]:
    values = _dataset(path, file, name)
    if values.ndim != dims or values.dtype.kind not in "iu" or (dims == 2 and values.shape[1] != 2):
        raise InputError(f"{path}: '{name}' is {values.dtype} {list(values.shape)}; expected {_HDF5_LAYOUTS}")
    return np.asarray(values[()], dtype=np.int64)


def _find_rows(path: Path, file: Any, images: int, corpus: Corpus) -> Sequence[int]:
    """The row of every image: by id where the file has ids, else in corpus order."""
    name = next((name for name in _ID_NAMES if name in file), None)
    if name is None:
        return _align_rows(path, images, corpus)
    ids = [_text(value) for value in _dataset(path, file, name)[()].tolist()]
    if len(ids) != images:
        raise InputError(f"{path}: '{name}' has {len(ids)} rows; expected {images}, one an image")
    rows = {id: row for row, id in enumerate(ids)}
    return [_find_name(path, rows, image) for image in corpus.images]


def _find_name(path: Path, rows: Mapping[str, int], image: ImageItem) -> int:
    found = next((rows[name] for name in _names_of(image) if name in rows), None)
    if found is None:
        raise InputError(f"{path}: no features for image {image.id!r} (looked for {_names_of(image)})")
    return found


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _NamedDatasets:
    """An HDF5 file with a dataset an image: ``<id>``, ``<id>_features`` or ``<id>/features``."""

    def __init__(self, path: Path, file: Any, corpus: Corpus) -> None:
        self._path = path
        self._datasets = [self._find(file, image) for image in corpus.images]

    def __len__(self) -> int:
        return len(self._datasets)

    def read(self, row: int) -> Regions:
        dataset = self._datasets[row]
        _check_size(self._path, dataset.shape, dataset.dtype)
        return _read_hdf5(self._path, lambda: dataset[()])

    def _find(self, file: Any, image: ImageItem) -> Any:
        for name in _names_of(image):
            for key in (f"{name}_features", f"{name}/features", name):
                if key in file:
                    return _dataset(self._path, file, key)
        raise InputError(
            f"{self._path}: no features for image {image.id!r} (looked for {_names_of(image)}); "
            f"expected {_HDF5_LAYOUTS}"
        )
