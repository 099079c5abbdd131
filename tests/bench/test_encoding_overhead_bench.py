"""The measurement of what embed adds runs the towers on the batches that embed gave them, and no others."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import encoding_overhead
from bench.encoding_overhead import (
    Task,
    batches_of,
    decode_alone,
    main,
    measure,
    plain_loop,
    prepare,
    recorded_passes,
    table,
)
from engine.demo import checkpoints
from engine.store.embedding.report import EmbedReport
from engine.store.reader import open_store
from engine.variants.variant import Modality

DISTINCT = 20  # texts of the demo's first four images


def options(**given: object) -> argparse.Namespace:
    usual: dict[str, object] = {"model": None, "architecture": None, "corpus": None, "folder": None}
    usual |= {"split": "test", "images": 4, "batch_size": 3, "workers": 2, "device": "cpu"}
    return argparse.Namespace(**usual, precision="fp32", **given)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return prepare(options(), tmp_path_factory.mktemp("corpus"))


def test_the_batches_that_are_run_alone_are_those_of_embed_without_its_probe(
    task: Task, tmp_path: Path
) -> None:
    with recorded_passes(task.encoder) as passes:
        report = task.embed("images", tmp_path / "store.h5")
    assert [len(batch) for _, batch in passes] == [1, 1, 3, 1]  # a text and an image to begin with
    assert batches_of(report.forwarded["images"], passes) == 2
    with pytest.raises(ValueError, match="6 items in the passes, 7 expected"):
        batches_of(7, passes)


def test_both_kinds_are_measured(task: Task) -> None:
    images, texts = (measure(task, kind, repeat=2) for kind in ("images", "captions"))
    assert (images.kind, images.forwarded, images.batches) == ("images", 4, 2)
    assert (texts.kind, texts.forwarded) == ("texts", DISTINCT)
    assert texts.batches >= DISTINCT / task.batch_size
    assert (texts.decoder_seconds, texts.loop_seconds, texts.decode_seconds) == (0, 0, 0)
    assert [line.split(" | ")[:2] for line in table([images]).splitlines()[2:]] == [["| images", "4"]]


def test_every_time_is_that_of_its_way(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not measured here, so nothing depends on how fast this machine is: medians of what the ways say."""
    own, whole, loops = iter([1.0, 2, 4, 3]), iter([5.0, 6, 9]), iter([7.0, 8, 6])
    real = Task.embed

    def embed(self: Task, kind: Modality, store: Path) -> EmbedReport:
        report = real(self, kind, store)
        return report if store.stem == "first" else replace(report, seconds={"total": next(whole)})

    monkeypatch.setattr(Task, "embed", embed)
    monkeypatch.setattr(encoding_overhead, "run_passes", lambda *_: next(own))
    monkeypatch.setattr(encoding_overhead, "run_plain_loop", lambda _: next(loops))
    monkeypatch.setattr(encoding_overhead, "decode_alone", lambda _: 8.0)
    monkeypatch.setattr(encoding_overhead, "usable_cores", lambda: 2)
    row = measure(task, "images", repeat=3)
    assert (row.encoder_seconds, row.embed_seconds, row.loop_seconds) == (3, 6, 7)
    assert row.ratio == 5 / 2  # of 5/2, 6/4 and 9/3, each of one turn
    assert (row.decode_seconds, row.bound_seconds) == (8, 3 + 8 / 2)


def test_the_plain_loop_gives_the_rows_that_embed_stores(task: Task, tmp_path: Path) -> None:
    task.embed("images", tmp_path / "store.h5")
    with open_store(tmp_path / "store.h5") as store:
        stored = store.load("images", "original").rows.read(0, 4)
    np.testing.assert_allclose(plain_loop(task), stored, atol=1e-6)
    assert decode_alone(task) > 0


def test_the_file_names_no_place_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    main(["--images", "2", "--repeat", "1", "--device", "cpu", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [row["forwarded"] for row in found["rows"]] == [2, 10]
    assert found["model"] == checkpoints()[-1].name
    assert str(tmp_path) not in file.read_text()
    assert "| images | 2 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--architecture", "ViT-Q"], "--architecture ViT-Q: open_clip has none of this name"),
        (["--model", "blip:x.pth"], "--model blip:x.pth: expected a model of open_clip"),
    ],
)
def test_a_model_that_cannot_be_measured_is_named(arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        main([*arguments, "--images", "1"])


@pytest.mark.parametrize("arguments", [["--images", "0"], ["--corpus", "x.json"]])
def test_options_that_cannot_be_used_end_with_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "error: --" in capsys.readouterr().err
