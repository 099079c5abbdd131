"""What a reader is, what it gives, and the collector that keeps ids unique."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from engine.corpus.corpus import Caption, ImageItem
from engine.corpus.document import Document
from engine.errors import InputError


@dataclass(frozen=True)
class AdversarialCaption:
    """A published adversarial caption: id (unique among them), text, and the caption row of its original."""

    id: str
    text: str
    original: int


@dataclass(frozen=True)
class Reading:
    """What a reader took from a document, texts as published. `split` is the part read, if any."""

    images: tuple[ImageItem, ...]
    captions: tuple[Caption, ...]
    adversarials: tuple[AdversarialCaption, ...] = ()
    split: str | None = None


class Reader(Protocol):
    """A member of `engine.corpus.registry`: one published layout, one file in `engine.corpus.readers`."""

    @property
    def name(self) -> str:
        """What `--reader` calls it."""

    @property
    def layout(self) -> str:
        """One line that shows what such a file looks like."""

    @property
    def has_splits(self) -> bool:
        """Whether its files have named parts, chosen by `--split`."""

    def recognise(self, document: Document) -> str | None:
        """Why the content looks like this layout, in words; None when it does not. Blind to the file's name.

        Two readers that both recognise a document make it ambiguous: the user is asked.
        """

    def read(self, document: Document, split: str) -> Reading:
        """Everything in the document, in order. Raises `InputError` that names the entry and the field."""


@dataclass
class Collector:
    """Gathers images and captions in order; refuses an id that is there already, naming both places."""

    images: list[ImageItem] = field(default_factory=list)
    captions: list[Caption] = field(default_factory=list)
    _image_places: dict[str, str] = field(default_factory=dict)
    _caption_places: dict[str, str] = field(default_factory=dict)

    def add_image(self, id: str, file: str, place: str) -> int:
        """Add an image and return its row."""
        _claim(self._image_places, "image", id, place)
        self.images.append(ImageItem(id, file))
        return len(self.images) - 1

    def add_caption(self, id: str, text: str, image: int, place: str) -> int:
        """Add a caption of the image in row `image` and return the caption's row."""
        _claim(self._caption_places, "caption", id, place)
        self.captions.append(Caption(id, text, image))
        return len(self.captions) - 1

    def reading(self, adversarials: tuple[AdversarialCaption, ...] = (), split: str | None = None) -> Reading:
        """What was gathered."""
        return Reading(tuple(self.images), tuple(self.captions), adversarials, split)


def _claim(places: dict[str, str], kind: str, id: str, place: str) -> None:
    if id in places:
        first = places[id].rsplit(": ", 1)[-1]
        raise InputError(f"{place}: {kind} id {id!r} is there already ({first}); expected every {kind} once")
    places[id] = place
