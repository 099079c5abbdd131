"""Dual encoders of transformers: names of the model hub and folders."""

from __future__ import annotations

from pathlib import Path

from engine.encoders.family import IMAGES, Family, FamilyFacts, NeededFile
from engine.encoders.needed_files import needed_in_folder, not_cached
from engine.encoders.request import EncoderRequest


def needed_files(request: EncoderRequest) -> list[NeededFile]:
    """What the folder, or that of the name in the cache, must hold."""
    from engine.encoders.transformers.source import HUB_NAME, cached_folder

    folder = Path(request.name).expanduser()
    if folder.is_dir():
        return needed_in_folder(folder)
    if not HUB_NAME.fullmatch(request.name):
        return [NeededFile("the model", f"{request.name}: no such folder", False)]
    cached = cached_folder(request.name)
    return [not_cached("the model", request.name)] if cached is None else needed_in_folder(cached)


FAMILIES = (
    Family(
        "transformers",
        "engine.encoders.transformers.encoder",
        FamilyFacts(
            ("transformers:OWNER/MODEL", "transformers:FOLDER"),
            IMAGES,
            "cosine",
            "CLIP, SigLIP, SigLIP 2, ALIGN, AltCLIP, GroupViT, BLIP (contrastive) and every other model of "
            "transformers with get_image_features and get_text_features",
        ),
        needed_files,
    ),
)
