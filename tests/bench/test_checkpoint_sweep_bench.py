"""The measurement of a sweep runs the sweep that it says, over made-up models that retrieve."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench import checkpoint_sweep
from bench.checkpoint_sweep import GALLERIES, QUERIES, main
from bench.made_up_models import MadeUpModel, colour
from engine.encoders.registry import open_encoder


def test_a_made_up_model_finds_the_image_that_a_text_names() -> None:
    encoder = open_encoder("python:bench.made_up_models:model_3")
    numbers = [0, 7, 300, 4999]
    images = [encoder.prepare_image(Image.new("RGB", (1, 1), colour(number))) for number in numbers]
    texts = [f"A photo of thing {number}." for number in numbers]
    scores = encoder.encode_images(images) @ encoder.encode_texts(texts).T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert encoder.encode_texts(texts).tobytes() == MadeUpModel("model_3").encode_texts(texts).tobytes()
    other = MadeUpModel("model_4")
    assert other.fingerprint != encoder.fingerprint
    assert not np.allclose(other.encode_texts(texts), encoder.encode_texts(texts))


def test_all_checkpoints_and_one_are_swept_over_the_same_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = []
    run = checkpoint_sweep.timed

    def watched(command: list[str | Path]) -> tuple[float, int]:
        commands.append(Path(command[-1]).name)
        return run(command)

    monkeypatch.setattr(checkpoint_sweep, "timed", watched)
    file = tmp_path / "found.json"
    main(["--checkpoints", "2", "--images", "6", "--repeat", "1", "--json", str(file)])
    assert commands == ["run-2.yaml", "run-2.yaml", "run-1.yaml"]
    (row,) = json.loads(file.read_text())["rows"]
    assert row["runs"] == 2 * (len(GALLERIES) + len(QUERIES) + 2)
    assert (row["images"], row["captions"]) == (6, 30)
    assert row["ratios"] == [pytest.approx(row["search_seconds"] / (2 * row["search_seconds_of_one"]))]
    assert 0 < row["search_seconds"] < row["seconds"]
    assert "| 2 | 28 |" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--images", "0"], ["--images", "5001"], ["--checkpoints", "1"]])
def test_sizes_that_cannot_be_measured_are_refused(options: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(options)
