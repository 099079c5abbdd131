"""Whether sets of stores of different encoders have the same items, whatever made their rows."""

from __future__ import annotations

from engine.store.reader import EmbeddingSet
from engine.store.schema import hash_items


def items_digest(one: EmbeddingSet) -> str:
    """SHA-256 (hex) of a set's items in their order: id, source, text, file name or recipe, described image.

    No encoder is part of it, and no digest of an image's bytes: region features have others than files.
    """
    return hash_items("", one.ids, one.source, one.content, None, one.image)


def key_with(one: EmbeddingSet, encoder_fingerprint: str) -> str:
    """The content key that the set's items have in a store of another encoder."""
    return hash_items(encoder_fingerprint, one.ids, one.source, one.content, one.content_digest, one.image)
