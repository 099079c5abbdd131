"""Words chosen by embedding influence, as a user types it: `embed --influence`, and a run file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from engine.cli.main import run
from engine.store.reader import open_store

LOW = "same_concept:choice=low_ei:seed=0"
HIGH = "delete_high_ei:seed=0"
TEXTS = ("a dog beside a red cup on the table", "two dogs at a table", "very {colour} .", "A {colour} cup")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rows = []
    for k, colour in enumerate(("red", "green", "blue")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / "images" / f"{k}.png")
        rows += [{"image": f"{k}.png", "caption": f"{text.format(colour=colour)} {k}"} for text in TEXTS]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def models(tiny_model: Path, make_tiny_model: Callable[..., Path]) -> tuple[str, str]:
    return f"open_clip:local-dir:{tiny_model}", f"open_clip:local-dir:{make_tiny_model('other', seed=1)}"


def embed(corpus: Path, model: str, store: Path, *more: str) -> int:
    images = str(corpus.with_name("images"))
    command = ["embed", "--model", model, "--corpus", str(corpus), "--images", images, "--out", str(store)]
    return run([*command, "--variant", LOW, "--variant", HIGH, *more])


def stored(store: Path, name: str) -> tuple[list[str], list[dict]]:
    with open_store(store) as opened:
        items = opened.load("captions", name)
        assert items.change is not None
        return list(items.content), [json.loads(change) for change in items.change]


def test_the_same_bytes_whatever_the_batch_size_and_the_precision(
    corpus: Path, models: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    voters = ("--influence", ",".join(models))
    first, second = corpus.with_name("first.h5"), corpus.with_name("second.h5")
    assert embed(corpus, models[0], first, *voters) == 0
    printed = capsys.readouterr().out
    assert "influence of " in printed
    assert "by 2 encoder(s): " in printed
    assert embed(corpus, models[1], second, *voters, "--batch-size", "3", "--precision", "bf16") == 0
    for name in (LOW, HIGH):
        assert stored(first, name) == stored(second, name)
        texts, changes = stored(first, name)
        assert len(texts) == 9
        for change in changes:
            assert len(change["encoders"]) == 2
            assert sum(word["votes"] for word in change["candidates"]) == 2
            assert all(len(word["ei"]) == 2 for word in change["candidates"])
    assert stored(first, LOW)[0] != stored(first, HIGH)[0]


def test_encoders_that_are_missing_not_needed_or_none_are_one_line(
    corpus: Path, models: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    store = corpus.with_name("store.h5")
    for more, message in (
        ((), f"variant {LOW!r} chooses words by embedding influence, and no encoder is given"),
        (("--influence", "opn_clip:x"), "unknown model family 'opn_clip'; did you mean 'open_clip'"),
        (("--influence", f"{models[0]},{models[0]}"), "is given twice"),
        (("--influence", "open_clip:local-dir:/nowhere"), "open_clip:local-dir:/nowhere: no such folder"),
    ):
        assert embed(corpus, models[0], store, *more) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    images = str(corpus.with_name("images"))
    command = [
        "embed",
        "--model",
        models[0],
        "--corpus",
        str(corpus),
        "--images",
        images,
        "--out",
        str(store),
    ]
    assert run([*command, "--variant", "danger", "--influence", models[1]]) == 2
    assert "no variant chooses words by it" in capsys.readouterr().err
    assert not store.exists()


def test_a_run_file_names_encoders_and_files_relative_to_itself(
    corpus: Path, models: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = corpus.parent
    groups = {"furniture": {"lemmas": ["table", "chair", "bed"]}}
    (folder / "mine.json").write_text(json.dumps({"groups": groups}))
    document = {
        "checkpoints": [{"model": models[0], "name": "one"}],
        "corpus": {"path": "corpus.jsonl", "images": "images"},
        "variants": ["same_concept:choice=low_ei:concepts=mine.json", "delete_low_ei"],
        "influence": ["open_clip:local-dir:other"],
        "directions": ["i2t"],
        "stores": "stores",
        "out": "results",
        "resamples": 0,
    }
    run_file = folder / "run.yaml"
    run_file.write_text(json.dumps(document))
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run(["sweep", str(run_file)]) == 0
    texts, changes = stored(folder / "stores" / "one.h5", "same_concept:choice=low_ei:concepts=mine:seed=0")
    assert all(change["word"] == "table" for change in changes)
    assert {change["concepts"]["file"] for change in changes} == {"mine.json"}
    assert len(texts) == 6
    capsys.readouterr()

    for key, value, message in (
        ("influence", [], "chooses words by embedding influence, and no encoder is given"),
        ("influence", ["open_clip:local-dir:gone"], "'gone' is not there; paths are relative to this file"),
        ("variants", ["danger"], "no variant chooses words by it"),
        ("variants", ["danger:concepts=gone.json"], "gone.json' is not there; paths are relative"),
    ):
        run_file.write_text(json.dumps({**document, key: value}))
        assert run(["sweep", str(run_file)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert f"{run_file} line 1" in error
        assert error.count("\n") == 1


def test_a_sweep_notices_another_encoder_of_influence(
    corpus: Path, models: tuple[str, str], make_tiny_model: Callable[..., Path]
) -> None:
    folder = corpus.parent
    document = {
        "checkpoints": [{"model": models[0], "name": "one"}],
        "corpus": {"path": "corpus.jsonl", "images": "images"},
        "variants": ["delete_low_ei"],
        "influence": ["open_clip:local-dir:other"],
        "directions": ["i2t"],
        "stores": "stores",
        "out": "results",
        "resamples": 0,
    }
    run_file = folder / "run.yaml"
    run_file.write_text(json.dumps(document))
    assert run(["sweep", str(run_file)]) == 0
    stamp = folder / "stores" / "one.inputs.json"
    before = json.loads(stamp.read_text())["inputs"]
    make_tiny_model("other", seed=7)  # other weights under the same name
    assert run(["sweep", str(run_file), "--force"]) == 0
    after = json.loads(stamp.read_text())["inputs"]
    assert [key for key in before if before[key] != after[key]] == ["influence"]
