"""What the families of models are, for people who choose one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points

from engine.encoders.registry import ENTRY_POINT_GROUP


@dataclass(frozen=True)
class FamilyFacts:
    """The forms of a family's specs, what it reads, what it scores with, and which models it is for."""

    forms: tuple[str, ...]
    reads: str
    scores: str
    models: str


IMAGES, REGIONS = "images", "region features"
CATALOGUE: Mapping[str, FamilyFacts] = {
    "open_clip": FamilyFacts(
        ("open_clip:NAME:TAG", "open_clip:NAME:FILE", "open_clip:local-dir:FOLDER"),
        IMAGES,
        "cosine",
        "every model that open_clip builds",
    ),
    "transformers": FamilyFacts(
        ("transformers:OWNER/MODEL", "transformers:FOLDER"),
        IMAGES,
        "cosine",
        "CLIP, SigLIP, SigLIP 2, ALIGN, AltCLIP, GroupViT, BLIP (contrastive) and every other model of "
        "transformers with get_image_features and get_text_features",
    ),
    "sentence_transformers": FamilyFacts(
        ("sentence_transformers:NAME", "sentence_transformers:FOLDER"),
        IMAGES,
        "cosine",
        "CLIP models saved by sentence-transformers",
    ),
    "blip": FamilyFacts(
        ("blip:FILE[:vocab=FILE,image_size=384]", "blip:FOLDER[:...]"),
        IMAGES,
        "cosine, then the matching head's logit + cosine",
        "Salesforce's BLIP checkpoints",
    ),
    "albef": FamilyFacts(
        ("albef:FILE[:vocab=FILE,image_size=384]",),
        IMAGES,
        "cosine, then the matching head's logit",
        "Salesforce's ALBEF checkpoints",
    ),
    "vse_infty": FamilyFacts(
        ("vse_infty:FILE[:vocab=FILE,image_size=512]",),
        f"{IMAGES} (grid) or {REGIONS}",
        "cosine",
        "VSE-infinity: region or grid, BERT or BiGRU",
    ),
    "vsrn": FamilyFacts(
        ("vsrn:FILE[+FILE...][:vocab=FILE]",),
        REGIONS,
        "cosine, the mean of the models",
        "VSRN, one model or an ensemble",
    ),
    "saf": FamilyFacts(("saf:FILE[:vocab=FILE]",), REGIONS, "a score of each pair", "SGRAF's SAF"),
    "sgr": FamilyFacts(("sgr:FILE[:vocab=FILE]",), REGIONS, "a score of each pair", "SGRAF's SGR"),
    "saf+sgr": FamilyFacts(
        ("saf+sgr:FILE+FILE[:vocab=FILE]",), REGIONS, "a score of each pair, the mean of both", "SGRAF"
    ),
    "python": FamilyFacts(
        ("python:MODULE:OBJECT",), IMAGES, "cosine", "an encoder in Python of your own (it is run)"
    ),
}


def plugin_facts() -> dict[str, FamilyFacts]:
    """The families of installed plug-ins; none of them is imported."""
    return {
        name: FamilyFacts((f"{name}:NAME[:WEIGHTS]",), IMAGES, "cosine", f"the plug-in {point.value}")
        for name, point in sorted((one.name, one) for one in entry_points(group=ENTRY_POINT_GROUP))
    }
