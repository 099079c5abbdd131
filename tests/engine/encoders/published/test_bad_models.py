"""What cannot be used as a model, from the command line: one line, exit code 2, no store, no code run."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.cli.main import run

Tiny = Any
MODULE = """
import numpy as np

class Towers:
    spec, dim, fingerprint = "python:towers.py:encoder", 2, "towers"
    def prepare_image(self, image): return 0.0
    def encode_images(self, images): return np.tile(np.float32([[0.6, 0.8, 0.0]]), (len(images), 1))
    def encode_texts(self, texts): return np.tile(np.float32([[0.6, 0.8]]), (len(texts), 1))

encoder = Towers()
"""


class RunsCode:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.fixture
def models(tiny: Tiny) -> dict[str, str]:
    """Specs by what is wrong with them; everything they need but that one thing lies beside them."""
    folder: Path = tiny.folder
    tiny.pieces()
    tiny.vocabulary()
    good = tiny.save("albef.pth", {"model": tiny.albef_state()})
    sgr = tiny.save("sgr.pth", {"model": tiny.sgraf_states("sgr")})
    saf = tiny.save("saf.pth", {"model": tiny.sgraf_states("saf")})
    vsrn = tiny.save("vsrn.pth", {"model": tiny.vsrn_states(0)})
    state = tiny.albef_state()
    state["vision_proj.weight"] = state["vision_proj.weight"][:-1].clone()
    (folder / "cut.pth").write_bytes(good.read_bytes()[:3000])
    (folder / "evil.pth").write_bytes(pickle.dumps({"model": RunsCode(folder / "ran")}))
    (folder / "towers.py").write_text(MODULE)
    words = {"word2idx": {word: row for row, word in enumerate(["<pad>", "<start>", "<end>", "<unk>", "a"])}}
    (folder / "five.json").write_text(json.dumps(words))
    heads = tiny.heads
    return {
        "another family": f"blip:{good}:{heads}",
        "another family of pairs": f"saf:{sgr}",
        "another size": f"albef:{tiny.save('size.pth', {'model': state})}:{heads}",
        "cut off": f"albef:{folder / 'cut.pth'}:{heads}",
        "code in a pickle": f"albef:{folder / 'evil.pth'}:{heads}",
        "code in a pickle for open_clip": f"open_clip:ViT-B-32-quickgelu:{folder / 'evil.pth'}",
        "no network": "transformers:kakaobrain/align-base",
        "another vocabulary": f"vsrn:{vsrn}:vocab={folder / 'five.json'}",
        "too few regions": f"saf:{saf}",
        "features and images": f"vsrn:{vsrn}",
        "neither": f"vsrn:{vsrn}",
        "images for regions": f"vsrn:{vsrn}",
        "towers of two dimensions": f"python:{folder / 'towers.py'}:encoder",
    }


SAID = {
    "another family": "this is a checkpoint of the family 'albef'; expected one of the family 'blip'",
    "another family of pairs": "this is a checkpoint of the family 'sgr'; expected one of the family 'saf'",
    "another size": "key 'vision_proj.",
    "cut off": "cut.pth: cut off or damaged",
    "code in a pickle": "evil.pth: refused",
    "code in a pickle for open_clip": "evil.pth: refused",
    "no network": "`hf download kakaobrain/align-base`",
    "another vocabulary": "needs a vocabulary of 17 words",
    "too few regions": "features with 3 regions; the model needs 4",
    "features and images": "both --images and --features are given",
    "neither": "neither --images nor --features is given",
    "images for regions": "give --features instead of --images",
    "towers of two dimensions": "gives the shape [1, 3] for 1 items; expected [1, 2]",
}
INPUTS = {
    "too few regions": ("features",),
    "another vocabulary": ("features",),
    "another family of pairs": ("features",),
    "features and images": ("images", "features"),
    "neither": (),
}


@pytest.mark.parametrize("what", SAID)
def test_a_model_that_cannot_be_used_is_one_line(
    models: dict[str, str],
    tmp_path: Path,
    what: str,
    capsys: pytest.CaptureFixture[str],
    no_sockets: list[Any],
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (9, 8), "red").save(images / "1.png")
    (tmp_path / "corpus.json").write_text(json.dumps([{"image": "1.png", "caption": ["a dog"]}]))
    np.save(tmp_path / "features.npy", np.ones((1, 3, 5), dtype=np.float32))
    given = {"images": str(images), "features": str(tmp_path / "features.npy")}
    inputs = [word for name in INPUTS.get(what, ("images",)) for word in (f"--{name}", given[name])]
    preprocess = ["--preprocess", "openai"] if "open_clip" in what else []
    store = tmp_path / "store.h5"
    before = set(tmp_path.rglob("*"))

    wanted = ("--corpus", str(tmp_path / "corpus.json"), "--out", str(store), "--device", "cpu")
    code = run(["embed", "--model", models[what], *wanted, *inputs, *preprocess])

    error = capsys.readouterr().err
    assert SAID[what] in error
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("error: ")
    assert set(tmp_path.rglob("*")) == before
    assert not (tmp_path / "ran").exists()
