"""What a model is taken from in the hub's cache, and that a sweep notices a new commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from engine.cli.main import run
from engine.encoders.hub_cache import cached_files, cached_repositories

SPEC = "transformers:owner/tiny-clip"
REPOSITORY = "models--owner--tiny-clip"


def commit(hub: Path, model: Path, letter: str) -> Path:
    """Put a model into the cache as the commit that ``main`` names."""
    snapshot = hub / REPOSITORY / "snapshots" / (letter * 40)
    shutil.copytree(model, snapshot)
    (hub / REPOSITORY / "refs").mkdir(exist_ok=True)
    (hub / REPOSITORY / "refs" / "main").write_text(letter * 40)
    return snapshot


@pytest.fixture
def hub(tmp_path: Path, saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with one model at its first commit."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    commit(tmp_path / "hub", saved("clip"), "a")
    return tmp_path / "hub"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """A sweep of the model."""
    (tmp_path / "images").mkdir()
    for colour in ("red", "blue"):
        Image.new("RGB", (8, 8), colour).save(tmp_path / "images" / f"{colour}.png")
    rows = [{"image": f"{colour}.png", "caption": [f"a {colour} dog"]} for colour in ("red", "blue")]
    (tmp_path / "corpus.json").write_text(json.dumps(rows))
    document = {
        "checkpoints": [{"model": SPEC, "name": "tiny"}],
        "corpus": {"path": "corpus.json", "images": "images"},
        "stores": "stores",
        "out": "results",
        "resamples": 0,
        "backend": "numpy",
        "device": "cpu",
    }
    (tmp_path / "run.yaml").write_text(json.dumps(document))
    return tmp_path / "run.yaml"


def test_files_are_those_of_the_commit_that_main_names(hub: Path, saved: Callable[[str], Path]) -> None:
    assert cached_repositories(SPEC) == (REPOSITORY,)
    assert cached_repositories(f"transformers:{saved('clip')}") == ()
    assert cached_repositories("transformers:owner/absent") == ()
    names = {file.name for file in saved("clip").iterdir()}
    reference, *files = cached_files([REPOSITORY])
    assert reference == hub / REPOSITORY / "refs" / "main"
    assert {file.name for file in files} == names
    commit(hub, saved("clip"), "b")
    assert {file.parent.name for file in list(cached_files([REPOSITORY]))[1:]} == {"b" * 40}


def test_a_published_tag_of_open_clip_has_a_repository(hub: Path, no_sockets: list[object]) -> None:
    spec = "open_clip:ViT-B-32:openai"
    assert cached_repositories(spec) == ()
    repository = hub / "models--timm--vit_base_patch32_clip_224.openai"
    snapshot = repository / "snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "open_clip_model.safetensors").write_bytes(b"weights")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c" * 40)
    assert cached_repositories(spec) == (repository.name,)
    assert no_sockets == []


def test_a_new_commit_is_noticed_by_a_finished_sweep(
    hub: Path,
    run_file: Path,
    saved: Callable[[str], Path],
    tmp_path: Path,
    no_sockets: list[object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(["sweep", str(run_file)]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("engine.sweeps.checkpoint.open_model", None)  # not opened where nothing changed
        assert run(["sweep", str(run_file)]) == 0
    other = shutil.copytree(saved("clip"), tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    save_file({name: tensor + torch.ones_like(tensor) for name, tensor in tensors.items()}, other / "new")
    (other / "new").replace(other / "model.safetensors")
    commit(hub, other, "b")
    assert run(["sweep", str(run_file)]) == 2
    assert "with other weights" in capsys.readouterr().err
    assert no_sockets == []
