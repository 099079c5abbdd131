"""Versions that results and stores record."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from engine.packages import package_versions, plugin_versions


def install(folder: Path, name: str, version: str, group: str) -> None:
    """A distribution with one entry point, as an installer leaves it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nmine = {name}:open_family\n")


@pytest.mark.parametrize(
    "package", ["torch", "torchvision", "timm", "safetensors", "huggingface_hub", "open_clip_torch"]
)
def test_what_opens_a_model_is_recorded(package: str) -> None:
    assert package_versions()[package] == importlib.metadata.version(package)


def test_plugins_are_recorded_and_other_packages_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = package_versions()
    install(tmp_path, "towers", "1.5", "itrstress.encoders")
    install(tmp_path, "unrelated", "2.0", "console_scripts")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("engine.packages.plugin_versions", plugin_versions.__wrapped__)  # a new process's
    assert package_versions() == before | {"towers": "1.5"}
