"""The Karpathy splits (``dataset_coco.json``, ``dataset_flickr30k.json``, ``dataset_flickr8k.json``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from engine.corpus.document import Document
from engine.corpus.reader import Collector, Reading
from engine.corpus.shape import (
    expect_field,
    expect_id,
    expect_image_file,
    expect_list,
    expect_object,
    expect_text,
)
from engine.errors import InputError, unknown_name

_IMAGE_IDS = ("cocoid", "imgid")
_CAPTION_ID = "sentid"


@dataclass(frozen=True)
class Entry:
    """One image of the chosen split, its sentences, and where it stands."""

    value: dict[str, Any]
    sentences: tuple[dict[str, Any], ...]
    place: str


class KarpathyReader:
    """Image id: `cocoid`, else `imgid`, else the file; caption id: `sentid`, else ``<image id>#<k>``.

    An id is taken from a field only when every image (every sentence) of the split has it. The file is
    ``filepath/filename``. An image without sentences is kept.
    """

    name = "karpathy"
    layout = '{"images": [{"filename": FILE, "split": NAME, "sentences": [{"raw": TEXT}, ...]}, ...]}'
    has_splits = True

    def recognise(self, document: Document) -> str | None:
        """An object whose `images` have `sentences` and `split`."""
        if not document.is_json or not isinstance(document.value, dict):
            return None
        images = document.value.get("images")
        if not isinstance(images, list):
            return None
        if not any(isinstance(image, dict) and "sentences" in image and "split" in image for image in images):
            return None
        return "an object whose 'images' have 'sentences' and a 'split'"

    def read(self, document: Document, split: str) -> Reading:
        """The images of `split` ("all": every one) in file order; `InputError` when it does not occur."""
        entries = _entries(document, split)
        image_id = next((f for f in _IMAGE_IDS if all(f in entry.value for entry in entries)), None)
        has_ids = all(_CAPTION_ID in sentence for entry in entries for sentence in entry.sentences)
        collector = Collector()
        for entry in entries:
            _add(collector, entry, image_id, has_ids)
        if not collector.captions:
            raise InputError(f"{document.path}: split '{split}' has {len(entries)} images and no sentence")
        return collector.reading(split=split)


def _entries(document: Document, split: str) -> list[Entry]:
    if not document.is_json:
        raise InputError(f"{document.path}: not valid JSON: {document.fault}")
    images = expect_list(expect_object(document.value, str(document.path)), "images", str(document.path))
    entries: list[Entry] = []
    sizes: Counter[str] = Counter()
    for row, value in enumerate(images):
        place = f"{document.path}: image {row} (from 0)"
        image = expect_object(value, place)
        name = expect_text(expect_field(image, "split", place), f"{place}: field 'split'")
        sizes[name] += 1
        if split in (name, "all"):
            entries.append(Entry(image, _sentences(image, place), place))
    if not entries:
        found = ", ".join(f"{name} ({size} images)" for name, size in sorted(sizes.items())) or "none"
        hint = unknown_name("split", split, [*sizes, "all"])
        raise InputError(f"{document.path}: {hint}; the file has: {found}")
    return entries


def _sentences(image: dict[str, Any], place: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        expect_object(value, f"{place}: sentence {k}")
        for k, value in enumerate(expect_list(image, "sentences", place))
    )


def _add(collector: Collector, entry: Entry, image_id: str | None, has_ids: bool) -> None:
    file = _file(entry)
    id = file if image_id is None else expect_id(entry.value[image_id], f"{entry.place}: field '{image_id}'")
    image = collector.add_image(id, file, entry.place)
    for k, sentence in enumerate(entry.sentences):
        place = f"{entry.place}: sentence {k}"
        text = expect_text(expect_field(sentence, "raw", place), f"{place}: field 'raw'")
        caption_id = expect_id(sentence[_CAPTION_ID], f"{place}: field 'sentid'") if has_ids else f"{id}#{k}"
        collector.add_caption(caption_id, text, image, place)


def _file(entry: Entry) -> str:
    filename = expect_text(
        expect_field(entry.value, "filename", entry.place), f"{entry.place}: field 'filename'"
    )
    folder = expect_text(entry.value.get("filepath", ""), f"{entry.place}: field 'filepath'")
    place = f"{entry.place}: field 'filepath' with 'filename'"
    return expect_image_file(f"{folder}/{filename}" if folder else filename, place)


READER = KarpathyReader()
