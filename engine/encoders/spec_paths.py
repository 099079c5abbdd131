"""The paths in a model's spec: a part of it is one path, or holds several with ``,``, ``=`` or ``+`` between
(options, checkpoints that score together)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from engine.encoders.registry import names_files, parse_spec

BETWEEN_PATHS = re.compile("([,=+])")
OPEN_CLIP = "open_clip"  # what has a slash in its specs is a path, as where a family names files
HUB_NAME = re.compile(r"[^/.~][^/]*/[^/]+")


def path_words(part: str) -> set[str]:
    """What may be a path in a part of a spec: all of it, and what stands between its separators."""
    return {word for word in (part, *BETWEEN_PATHS.split(part)[::2]) if word}


def change_paths(part: str, is_path: Callable[[str], bool], change: Callable[[str], str]) -> str:
    """A part of a spec with another text for the path that it is, or else for each that it holds."""
    words = [part] if is_path(part) else BETWEEN_PATHS.split(part)
    return "".join(change(word) if is_path(word) else word for word in words)


def without_folders(spec: str) -> str:
    """A model's spec with only the names of the files and folders in it.

    Told by its text alone, so that it is the same wherever it is asked; ``OWNER/NAME`` of a model hub stays.
    Raises `InputError` for what is no spec.
    """
    family, *parts = parse_spec(spec)
    may_be_hub = family != OPEN_CLIP and not names_files(family)

    def name(word: str) -> str:
        return word if may_be_hub and HUB_NAME.fullmatch(word) else PurePath(word).name or word

    return ":".join(
        [family, *("".join(map(name, BETWEEN_PATHS.split(part))) for part in parts if part is not None)]
    )
