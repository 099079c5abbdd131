"""The parity report of half precision: counted as a person would, from the encoder's own rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.cli.main import run
from engine.encoders.registry import open_encoder

IMAGES = 40


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, Path]:
    """A corpus of random images with two captions each: file and folder."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "images"
    folder.mkdir()
    entries = []
    for row in range(IMAGES):
        pixels = rng.integers(0, 256, (3, 3, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((40, 40)).save(folder / f"{row}.png")
        letters = ["".join(rng.choice(list("abcdefgh "), 9)) for _ in range(2)]
        entries.append({"image": f"{row}.png", "caption": [f"{row} {text}" for text in letters]})
    file = tmp_path / "corpus.json"
    file.write_text(json.dumps(entries))
    return file, folder


def first_items(spec: str, precision: str, corpus: tuple[Path, Path]) -> dict[str, list[int]]:
    """The first item of every query by direction, from the rows themselves."""
    encoder = open_encoder(spec, device="cpu", precision=precision)
    entries = json.loads(corpus[0].read_text())
    pictures = [Image.open(corpus[1] / entry["image"]).convert("RGB") for entry in entries]
    images = encoder.encode_images([encoder.prepare_image(picture) for picture in pictures])
    texts = encoder.encode_texts([text for entry in entries for text in entry["caption"]])
    scores = images.astype(np.float64) @ texts.T.astype(np.float64)
    return {"i2t": scores.argmax(axis=1).tolist(), "t2i": scores.argmax(axis=0).tolist()}


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run(["doctor", "precision", "--device", "cpu", "--json", *arguments]) == 0
    records: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return records


def test_changed_answers_are_counted(
    tiny_model: Path, corpus: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"open_clip:local-dir:{tiny_model}"
    records = report(capsys, "--model", spec, "--corpus", str(corpus[0]), "--images", str(corpus[1]))
    assert [(one["direction"], one["precision"]) for one in records] == [
        (direction, precision) for direction in ("i2t", "t2i") for precision in ("fp32", "bf16", "fp16")
    ]
    wanted = {precision: first_items(spec, precision, corpus) for precision in ("fp32", "bf16", "fp16")}
    for one in records:
        exact, ours = (wanted[name][one["direction"]] for name in ("fp32", one["precision"]))
        assert one["queries"] == len(exact)
        assert one["changed_top1"] == sum(a != b for a, b in zip(exact, ours, strict=True))
        full = next(o for o in records if (o["direction"], o["precision"]) == (one["direction"], "fp32"))
        assert one["recall@1/difference"] == pytest.approx(one["recall@1"] - full["recall@1"])
        assert (one["largest_difference"] == 0) is (one["precision"] == "fp32")
    assert any(one["changed_top1"] for one in records)


def test_the_table_shows_counts_and_differences(
    tiny_model: Path, corpus: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"open_clip:local-dir:{tiny_model}"
    arguments = ("--model", spec, "--corpus", str(corpus[0]), "--images", str(corpus[1]))
    assert run(["doctor", "precision", "--device", "cpu", "--precision", "bf16", *arguments]) == 0
    shown = capsys.readouterr().out
    assert f"of {IMAGES}" in shown
    assert "other top 1" in shown
    assert "fp16" not in shown


@pytest.mark.parametrize(
    ("precision", "words"),
    [("bf17", "did you mean 'bf16'"), ("fp32", "fp32 is always there"), ("bf16,bf16", "bf16, fp16 or both")],
)
def test_precisions_that_cannot_be_compared(
    precision: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--model", "x:y", "--corpus", str(tmp_path), "--precision", precision)
    assert run(["doctor", "precision", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
