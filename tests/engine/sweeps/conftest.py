"""A small corpus with its run file, and encoders that count what goes through them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.encoders import registry
from engine.encoders.family import Family, FamilyFacts
from engine.errors import InputError

DIM = 8
COLOURS = ("red", "green", "blue", "white")


RUN_FILE = """\
checkpoints:
  - {model: "fake:toy:1", name: early}
  - {model: "fake:toy:2", name: late}
corpus: {path: corpus.json, images: pictures, reader: rococo}
variants: ["rococo:corpus.json", "mix:0.9"]
backend: numpy
batch_size: 3
workers: 1
seed: 5
stores: stores
out: results
"""


class FakeEncoder:
    """Embeds by hashing; counts what it encodes. Weights called `broken` fail when they are first used."""

    dim = DIM

    def __init__(self, request: Any, calls: dict[str, int]) -> None:
        self.spec, self._calls = request.spec, calls
        self.fingerprint = hashlib.sha256(request.spec.encode()).hexdigest()

    def prepare_image(self, image: Any) -> bytes:
        return image.tobytes()  # type: ignore[no-any-return]

    def encode_images(self, images: Sequence[bytes]) -> Any:
        self._calls["images"] += len(images)
        return self._vectors(images)

    def encode_texts(self, texts: Sequence[str]) -> Any:
        self._calls["texts"] += len(texts)
        if "broken" in self.spec:
            raise RuntimeError("tensor of\nthe wrong shape")
        if "unfit" in self.spec:
            raise InputError("weights that do not fit")
        return self._vectors([text.encode() for text in texts])

    def _vectors(self, items: Sequence[bytes]) -> Any:
        seeds = [hashlib.sha256(self.spec.encode() + item).digest()[:4] for item in items]
        rows = np.array([np.random.default_rng(list(seed)).normal(size=DIM) for seed in seeds])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Registers the family `fake`; the numbers of images and texts that went through its encoders."""
    calls = {"images": 0, "texts": 0}
    family = SimpleNamespace(open_family=lambda request: FakeEncoder(request, calls))
    monkeypatch.setitem(sys.modules, "fake_family", family)
    facts = FamilyFacts(("fake:NAME",), "images", "cosine", "nothing")
    fake = Family("fake", "fake_family", facts, needed_files=lambda request: [])
    monkeypatch.setitem(registry.model_families(), "fake", fake)
    return calls


@pytest.fixture
def run_text() -> str:
    """The run file of `folder`."""
    return RUN_FILE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A RoCOCO corpus of four images and a run file."""
    (tmp_path / "pictures").mkdir()
    entries = []
    for number, colour in enumerate(COLOURS):
        Image.new("RGB", (6, 6), colour).save(tmp_path / "pictures" / f"{number}.png")
        originals = [f"A {colour} square, view {k}." for k in range(5)]
        fakes = [f"a {colour} circle , view {k}" for k in range(5)]
        entries.append({"image": f"{number}.png", "caption": originals + fakes})
    (tmp_path / "corpus.json").write_text(json.dumps(entries))
    (tmp_path / "run.yaml").write_text(RUN_FILE)
    return tmp_path
