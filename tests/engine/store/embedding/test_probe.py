"""What an encoder cannot do at all is said before a store is laid out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.store.embedding.embed import embed


class Broken:
    """An encoder that answers everything with rows of the dimensions given to it."""

    spec, dim, fingerprint = "fake:broken", 4, "f" * 64

    def __init__(self, texts: int = 4, images: int = 4) -> None:
        self.text_dim, self.image_dim = texts, images

    def prepare_image(self, image: Image.Image) -> Image.Image:
        return image

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        return np.eye(len(images), self.image_dim, dtype=np.float32)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.eye(len(texts), self.text_dim, dtype=np.float32)


class Failing(Broken):
    """An encoder whose images do not go through."""

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        raise RuntimeError("CUDA error: no kernel image")


def corpus_in(folder: Path, *broken: str) -> Corpus:
    folder.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(folder / name)
    for name in broken:
        (folder / name).write_bytes(b"no image")
    images = (ImageItem("a", "a.png"), ImageItem("b", "b.png"))
    return Corpus("two", images, (Caption("c", "a cat", 0), Caption("d", "a dog", 1)))


@pytest.mark.parametrize(
    ("encoder", "error", "said"),
    [
        (
            Broken(texts=3),
            InputError,
            r"fake:broken: one text gave rows of shape \(1, 3\), expected \(1, 4\)",
        ),
        (Broken(images=5), InputError, "one image gave rows of shape"),
        (Failing(), RuntimeError, "no kernel image"),
    ],
)
def test_nothing_is_written_for_an_encoder_that_does_not_work(
    tmp_path: Path, encoder: Any, error: type[Exception], said: str
) -> None:
    corpus = corpus_in(tmp_path / "images")
    with pytest.raises(error, match=said):
        embed(encoder, corpus, tmp_path / "images", [], tmp_path / "s.h5", batch_size=2, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["images"]


def test_an_image_that_cannot_be_read_is_told_at_the_end_with_the_others(tmp_path: Path) -> None:
    corpus = corpus_in(tmp_path / "images", "a.png")
    with pytest.raises(InputError, match=r"1 image\(s\) cannot be read: a.png"):
        embed(Broken(), corpus, tmp_path / "images", [], tmp_path / "s.h5", batch_size=2, workers=1)
    assert (tmp_path / "s.h5").exists()


@pytest.mark.parametrize(
    ("settings", "text_cfg", "missing"),
    [
        ({"pad_token": None}, {}, "no pad_token;"),
        ({}, {"tokenizer_mode": "clips"}, "no bos_token and no cls_token;"),
        ({}, {"tokenizer_kwargs": {"strip_sep_token": True}}, "no sep_token;"),
    ],
)
def test_a_tokenizer_without_a_token_that_every_text_gets_is_named(
    tmp_path: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, Any],
    text_cfg: dict[str, Any],
    missing: str,
) -> None:
    change_json(tiny_model / "tokenizer_config.json", lambda value: value.update(settings))
    change_json(
        tiny_model / "open_clip_config.json", lambda value: value["model_cfg"]["text_cfg"].update(text_cfg)
    )
    corpus_in(tmp_path / "images")
    (tmp_path / "c.csv").write_text("image,caption\na.png,a cat\n")
    out = tmp_path / "s.h5"
    words = ["embed", "--model", f"open_clip:local-dir:{tiny_model}", "--corpus", str(tmp_path / "c.csv")]
    assert run([*words, "--images", str(tmp_path / "images"), "--out", str(out)]) == 2
    shown = capsys.readouterr().err
    assert f"the tokenizer has {missing} name it in tokenizer_config.json" in shown
    assert not out.exists()


def change_json(file: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


@pytest.mark.parametrize("option", ["--batch-size", "--workers"])
def test_a_number_beyond_any_machine_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["embed", "--model", "m", "--corpus", "c", "--images", "i", "--out", "o", option, str(10**12)]
    assert run(words) == 2
    assert (
        f"Invalid value for '{option}': {10**12}: expected a whole number from 1 to"
        in capsys.readouterr().err
    )
