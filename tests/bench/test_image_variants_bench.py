"""The measurement of image variants: every variant is drawn, and what it finds is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image


def test_it_measures_every_variant_and_writes_what_it_found(tmp_path: Path) -> None:
    rows = []
    for n in range(3):
        noise = np.random.default_rng(n).integers(0, 256, (90, 120, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{n}.jpg")
        rows.append(json.dumps({"image": f"{n}.jpg", "caption": "noise"}))
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    command = [sys.executable, "-m", "bench.image_variants", "--corpus", tmp_path / "corpus.jsonl"]
    options = ["--images", tmp_path, "--variant", "mix:0.5", "--variant", "reencode", "--limit", "2"]
    done = subprocess.run(
        [*command, *options, "--json", tmp_path / "found.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [(row["variant"], row["items"]) for row in found] == [("mix:0.5:seed=0", 2), ("reencode", 2)]
    assert all(row["decoding_seconds"] > 0 and row["drawing_seconds"] > 0 for row in found)
    assert "| `reencode` | 2 |" in done.stdout


def test_a_variant_of_captions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"image": "a.jpg", "caption": "a dog"}')
    command = [sys.executable, "-m", "bench.image_variants", "--corpus", tmp_path / "corpus.jsonl"]
    options = ["--images", tmp_path, "--variant", "distraction_true"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "changes captions; name a variant of images" in done.stderr
