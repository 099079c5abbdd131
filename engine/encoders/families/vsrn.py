"""VSRN, from the published checkpoints, one or an ensemble."""

from __future__ import annotations

from engine.encoders.family import REGIONS, Family, FamilyFacts
from engine.encoders.needed_files import with_words

MOST_MODELS = 8

FAMILIES = (
    Family(
        "vsrn",
        "engine.encoders.vsrn.encoder",
        FamilyFacts(
            ("vsrn:FILE[+FILE...][:vocab=FILE]",),
            REGIONS,
            "cosine, the mean of the models",
            "VSRN, one model or an ensemble",
        ),
        with_words(MOST_MODELS),
        names_files=True,
        options=("vocab",),
        signature=("Rs_GCN_1.g.weight",),
    ),
)
