"""The fine-grained captions (MSCOCO-FG, Flickr30K-FG): ``{file stem: [caption, ...]}``."""

from __future__ import annotations

from pathlib import PurePosixPath

from engine.corpus.document import Document
from engine.corpus.reader import Collector, Reading
from engine.corpus.shape import describe, expect_image_file, expect_object, expect_text
from engine.errors import InputError

ENDING = ".jpg"
IMAGE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp"})


class FineGrainedReader:
    """Image id: the key; file: the key, with ``.jpg`` unless it ends as an image; caption id: ``<key>#<k>``.

    Caption k refines the k-th original caption of the image.
    """

    name = "fine_grained"
    layout = "{FILE STEM: [TEXT, ...], ...}"
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """An object of nothing but lists of texts."""
        value = document.value if document.is_json else None
        if not isinstance(value, dict) or not value:
            return None
        if not all(
            isinstance(texts, list) and all(isinstance(t, str) for t in texts) for texts in value.values()
        ):
            return None
        return f"an object of {len(value):,} lists of texts"

    def read(self, document: Document, split: str) -> Reading:
        """Every caption is an original. Raises `InputError` for a key without captions."""
        if not document.is_json:
            raise InputError(f"{document.path}: not valid JSON: {document.fault}")
        collector = Collector()
        for key, texts in expect_object(document.value, str(document.path)).items():
            place = f"{document.path}: key {key!r}"
            image = collector.add_image(key, _file(key, place), place)
            if not isinstance(texts, list) or not texts:
                raise InputError(
                    f"{place}: found {describe(texts)}; expected a list with at least one caption"
                )
            for k, text in enumerate(texts):
                checked = expect_text(text, f"{place}: caption {k}")
                collector.add_caption(f"{key}#{k}", checked, image, place)
        if not collector.captions:
            raise InputError(f"{document.path}: found no captions; expected an object with at least one key")
        return collector.reading()


def _file(key: str, place: str) -> str:
    file = expect_image_file(key, place)
    return file if PurePosixPath(file).suffix.lower() in IMAGE_ENDINGS else f"{file}{ENDING}"


READER = FineGrainedReader()
