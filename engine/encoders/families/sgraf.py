"""SGRAF: SAF, SGR and the mean of both, from the published checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

from engine.encoders.family import REGIONS, Family, FamilyFacts
from engine.encoders.needed_files import with_words

MEMBERS: Mapping[str, tuple[str, ...]] = {"saf": ("saf",), "sgr": ("sgr",), "saf+sgr": ("saf", "sgr")}


def _family(name: str, facts: FamilyFacts, *signature: str) -> Family:
    return Family(
        name,
        "engine.encoders.sgraf.scorer",
        facts,
        with_words(len(MEMBERS[name])),
        names_files=True,
        options=("vocab",),
        scores_pairs=True,
        signature=signature,
    )


FAMILIES = (
    _family(
        "saf",
        FamilyFacts(("saf:FILE[:vocab=FILE]",), REGIONS, "a score of each pair", "SGRAF's SAF"),
        "SAF_module.attn_sim_w.weight",
    ),
    _family(
        "sgr",
        FamilyFacts(("sgr:FILE[:vocab=FILE]",), REGIONS, "a score of each pair", "SGRAF's SGR"),
        "SGR_module.0.graph_query_w.weight",
    ),
    _family(
        "saf+sgr",
        FamilyFacts(
            ("saf+sgr:FILE+FILE[:vocab=FILE]",), REGIONS, "a score of each pair, the mean of both", "SGRAF"
        ),
    ),
)
