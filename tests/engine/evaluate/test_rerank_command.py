"""`itrstress evaluate --rerank` as a user meets it: counts, what is reused, and every mistake in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.encoders import scorer_registry
from engine.errors import InputError
from engine.evaluate.stages.reranking import parse_k_test
from engine.store.embedding.embed import embed
from engine.store.stored_images import StoredImages
from engine.sweeps import checkpoint
from engine.variants.registry import make_variant

IMAGES = 6


class Model:
    """An encoder with a matching head; both look at the mean of the pixels only."""

    spec, dim, fingerprint, join = "fake:both", 4, "d" * 64, "add"
    shortlist: ClassVar = {"coco": 256, "flickr30k": 128}

    def prepare_image(self, image: Image.Image) -> float:
        return float(np.asarray(image, dtype=np.float64).mean())

    def encode_images(self, images: Sequence[float]) -> NDArray[np.float32]:
        return unit([[value, 100.0, value / 2, 3.0] for value in images])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return unit([[len(text) ** 2, 100.0, 40.0, sum(map(ord, text)) % 7] for text in texts])

    def image_states(self, images: Sequence[float]) -> list[NDArray[np.float32]]:
        return [np.full((1, 1), value, dtype=np.float32) for value in images]

    def text_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.zeros((len(text), 1), dtype=np.float32) for text in texts]

    def score_pairs(
        self, state: NDArray[np.float32], words: Sequence[NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        return np.array([-abs(float(state[0, 0]) - 10 * len(word)) for word in words], dtype=np.float32)


def unit(rows: Any) -> NDArray[np.float32]:
    table = np.asarray(rows, dtype=np.float64)
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a mix variant, the images it was made from, and a model that reranks."""
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(5)
    for i in range(IMAGES):
        Image.fromarray(rng.integers(0, 40 * (i + 1), (9, 9, 3), dtype=np.uint8)).save(
            tmp_path / f"images/{i}.png"
        )
    images = tuple(ImageItem(f"{i}", f"{i}.png") for i in range(IMAGES))
    captions = tuple(Caption(f"c{i}", "a" * (i + 1), i // 2) for i in range(2 * IMAGES))
    corpus = Corpus("small", images, captions)
    variants = [make_variant("mix:0.5:seed=1")]
    embed(Model(), corpus, tmp_path / "images", variants, tmp_path / "s.h5", batch_size=4, workers=1)
    monkeypatch.setattr(scorer_registry, "open_encoder", lambda spec, **options: Model())
    return tmp_path


def go(folder: Path, *options: str) -> int:
    arguments = ["--rerank", "fake:both", "--images", str(folder / "images"), "--k-test", "3"]
    return run(["evaluate", str(folder / "s.h5"), "--resamples", "0", *arguments, *options])


def test_the_second_run_scores_nothing_and_says_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(folder, "--out", str(folder / "one"), "--ranked") == 0
    first = capsys.readouterr()
    assert " pairs scored, 0 reused; kept in " in first.out
    assert "reranked the best 3 by fake:both: " in first.out
    assert "Reranked: the best 3 of every query by the matching score of fake:both beside the" in first.out
    assert " 0 pairs scored" not in first.out
    assert "mix:0.5:seed=1, scoring: " in first.err
    assert go(folder, "--out", str(folder / "two"), "--ranked") == 0
    count = re.search(r" ([\d,]+) pairs scored", first.out)
    assert count is not None
    assert f"fake:both: 0 pairs scored, {count[1]} reused; kept in " in capsys.readouterr().out
    results = json.loads((folder / "one" / "results.json").read_text())
    assert results["provenance"]["checkpoint"] == "fake:both, reranked 3"
    runs = [json.loads((folder / name / "results.json").read_text())["runs"] for name in ("one", "two")]
    assert [run["metrics"] for run in runs[0]] == [run["metrics"] for run in runs[1]]
    assert runs[0][0]["stage"] == {
        "kind": "two-stage", "scorer": "fake:both", "fingerprint": "d" * 64, "k_test": 3, "join": "add",
    }  # fmt: skip
    assert runs[0][0]["key"]["k_test"] == "3"


def test_damage_in_the_file_of_scores_is_said_and_changes_no_result(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(folder, "--out", str(folder / "one")) == 0
    path = next(folder.glob("*.pairs"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert go(folder, "--out", str(folder / "two")) == 0
    said = capsys.readouterr()
    assert re.search(rf"{path}: at least \d+ pairs in it are damaged or cut off", said.err)
    assert "fake:both: 0 pairs scored, " not in said.out
    runs = [json.loads((folder / name / "results.json").read_text())["runs"] for name in ("one", "two")]
    assert [run["metrics"] for run in runs[0]] == [run["metrics"] for run in runs[1]]


def test_files_that_are_taken_by_name_are_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"s.h5 keeps no digests of its images: those of {folder / 'images'} are taken by name"
    assert go(folder) == 0
    assert said not in capsys.readouterr().err
    monkeypatch.setattr(StoredImages, "verified", False)
    assert go(folder) == 0
    assert said in capsys.readouterr().err


def test_a_shortlist_longer_than_the_gallery_is_all_of_it(folder: Path) -> None:
    arguments = ["--images", str(folder / "images"), "--rerank", "fake:both", "--k-test", "coco"]
    command = ["evaluate", str(folder / "s.h5"), "--resamples", "0", *arguments, "--out"]
    assert run([*command, str(folder / "all")]) == 0
    found = json.loads((folder / "all" / "results.json").read_text())["runs"]
    assert {one["stage"]["k_test"] for one in found} == {256}
    for one in found:
        if one["base"] is not None:  # nothing is pushed out: the invariants of one stage hold
            new, fooled = one["metrics"]["recall@1"], one["metrics"]["incorrect_recall@1"]
            assert new <= one["base"]["recall@1"]
            assert one["base"]["recall@1"] - new <= fooled + 1e-9


def test_images_that_are_not_those_that_were_embedded_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8)).save(folder / "images/4.png")
    assert go(folder) == 2
    error = capsys.readouterr().err
    assert "error: image 4.png: " in error
    assert "another one than was embedded; give the folder of the same images with --images" in error
    (folder / "images/4.png").unlink()
    assert go(folder) == 2
    assert "holds no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--k-test", "5"], "--k-test belongs to --rerank; add it or leave it out"),
        (["--images", "images"], "--images belongs to --rerank"),
        (["--rerank", "fake:both"], "--rerank reads the images again; give their folder with --images"),
        (["--rerank", "fake:both", "--images", "nowhere"], "image folder nowhere: found nothing"),
        (
            ["--rerank", "fake:both", "--images", ".", "--k-test", "0"],
            "a shortlist of 0: expected a whole number from 1",
        ),
        (["--rerank", "fake:both", "--images", ".", "--k-test", "flikr"], "did you mean 'flickr30k'?"),
        (["--rerank", "fake:both", "--images", ".", "--pair-scores", "no/f"], "the folder no is not there"),
        (["--rerank", "fake:both", "--images", ".", "--pair-scores", "s.h5"], "is no file of pair scores"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path,
    options: Sequence[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = (folder / "s.h5").read_bytes()
    assert run(["evaluate", "s.h5", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert (folder / "s.h5").read_bytes() == before


def test_scores_of_another_model_are_not_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert go(folder, "--pair-scores", str(folder / "p")) == 0
    data = bytearray((folder / "p").read_bytes())
    data[30] ^= 1  # in the digest of the scorer
    (folder / "p").write_bytes(bytes(data))
    capsys.readouterr()
    assert go(folder, "--pair-scores", str(folder / "p")) == 2
    assert "holds pair scores of another scorer" in capsys.readouterr().err
    assert (folder / "p").read_bytes() == bytes(data)


def test_a_model_without_a_matching_head_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer_registry, "open_encoder", lambda spec, **options: object())
    with pytest.raises(InputError, match=r"open_clip:a:b: has no matching head .* blip:PATH or albef:PATH"):
        scorer_registry.open_reranker("open_clip:a:b")


def test_lengths_of_shortlists() -> None:
    published = {"coco": 256, "flickr30k": 128}
    assert parse_k_test("coco", published) == 256
    assert parse_k_test("flickr30k", published) == 128
    assert parse_k_test("7", published) == 7
    assert parse_k_test("1" + "0" * 18, published) == 10**18
    with pytest.raises(InputError, match=r"a shortlist of 9+\.\.\.: expected a whole number from 1 to"):
        parse_k_test("9" * 5000, published)


SWEEP = """
checkpoints:
  - {model: "blip:one.pth", name: plain}
  - {model: "blip:one.pth", rerank: 3}
corpus: {path: corpus.csv, images: images}
variants: ["mix:0.5"]
stores: stores
out: results
resamples: 0
"""


@pytest.fixture
def swept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run file of one model, plain and reranked, in the working folder."""
    rows = [f"{i // 2}.png,{'a' * (i + 1)}" for i in range(2 * IMAGES)]
    (folder / "corpus.csv").write_text("image,caption\n" + "\n".join(rows) + "\n")
    (folder / "one.pth").write_bytes(b"weights")
    (folder / "vocab.txt").write_text("[PAD]")
    (folder / "run.yaml").write_text(SWEEP)
    monkeypatch.setattr(checkpoint, "open_model", lambda spec, **options: Model())
    monkeypatch.setattr(checkpoint, "open_reranker", lambda spec, **options: Model())
    monkeypatch.chdir(folder)
    return folder


def test_a_sweep_keeps_plain_and_reranked_runs_apart(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "run.yaml"]) == 0
    said = capsys.readouterr()
    assert "one, reranked 3" in said.out
    assert "reranked the best 3 by fake:both" in said.err
    stages = {
        path.parent.name: json.loads(path.read_text())["runs"][0]["stage"]
        for path in (swept / "results").glob("*/none.i2t.json")
    }
    assert {name.partition("-")[0]: stage and stage["k_test"] for name, stage in stages.items()} == {
        "plain": None,
        "one": 3,
    }
    monkeypatch.setattr(checkpoint, "open_reranker", lambda spec, **options: 1 / 0)
    assert run(["sweep", "run.yaml"]) == 0  # finished runs need no model
    assert "one, reranked 3 i2t: 1 of 1 runs are finished" in capsys.readouterr().err


def test_a_report_shows_failures_whose_right_item_no_reranker_scored(swept: Path) -> None:
    (swept / "run.yaml").write_text(SWEEP.replace("rerank: 3", "rerank: 1"))
    assert run(["sweep", "run.yaml"]) == 0
    assert run(["report", "results", "--out", "report.html"]) == 0
    page = (swept / "report.html").read_text()
    assert '"margin":null' in page.replace(" ", "")
    assert "Recorded store" not in page  # the reranked runs have the store of the plain ones


def test_another_length_of_the_shortlist_is_another_run(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (swept / "run.yaml").write_text(SWEEP.replace("rerank: 3", "rerank: 3, name: second"))
    assert run(["sweep", "run.yaml"]) == 0
    (swept / "run.yaml").write_text(SWEEP.replace("rerank: 3", "rerank: 4, name: second"))
    assert run(["sweep", "run.yaml"]) == 2
    assert "its k_test is '3', expected '4'" in capsys.readouterr().err
    assert run(["sweep", "run.yaml", "--force"]) == 0


def test_lengths_of_the_shortlist_stand_side_by_side(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = '  - {model: "blip:one.pth", rerank: flickr30k}\ncorpus:'
    (swept / "run.yaml").write_text(SWEEP.replace("corpus:", other))
    assert run(["sweep", "run.yaml"]) == 0
    capsys.readouterr()
    assert run(["compare", "results", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["checkpoint"] for one in found} == {"plain", "one, reranked 3", "one, reranked 128"}


def test_evaluations_of_two_lengths_can_be_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k_test in ("3", "5"):
        assert go(folder, "--k-test", k_test, "--out", str(folder / k_test)) == 0
    capsys.readouterr()
    assert run(["compare", str(folder / "3"), str(folder / "5"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["checkpoint"] for one in found} == {"fake:both, reranked 3", "fake:both, reranked 5"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rerank: 3", "rerank: flikr30k", "line 4: unknown length of a shortlist 'flikr30k'; did you mean"),
        ("rerank: 3", "rerank: 0", "line 4: a shortlist of 0: expected a whole number from 1"),
        (
            '"blip:one.pth", rerank',
            '"vsrn:one.pth", rerank',
            "one.pth: has no matching head that could score",
        ),
        ("resamples: 0", "distractors: [0, 10]", "checkpoints[1].rerank and distractors exclude each other"),
    ],
)
def test_a_mistake_in_a_run_file_is_one_line(
    swept: Path, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (swept / "run.yaml").write_text(SWEEP.replace(old, new))
    assert run(["sweep", "run.yaml"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (swept / "stores").exists()
