"""CLIP models saved by sentence-transformers: names of the model hub and folders."""

from __future__ import annotations

from pathlib import Path

from engine.encoders.family import IMAGES, Family, FamilyFacts, NeededFile
from engine.encoders.needed_files import needed_file, needed_in_folder, not_cached
from engine.encoders.request import EncoderRequest


def needed_files(request: EncoderRequest) -> list[NeededFile]:
    """The list of modules, and what the folder of the one that is a model must hold."""
    from engine.encoders.sentence_transformers import MODULES, hub_name, model_folder
    from engine.encoders.transformers.source import cached_folder

    name = hub_name(request)
    root = Path(name).expanduser()
    if not root.is_dir():
        cached = cached_folder(name)
        if cached is None:
            return [not_cached("the model", name)]
        root = cached
    modules = needed_file("list of modules", root / MODULES)
    return [modules, *needed_in_folder(model_folder(root))] if modules.there else [modules]


FAMILIES = (
    Family(
        "sentence_transformers",
        "engine.encoders.sentence_transformers",
        FamilyFacts(
            ("sentence_transformers:NAME", "sentence_transformers:FOLDER"),
            IMAGES,
            "cosine",
            "CLIP models saved by sentence-transformers",
        ),
        needed_files,
    ),
)
