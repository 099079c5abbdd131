"""COCO's own annotations (``captions_val2014.json`` and its like): images and captions, apart."""

from __future__ import annotations

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
from engine.errors import InputError


class CocoCaptionsReader:
    """Image id: `id`; file: `file_name`; caption id: the annotation's `id`. Images without captions are kept.

    Captions stay in the file's order, which need not be the order of their images.
    """

    name = "coco_captions"
    layout = (
        '{"images": [{"id": ID, "file_name": FILE}, ...], '
        '"annotations": [{"id": ID, "image_id": ID, "caption": TEXT}, ...]}'
    )
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """An object with the lists `images` and `annotations`, whose annotations have captions."""
        if not document.is_json or not isinstance(document.value, dict):
            return None
        images, annotations = document.value.get("images"), document.value.get("annotations")
        if not isinstance(images, list) or not isinstance(annotations, list):
            return None
        if not any(isinstance(annotation, dict) and "caption" in annotation for annotation in annotations):
            return None
        return "an object with 'images' and 'annotations', and the annotations have a 'caption'"

    def read(self, document: Document, split: str) -> Reading:
        """Every image and every caption in file order."""
        if not document.is_json:
            raise InputError(f"{document.path}: not valid JSON: {document.fault}")
        root = expect_object(document.value, str(document.path))
        collector = Collector()
        rows = _add_images(collector, document, root)
        _add_captions(collector, document, root, rows)
        if not collector.captions:
            raise InputError(f"{document.path}: field 'annotations' is an empty list; expected captions")
        return collector.reading()


def _add_images(collector: Collector, document: Document, root: dict[str, object]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, value in enumerate(expect_list(root, "images", str(document.path))):
        place = f"{document.path}: image {row} (from 0)"
        image = expect_object(value, place)
        id = expect_id(expect_field(image, "id", place), f"{place}: field 'id'")
        file = expect_image_file(expect_field(image, "file_name", place), f"{place}: field 'file_name'")
        rows[id] = collector.add_image(id, file, place)
    return rows


def _add_captions(
    collector: Collector, document: Document, root: dict[str, object], rows: dict[str, int]
) -> None:
    for row, value in enumerate(expect_list(root, "annotations", str(document.path))):
        place = f"{document.path}: annotation {row} (from 0)"
        annotation = expect_object(value, place)
        id = expect_id(expect_field(annotation, "id", place), f"{place}: field 'id'")
        image = expect_id(expect_field(annotation, "image_id", place), f"{place}: field 'image_id'")
        if image not in rows:
            raise InputError(f"{place}: field 'image_id' is {image!r}; expected the id of one of 'images'")
        text = expect_text(expect_field(annotation, "caption", place), f"{place}: field 'caption'")
        collector.add_caption(id, text, rows[image], place)


READER = CocoCaptionsReader()
