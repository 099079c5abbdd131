"""A RoCOCO file: the BLIP list with five adversarial captions at the end of every entry."""

from __future__ import annotations

from engine.corpus.document import Document
from engine.corpus.reader import AdversarialCaption, Collector, Reading
from engine.corpus.readers.caption_list import ADVERSARIALS, Entry, gather_evidence, iterate_entries
from engine.errors import InputError


class RococoReader:
    """Originals are all but the last five captions of an entry; adversarial k (0..4) belongs to original k.

    Originals have the ids that the BLIP list of the same images gives them; adversarial k of an image is
    ``<image id>#adversarial<k>``.
    """

    name = "rococo"
    layout = '[{"image": FILE, "caption": [ORIGINAL, ... (5 or more), ADVERSARIAL, ... (exactly 5)]}, ...]'
    has_splits = False

    def recognise(self, document: Document) -> str | None:
        """A list of objects with `image` and `caption`, the last five altered copies of the first."""
        evidence = gather_evidence(document)
        if evidence is None or not evidence.allows_rococo:
            return None
        return f"a list of entries with 'image' and 'caption'; {evidence}"

    def read(self, document: Document, split: str) -> Reading:
        """The originals as images and captions, the rest as adversarials."""
        collector = Collector()
        adversarials: list[AdversarialCaption] = []
        for entry in iterate_entries(document):
            originals, altered = split_entry(entry)
            image = collector.add_image(entry.file, entry.file, entry.place)
            rows = [
                collector.add_caption(f"{entry.file}#{k}", text, image, entry.place)
                for k, text in enumerate(originals)
            ]
            adversarials += [
                AdversarialCaption(f"{entry.file}#adversarial{k}", text, rows[k])
                for k, text in enumerate(altered)
            ]
        return collector.reading(tuple(adversarials))


def split_entry(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Originals and adversarials of an entry; `InputError` when an adversarial would have no original."""
    if len(entry.captions) < 2 * ADVERSARIALS:
        raise InputError(
            f"{entry.place}: field 'caption' has {len(entry.captions)} texts; "
            f"expected {2 * ADVERSARIALS} or more in a RoCOCO file: "
            f"the last {ADVERSARIALS} are adversarial, all before them original, and "
            "adversarial k belongs to original k"
        )
    return entry.captions[:-ADVERSARIALS], entry.captions[-ADVERSARIALS:]


READER = RococoReader()
