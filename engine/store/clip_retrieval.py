"""A folder of clip-retrieval's inference: `img_emb/`, `text_emb/`, `metadata/`, a row an image-text pair."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.normalise import find_normalisation
from engine.corpus.shape import expect_image_file, expect_text
from engine.errors import InputError
from engine.inputs import check_regular_file
from engine.store.arrays import RowTable, open_array
from engine.store.importer import ImportedSet
from engine.store.plans import original_plans

COLUMNS = ("image_path", "caption")
SAME_IMAGE_COSINE = 0.99  # half precision and other batches move a row less
COMPARED_ROWS = 4096


@dataclass(frozen=True)
class ClipRetrievalFolder:
    """Rows of pairs: image and text embeddings, and what the metadata says of each (POSIX path, caption)."""

    path: Path
    images: RowTable
    texts: RowTable
    image_paths: tuple[str, ...]
    captions: tuple[str, ...]


def read_folder(path: str | Path) -> ClipRetrievalFolder:
    """Open a folder. Raises `InputError` naming the file that is missing, unreadable or of other length."""
    path = Path(path)
    metadata_files = numbered(path, "metadata", "metadata", "parquet")
    images = RowTable(
        tuple(open_array(file) for file in numbered(path, "img_emb", "img_emb", "npy").values())
    )
    texts = RowTable(
        tuple(open_array(file) for file in numbered(path, "text_emb", "text_emb", "npy").values())
    )
    image_paths: list[str] = []
    captions: list[str] = []
    for part, file in enumerate(metadata_files.values()):
        part_paths, part_captions = read_metadata(file)
        for table in (images, texts):
            check_part(table, part, len(metadata_files), file, len(part_paths))
        image_paths += part_paths
        captions += part_captions
    return ClipRetrievalFolder(path, images, texts, tuple(image_paths), tuple(captions))


def numbered(folder: Path, name: str, stem: str, suffix: str) -> dict[int, Path]:
    """Part number -> file of ``<folder>/<name>/<stem>_<number>.<suffix>``, by number."""
    pattern = re.compile(rf"{stem}_(\d+)\.{suffix}")
    place = folder / name
    entries = sorted(place.iterdir()) if place.is_dir() else []
    found = {int(match[1]): entry for entry in entries if (match := pattern.fullmatch(entry.name))}
    if not found:
        raise InputError(
            f"{folder} has no {name}/{stem}_0.{suffix}; expected a folder that clip-retrieval inference wrote"
        )
    return dict(sorted(found.items()))


def check_part(table: RowTable, part: int, parts: int, metadata: Path, rows: int) -> None:
    """Raise `InputError` unless a part of the embeddings belongs to a part of the metadata, row by row."""
    if len(table.files) != parts:
        raise InputError(
            f"{table.files[0].path.parent} has {len(table.files)} parts, {metadata.parent} has {parts}"
        )
    file = table.files[part]
    if re.findall(r"\d+", file.path.stem)[-1:] != re.findall(r"\d+", metadata.stem)[-1:]:
        raise InputError(
            f"{file.path} stands where the part of {metadata.name} is expected; a part is missing"
        )
    if len(file.rows) != rows:
        raise InputError(
            f"{file.path} has {len(file.rows):,} rows, {metadata} has {rows:,}; expected one each"
        )


def read_metadata(file: Path) -> tuple[list[str], list[str]]:
    """Image paths and captions of a Parquet file. Raises `InputError` for a missing column or text."""
    import pyarrow
    import pyarrow.parquet

    check_regular_file(file, "the metadata of clip-retrieval inference (Parquet)")
    try:
        with file.open("rb") as handle:  # Arrow does not open a name that is no UTF-8
            there = pyarrow.parquet.read_schema(handle).names
            missing = [column for column in COLUMNS if column not in there]
            if missing:
                raise InputError(f"{file} has no column {missing[0]}; it has {', '.join(there)}")
            table = pyarrow.parquet.read_table(handle, columns=list(COLUMNS)).to_pydict()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error
    paths, captions = (
        [expect_text(value, f"{file} row {row}: {column}") for row, value in enumerate(table[column])]
        for column in COLUMNS
    )
    return paths, captions


def corpus_from_metadata(folder: ClipRetrievalFolder, normalisation: str) -> tuple[Corpus, list[ImportedSet]]:
    """The corpus of the metadata (a caption a row, rows with one path are one image), and its sets.

    Absolute paths are taken relative to the folder they share. Raises `InputError` when rows of one image
    have different embeddings.
    """
    normalise = find_normalisation(normalisation)
    files = relative_files(folder)
    first_rows: dict[str, int] = {}
    for row, file in enumerate(files):
        first_rows.setdefault(file, row)
    check_same_images(folder, np.array([first_rows[file] for file in files], dtype=np.int64))
    image_row = {file: number for number, file in enumerate(first_rows)}
    corpus = Corpus(
        name=folder.path.resolve().name,
        images=tuple(ImageItem(id=file, file=file) for file in first_rows),
        captions=tuple(
            Caption(id=str(row), text=normalise(text), image=image_row[file])
            for row, (text, file) in enumerate(zip(folder.captions, files, strict=True))
        ),
        source=folder.path,
        normalisation=normalisation,
    )
    images, captions = original_plans(corpus)
    return corpus, [
        ImportedSet(images, folder.images, np.array(list(first_rows.values()), dtype=np.int64)),
        ImportedSet(captions, folder.texts, np.arange(len(files), dtype=np.int64)),
    ]


def relative_files(folder: ClipRetrievalFolder) -> list[str]:
    """The image paths as files inside an image folder. Raises `InputError` for one that leads out of it."""
    paths = [PurePosixPath(re.sub("^/+", "/", path)) for path in folder.image_paths]  # //a is /a
    if paths and all(path.is_absolute() for path in paths):
        shared = shared_parent(paths)
        paths = [path.relative_to(shared) for path in paths]
    return [
        expect_image_file(str(path), f"{folder.path}/metadata row {row}: image_path")
        for row, path in enumerate(paths)
    ]


def shared_parent(paths: Sequence[PurePosixPath]) -> PurePosixPath:
    """The deepest folder that holds all paths (absolute)."""
    return PurePosixPath(posixpath.commonpath([str(path.parent) for path in paths]))


def check_same_images(folder: ClipRetrievalFolder, first: NDArray[np.int64]) -> None:
    """Raise `InputError` when a row's image embedding is not that of the image's first row (int64 [n])."""
    repeats = np.flatnonzero(first != np.arange(len(first)))
    for start in range(0, len(repeats), COMPARED_ROWS):
        rows = repeats[start : start + COMPARED_ROWS]
        cosines = np.einsum("ij,ij->i", folder.images.normalised(rows), folder.images.normalised(first[rows]))
        bad = np.flatnonzero(cosines < SAME_IMAGE_COSINE)
        if len(bad):
            row = int(rows[bad[0]])
            raise InputError(
                f"{folder.images.place(row)} and {folder.images.place(int(first[row]))} are of one image"
                f" ({folder.image_paths[row]}), yet their cosine is {cosines[bad[0]]:.3f}, expected 1"
            )


def match_corpus(folder: ClipRetrievalFolder, corpus: Corpus) -> list[ImportedSet]:
    """The sets of a given corpus: images found by file (or end of a path), captions by image and text.

    Rows of the folder that the corpus does not have are left out. Raises `InputError` naming the first image
    or caption that the folder does not have.
    """
    normalise = find_normalisation(corpus.normalisation)
    image_of_file = {image.file: number for number, image in enumerate(corpus.images)}
    image_rows: dict[int, int] = {}
    caption_rows: dict[tuple[int, str], int] = {}
    for row, (path, text) in enumerate(zip(folder.image_paths, folder.captions, strict=True)):
        image = find_image(path, image_of_file)
        if image is not None:
            image_rows.setdefault(image, row)
            caption_rows.setdefault((image, normalise(text)), row)
    for number, item in enumerate(corpus.images):
        if number not in image_rows:
            raise InputError(f"{folder.path} has no row for image {item.file} of corpus {corpus.name}")
    for caption in corpus.captions:
        if (caption.image, caption.text) not in caption_rows:
            raise InputError(
                f"{folder.path} has no row for caption {caption.id} ({caption.text[:40]!r}) of image"
                f" {corpus.images[caption.image].file} of corpus {corpus.name}"
            )
    images, captions = original_plans(corpus)
    image_index = [image_rows[number] for number in range(len(corpus.images))]
    caption_index = [caption_rows[caption.image, caption.text] for caption in corpus.captions]
    return [
        ImportedSet(images, folder.images, np.array(image_index, dtype=np.int64)),
        ImportedSet(captions, folder.texts, np.array(caption_index, dtype=np.int64)),
    ]


def find_image(path: str, image_of_file: dict[str, int]) -> int | None:
    """The image whose file is the path or its longest known end."""
    parts = PurePosixPath(path).parts
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((image_of_file[end] for end in ends if end in image_of_file), None)
