"""ALBEF, from the published checkpoints."""

from __future__ import annotations

from engine.encoders.family import IMAGES, Family, FamilyFacts
from engine.encoders.needed_files import with_word_pieces

FAMILIES = (
    Family(
        "albef",
        "engine.encoders.albef.encoder",
        FamilyFacts(
            ("albef:FILE[:vocab=FILE,image_size=384]",),
            IMAGES,
            "cosine, then the matching head's logit",
            "Salesforce's ALBEF checkpoints",
        ),
        with_word_pieces,
        names_files=True,
        options=("vocab", "image_size", "image_heads", "text_heads"),
        has_matching_head=True,
        signature=(
            "text_encoder.embeddings.token_type_embeddings.weight",
            "text_encoder.bert.embeddings.token_type_embeddings.weight",
        ),
    ),
)
