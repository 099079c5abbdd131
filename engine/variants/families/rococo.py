"""`rococo:FILE`: the published adversarial captions of a RoCOCO file."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from engine.corpus import AdversarialCaption, Corpus, read_rococo
from engine.corpus.wording import same_form
from engine.errors import InputError
from engine.path_text import path_text
from engine.variants.checks import require_change
from engine.variants.parameters import Parameter
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItem, VariantItems
from engine.variants.word_diff import replaced_words

SHOWN_CHARACTERS = 60


@family("rococo", Parameter("file", Path, "the path of a RoCOCO file", positional=True), whole_rest=True)
@dataclass(frozen=True)
class Rococo:
    """The adversarial captions of a RoCOCO file (its last five captions an image), as published.

    The name of the variant has the file's name alone; what every item says of its change has the file's
    SHA-256 too.

    FILE is the rest of the spec, colons included. It fits any corpus with the file's originals: the same
    images with the same captions in the same order (the file itself, or the list of originals it was made
    from). The corpus' text normalisation is applied to the adversarial captions too. An item is changed when
    it still differs from its original with case, white space and punctuation ignored, because the published
    captions were made from tokenised text.
    """

    file: Path
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "captions"

    @property
    def name(self) -> str:
        """``rococo:`` and the file's name without its ending."""
        return f"rococo:{path_text(self.file.stem)}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """One item an adversarial caption, in file order; originals without one are in `left_out`.

        Raises `InputError` when the file cannot be read, when its originals are not the corpus' (names the
        first difference), or when no item differs from its original.
        """
        originals, adversarials = read_rococo(self.file, corpus.normalisation)
        _check_originals(corpus, originals, self.file)
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        items = tuple(self._item(corpus, adversarial, digest) for adversarial in adversarials)
        with_item = {item.source for item in items}
        left_out = {
            row: "the file has no adversarial caption for it"
            for row in range(len(corpus.captions))
            if row not in with_item
        }
        return require_change(self.name, VariantItems(items, left_out))

    def _item(self, corpus: Corpus, adversarial: AdversarialCaption, digest: str) -> VariantItem:
        original = corpus.captions[adversarial.original]
        changed = same_form(original.text) != same_form(adversarial.text)
        replaced = replaced_words(original.text, adversarial.text) if changed else ()
        change = {
            "policy": "published",
            "file": path_text(self.file.name),
            "sha256": digest,
            "replaced": [asdict(one) for one in replaced],
        }
        return VariantItem(
            f"{original.id}@{self.name}", adversarial.original, adversarial.text, changed, change
        )


def _check_originals(corpus: Corpus, originals: Corpus, file: Path) -> None:
    advice = "use the corpus that the file was made from, or the file itself as the corpus"
    for row, (ours, theirs) in enumerate(zip(corpus.images, originals.images, strict=False)):
        if ours.file != theirs.file:
            raise InputError(
                f"{file}: image {row} is {theirs.file!r}; expected {ours.file!r} as in the corpus "
                f"{corpus.name!r}; {advice}"
            )
    for row, (mine, other) in enumerate(zip(corpus.captions, originals.captions, strict=False)):
        if (mine.text, mine.image) != (other.text, other.image):
            raise InputError(
                f"{file}: original caption {row} is {_shown(other.text)} of image {other.image}; expected "
                f"{_shown(mine.text)} of image {mine.image} as in the corpus {corpus.name!r}; {advice}"
            )
    for kind, ours_count, theirs_count in (
        ("images", len(corpus.images), len(originals.images)),
        ("original captions", len(corpus.captions), len(originals.captions)),
    ):
        if ours_count != theirs_count:
            raise InputError(
                f"{file}: {theirs_count} {kind}; expected {ours_count} as in the corpus "
                f"{corpus.name!r}; {advice}"
            )


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}...")
