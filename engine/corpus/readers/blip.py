"""BLIP's retrieval list (``coco_karpathy_test.json``): an entry holds an image and all its captions."""

from __future__ import annotations

from engine.corpus.document import Document
from engine.corpus.reader import Collector, Reading
from engine.corpus.readers.caption_list import gather_evidence, iterate_entries


class BlipReader:
    """Image id: the file. Caption id: ``<image id>#<k>``."""

    name = "blip"
    layout = '[{"image": FILE, "caption": [TEXT, ...]}, ...]'
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """A list of objects with `image` and `caption`, not originals followed by altered copies."""
        evidence = gather_evidence(document)
        if evidence is None or not evidence.allows_blip:
            return None
        return f"a list of entries with 'image' and 'caption'; {evidence}"

    def read(self, document: Document, split: str) -> Reading:
        """Every caption is an original."""
        collector = Collector()
        for entry in iterate_entries(document):
            image = collector.add_image(entry.file, entry.file, entry.place)
            for k, text in enumerate(entry.captions):
                collector.add_caption(f"{entry.file}#{k}", text, image, entry.place)
        return collector.reading()


READER = BlipReader()
