"""BLIP, from the published checkpoints and from folders of transformers."""

from __future__ import annotations

from engine.encoders.family import IMAGES, Family, FamilyFacts
from engine.encoders.needed_files import with_word_pieces

FAMILIES = (
    Family(
        "blip",
        "engine.encoders.blip.encoder",
        FamilyFacts(
            ("blip:FILE[:vocab=FILE,image_size=384]", "blip:FOLDER[:...]"),
            IMAGES,
            "cosine, then the matching head's logit + cosine",
            "Salesforce's BLIP checkpoints",
        ),
        with_word_pieces,
        names_files=True,
        options=("vocab", "image_size", "image_heads", "text_heads"),
        has_matching_head=True,
        signature=("text_encoder.encoder.layer.0.crossattention.self.query.weight",),
    ),
)
