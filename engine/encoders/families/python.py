"""Encoders in modules of the user's."""

from __future__ import annotations

from pathlib import Path

from engine.encoders.family import IMAGES, Family, FamilyFacts, NeededFile
from engine.encoders.needed_files import needed_file
from engine.encoders.request import EncoderRequest


def needed_files(request: EncoderRequest) -> list[NeededFile]:
    """The module, where the spec names its file."""
    if not request.name.endswith(".py"):
        return []
    return [needed_file("module", Path(request.name).expanduser())]


FAMILIES = (
    Family(
        "python",
        "engine.encoders.python_object",
        FamilyFacts(
            ("python:MODULE:OBJECT",), IMAGES, "cosine", "an encoder in Python of your own (it is run)"
        ),
        needed_files,
    ),
)
