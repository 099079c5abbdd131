"""open_clip: published tags, files and folders."""

from __future__ import annotations

from pathlib import Path

from engine.encoders.family import IMAGES, Family, FamilyFacts, NeededFile
from engine.encoders.needed_files import needed_file, not_cached
from engine.encoders.request import EncoderRequest
from engine.errors import InputError


def needed_files(request: EncoderRequest) -> list[NeededFile]:
    """The weights of a tag in the cache, a file and what lies beside it, or a folder's."""
    from open_clip import pretrained

    from engine.encoders.open_clip_source import (
        CONFIG_FILE,
        GELU,
        LOCAL_DIR,
        QUICK_GELU,
        WEIGHT_SUFFIXES,
        cached_weights,
        leaves_activation_open,
    )

    if request.weights is None:
        raise InputError(f"{request.spec}: names no weights; expected open_clip:NAME:TAG or :FILE")
    place = Path(request.weights).expanduser()
    if request.name == LOCAL_DIR:
        found = sorted(str(file) for suffix in WEIGHT_SUFFIXES for file in place.glob(f"*{suffix}"))
        looked = ", ".join(found) or f"{place}/*.safetensors, ..."
        return [
            needed_file("configuration", place / CONFIG_FILE),
            NeededFile("weights", looked, bool(found)),
        ]
    tag = pretrained.get_pretrained_cfg(request.name, request.weights)
    if not tag:
        beside = place.parent / CONFIG_FILE
        needed = [needed_file("weights", place)]
        ways = {"preprocessing": "named with --preprocess"}
        if leaves_activation_open(name := request.name):
            ways["activation"] = f"named as {name}{QUICK_GELU} or {name}{GELU}"
        for what, way in ways.items():
            there = beside.is_file()
            needed.append(NeededFile(what, str(beside) if there else f"{beside}, or {way}", there))
        return needed
    if not tag.get("hf_hub"):
        return [NeededFile("weights", f"downloaded from {tag.get('url')}", False)]
    cached = cached_weights(tag)
    if cached is None:
        return [not_cached("weights", str(tag["hf_hub"]).rstrip("/"))]
    return [NeededFile("weights", str(cached), True)]


FAMILIES = (
    Family(
        "open_clip",
        "engine.encoders.open_clip",
        FamilyFacts(
            ("open_clip:NAME:TAG", "open_clip:NAME:FILE", "open_clip:local-dir:FOLDER"),
            IMAGES,
            "cosine",
            "every model that open_clip builds",
        ),
        needed_files,
    ),
)
