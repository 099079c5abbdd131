"""The published caption files go through `itrstress import` at full length."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.cli.main import run
from engine.store import open_store

DIM = 4


@pytest.mark.published
def test_every_published_file_is_imported_beside_the_originals(published_data, tmp_path, monkeypatch):
    """Row i of a variant is the i-th adversarial caption of the file, read here without our readers."""
    folder = published_data / "rococo"
    originals, files = folder / "coco_karpathy_test.json", sorted(folder.glob("*.json"))
    files = [file for file in files if is_rococo(file)]
    if not originals.exists() or not files:
        pytest.skip("no RoCOCO files among the published data")
    monkeypatch.chdir(tmp_path)
    entries = json.loads(files[0].read_text())
    kept = [len(entry["caption"]) - 5 for entry in entries]
    generator = np.random.default_rng(0)
    rows = {name: generator.normal(size=(count, DIM)) for name, count in (("i", len(kept)), ("c", sum(kept)))}
    rows["v"] = generator.normal(size=(5 * len(kept), DIM))
    for name, table in rows.items():
        np.save(f"{name}.npy", table)
    variants = [f"--variant=rococo:{file}=v.npy" for file in files]
    fixed = ["--images", "i.npy", "--captions", "c.npy", "--corpus", str(originals), "--model", "random"]
    assert run(["import", *fixed, *variants, "--out", "s.h5"]) == 0
    with open_store("s.h5") as store:
        assert len(store.load("captions", "original").ids) == sum(kept)
        for file in files:
            loaded = store.load("captions", f"rococo:{file.stem}")
            expected = [text for entry in json.loads(file.read_text()) for text in entry["caption"][-5:]]
            assert list(loaded.content) == expected
            lengths = np.linalg.norm(loaded.rows.read(0, len(expected)), axis=1)
            np.testing.assert_allclose(lengths, 1, rtol=1e-6)
            assert store.verify("captions", loaded.name) == []


def is_rococo(file) -> bool:
    content = json.loads(file.read_text())
    first = content[0] if isinstance(content, list) else None
    return isinstance(first, dict) and len(first.get("caption", [])) >= 10
