"""Sweeps: what is wrong is said before any work, and what run files can ask for is done."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

import engine
from engine.cli.main import run
from engine.corpus.read import read_corpus
from engine.encoders.scorer_registry import open_model
from engine.errors import InputError
from engine.evaluate.results import DIGEST, digest_of, read_results
from engine.sweeps import checkpoint
from engine.sweeps.run_file.load import load_run_file
from engine.sweeps.run_file.options import CheckpointSpec
from engine.sweeps.stamp import Inputs
from engine.sweeps.sweep import SweepError, run_sweep
from indexes.certify import ProposerError


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error line of a command."""
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ")
    return lines[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            ("seed: 5", "seed: 5\ndevice: cuda"),
            "early: the device 'cuda' is not there: torch sees no GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there"),
        ),
        (
            ("fake:toy:2", "open_clip:ViT-B-32:laion9b"),
            "late: open_clip:ViT-B-32:laion9b: 'laion9b' is neither a file nor a published tag of ViT-B-32",
        ),
        (
            ("fake:toy:2", "open_clip:ViT-B-33:openai"),
            "late: unknown open_clip model 'ViT-B-33'; did you mean",
        ),
        (("fake:toy:2", "open_clip:local-dir:pictures"), "holds no open_clip_config.json"),
        (("late}", "late, preprocess: clip}"), "run.yaml line 3: unknown preprocessing 'clip'"),
    ],
)
def test_a_model_that_cannot_be_opened_stops_before_any_work(
    folder: Path,
    run_text: str,
    encoded: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    message: str,
) -> None:
    assert change[0] in run_text
    (folder / "run.yaml").write_text(run_text.replace(*change))
    assert run(["sweep", str(folder / "run.yaml")]) == 2
    assert message in one_line(capsys)
    assert encoded == {"images": 0, "texts": 0}
    assert not (folder / "stores").exists()
    assert not (folder / "results").exists()


# ---------------------------------------------------------------- a real encoder


@pytest.fixture
def real(folder: Path, tiny_model: Path) -> Path:
    """The run file of a small open_clip checkpoint, run once."""
    text = f"""\
checkpoints: [{{model: "open_clip:local-dir:{tiny_model}", name: tiny}}]
corpus: {{path: corpus.json, images: pictures, reader: rococo}}
variants: ["rococo:corpus.json"]
directions: [i2t]
backend: numpy
resamples: 0
stores: stores
out: results
"""
    (folder / "run.yaml").write_text(text)
    assert run(["sweep", str(folder / "run.yaml")]) == 0
    return folder / "run.yaml"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (("resamples: 0", "precision: bf16"), "with another precision: fp32, not bf16 on cpu, 64 a batch;"),
        (
            ("name: tiny", "name: tiny, preprocess: imagenet"),
            "with another preprocessing: 32 x 32, resized by squash, bicubic, mean 0.5/0.5/0.5, std "
            "0.25/0.25/0.25, not 32 x 32, resized by shortest, bicubic, mean 0.485/0.456/0.406, std "
            "0.229/0.224/0.225;",
        ),
    ],
)
def test_a_store_of_the_same_checkpoint_says_what_differs(
    real: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], difference: str
) -> None:
    capsys.readouterr()
    before = (real.parent / "stores/tiny.h5").read_bytes()
    real.write_text(real.read_text().replace(*change))
    assert run(["sweep", str(real)]) == 2
    line = one_line(capsys)
    assert difference in line
    assert "name another `stores` folder, or --force replaces the store" in line
    assert "--out" not in line
    assert (real.parent / "stores/tiny.h5").read_bytes() == before


def test_other_weights_under_the_same_name_are_named_as_such(
    real: Path, tiny_model: Path, make_tiny_model: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    make_tiny_model(tiny_model.name, seed=7)
    assert run(["sweep", str(real)]) == 2
    assert "with other weights or another configuration (" in one_line(capsys)


def test_a_finished_sweep_does_without_torch(real: Path) -> None:
    code = (
        "import sys; from engine.cli.main import run; assert run(['sweep', sys.argv[1]]) == 0; "
        "print(*(name for name in ('torch', 'faiss', 'open_clip', 'spacy') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, real], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


# ---------------------------------------------------------------- failures that nobody foresaw


@pytest.mark.parametrize(
    "error",
    [
        ProposerError("scores below their bound"),
        *(
            kind("nobody foresaw this")
            for kind in (
                AssertionError,
                AttributeError,
                EOFError,
                ImportError,
                IndexError,
                KeyError,
                NotImplementedError,
                ReferenceError,
                SyntaxError,
                TypeError,
                ZeroDivisionError,
            )
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_checkpoint_raises_does_not_stop_the_others(
    folder: Path, run_text: str, encoded: dict[str, int], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def open_one(spec: str, **options: Any) -> Any:
        if spec == "fake:toy:1":
            raise error
        return open_model(spec, **options)

    monkeypatch.setattr(checkpoint, "open_model", open_one)
    text = run_text.replace('variants: ["rococo:corpus.json", "mix:0.9"]', "directions: [t2i]")
    (folder / "run.yaml").write_text(text + "resamples: 0\n")
    with pytest.raises(SweepError, match=rf"1 of 2 .*early: {type(error).__name__}: .*\(a defect") as caught:
        run_sweep(load_run_file(folder / "run.yaml"))
    assert caught.value.exit_code == 1
    assert caught.value.failures == {"early": error}
    assert [one.provenance.checkpoint for one in caught.value.results] == ["late"]


# ---------------------------------------------------------------- encoders that no file is named for


TOWERS = """\
import hashlib
import numpy as np

SEED = 1

class Towers:
    spec, dim, fingerprint = "towers", 4, f"towers {SEED}"

    def prepare_image(self, image):
        return image.tobytes()

    def encode_images(self, images):
        seeds = [list(hashlib.sha256(b"%d" % SEED + image).digest()) for image in images]
        rows = np.array([np.random.default_rng(seed).normal(size=4) for seed in seeds])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def encode_texts(self, texts):
        return self.encode_images([text.encode() for text in texts])

encoder = Towers()
"""


@pytest.mark.parametrize("module", ["itrstress_towers", "itrstress_towers.py"])
def test_a_changed_encoder_in_python_is_noticed(
    folder: Path,
    run_text: str,
    encoded: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "itrstress_towers.py").write_text(TOWERS)
    (folder / "run.yaml").write_text(run_text.replace("fake:toy:2", f"python:{module}:encoder"))
    for _ in range(2):
        forget("itrstress_towers", monkeypatch)
        assert run(["sweep", "run.yaml"]) == 0
    assert "late t2i: 2 of 2 runs are finished" in capsys.readouterr().err
    forget("itrstress_towers", monkeypatch)
    (folder / "itrstress_towers.py").write_text(TOWERS.replace("SEED = 1", "SEED = 22"))
    assert run(["sweep", "run.yaml"]) == 2
    assert "late.h5 is of the checkpoint towers with other weights or another" in one_line(capsys)


@pytest.mark.parametrize(
    ("model", "influence", "known"),
    [
        ("open_clip:ViT-B-32:openai", (), True),
        ("open_clip:ViT-B-32:openai", ("transformers:owner/name", "python:towers:encoder"), False),
        ("open_clip:ViT-B-32:openai", ("plugged:in",), False),
        ("plugged:in", (), False),
    ],
)
def test_files_do_not_say_what_code_of_others_depends_on(
    folder: Path, encoded: dict[str, int], model: str, influence: tuple[str, ...], known: bool
) -> None:
    run_file = load_run_file(folder / "run.yaml").model_copy(update={"influence": influence})
    corpus = read_corpus(run_file.corpus.path)
    assert Inputs(run_file, corpus, ()).can_be_known(CheckpointSpec(model=model)) == known


def forget(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import a module anew next time, as another process would."""
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.invalidate_caches()


# ---------------------------------------------------------------- several corpora


CORPORA = """\
corpora:
  - {name: all, path: corpus.json, images: pictures, reader: rococo}
  - {name: half, path: half.json, images: pictures, reader: rococo}
"""


@pytest.fixture
def two_corpora(folder: Path, run_text: str) -> Path:
    """A run file of two corpora and a variant that fits both."""
    entries = json.loads((folder / "corpus.json").read_text())
    (folder / "half.json").write_text(json.dumps(entries[:2]))
    lines = run_text.replace('"rococo:corpus.json", ', "").splitlines(keepends=True)
    text = "".join(CORPORA if line.startswith("corpus:") else line for line in lines)
    (folder / "run.yaml").write_text(text)
    return folder / "run.yaml"


def test_every_corpus_has_its_own_stores_results_and_table(
    two_corpora: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(two_corpora)]) == 0
    shown = capsys.readouterr().out
    tables = [shown.index(text) for text in ("\nall\n", "4 queries, 20", "\nhalf\n", "2 queries, 10")]
    assert tables == sorted(tables)
    folder = two_corpora.parent
    for name, images in (("all", 4), ("half", 2)):
        assert (folder / "stores" / name / "early.h5").exists()
        assert read_results(folder / "results" / name / "late" / "none.i2t.json").runs[0].queries == images


def test_seeds_are_averaged_by_compare(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(folder / "run.yaml")]) == 0
    assert "over seeds" not in capsys.readouterr().out
    (folder / "run.yaml").write_text(run_text.replace('"mix:0.9"', '{name: "mix:0.9", seeds: [1, 10, 100]}'))
    assert run(["sweep", str(folder / "run.yaml")]) == 0
    hint = capsys.readouterr().out.splitlines()[-1]
    words = hint.partition(": itrstress ")[2].split()
    assert words == ["compare", str(folder / "results")]
    (folder / "results/early/mix,0.9,seed=5.t2i.json").unlink()
    (folder / "results/late/mix,0.9,seed=5.t2i.json").unlink()
    assert run([*words, "--format", "json"]) == 0
    (mixed,) = (
        one
        for one in json.loads(capsys.readouterr().out)
        if one["checkpoint"] == "early" and one["variant"] == "mix:0.9"
    )
    files = [folder / f"results/early/mix,0.9,seed={seed}.t2i.json" for seed in (1, 10, 100)]
    recalls = [read_results(file).runs[0].metrics["recall@1"] or 0.0 for file in files]
    assert (mixed["runs"], mixed["seeds"]) == (3, "1 10 100")
    assert mixed["recall@1"] == pytest.approx(fmean(recalls))
    assert mixed["recall@1_std"] == pytest.approx(stdev(recalls))


def test_what_is_wrong_with_the_second_corpus_stops_the_first(
    two_corpora: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    (two_corpora.parent / "half.json").write_text("[{}]")
    assert run(["sweep", str(two_corpora)]) == 2
    assert "half.json" in one_line(capsys)
    assert encoded == {"images": 0, "texts": 0}


def test_failures_name_corpus_and_checkpoint(
    two_corpora: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    two_corpora.write_text(two_corpora.read_text().replace("fake:toy:2", "fake:toy:unfit"))
    assert run(["sweep", str(two_corpora)]) == 2
    line = one_line(capsys)
    assert "2 of 4 checkpoints failed, the others are done: all late, half late: weights that do" in line


def test_a_failure_in_one_corpus_does_not_stop_the_next_in_a_notebook(
    two_corpora: Path, encoded: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_one = checkpoint.CheckpointSweep.run

    def fail_once(self: checkpoint.CheckpointSweep) -> Any:
        if (self.run_file.out.name, self.name) == ("all", "early"):
            raise InputError("nothing to search")
        return run_one(self)

    monkeypatch.setattr(checkpoint.CheckpointSweep, "run", fail_once)
    with pytest.raises(SweepError, match=r"1 of 4 .*, the others are done: all early: nothing to") as caught:
        engine.sweep(two_corpora)
    assert isinstance(caught.value.__cause__, InputError)
    assert [one.provenance.checkpoint for one in caught.value.results] == ["late", "early", "late"]


# ---------------------------------------------------------------- distractors, metrics on lists


def test_runs_among_distractors_are_those_of_evaluate_and_finish(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "run.yaml"
    run_sweep(load_run_file(file))
    for name in ("early", "late"):
        for modality in ("captions", "images"):
            like = ["--rows", "50", "--like", f"{modality}/original"]
            assert run(["distractors", "synthesize", str(folder / f"stores/{name}.h5"), *like]) == 0
    file.write_text(run_text + "distractors: [0, 10, 50]\n")
    results = run_sweep(load_run_file(file))
    assert [run.distractors for run in results[0].runs] == [0, 10, 50] * 4
    evaluated = folder / "evaluated"
    words = ["--distractors", "0,10,50", "--backend", "numpy", "--out", str(evaluated), "--seed", "5"]
    assert run(["evaluate", str(folder / "stores/early.h5"), *words]) == 0
    ours = {(one.variant, one.direction, one.distractors): one for one in results[0].runs}
    for one in read_results(evaluated).runs:
        mine = ours[one.variant, one.direction, one.distractors]
        assert (mine.metrics, mine.base, mine.intervals, mine.key) == (
            one.metrics,
            one.base,
            one.intervals,
            one.key,
        )
    names = {file.name for file in (folder / "results/early").iterdir()}
    assert {"none.i2t.json", "none.i2t.10-distractors.json", "none.i2t.50-distractors.parquet"} <= names
    capsys.readouterr()
    assert run_sweep(load_run_file(file)) == results


def test_missing_distractors_say_how_to_make_them(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "run.yaml").write_text(run_text + "distractors: [0, 10]\n")
    assert run(["sweep", str(folder / "run.yaml")]) == 2
    assert "has no distractors for its captions; add some with `itrstress distractors" in one_line(capsys)


def test_metrics_on_lists_are_done_when_asked_and_their_intervals_redrawn(
    folder: Path, run_text: str, encoded: dict[str, int]
) -> None:
    file = folder / "run.yaml"
    run_sweep(load_run_file(file))
    file.write_text(run_text + "ranked: true\nresamples: 50\n")
    ranked = run_sweep(load_run_file(file))
    for one in (one for results in ranked for one in results.runs):
        assert one.relevance == "self"
        assert "set_recall@5" in one.metrics
        assert "set_recall@5" in one.intervals
    assert run_sweep(load_run_file(file)) == ranked
    file.write_text(run_text + "resamples: 50\n")  # what has more than is asked for is finished
    assert run_sweep(load_run_file(file)) == ranked
    file.write_text(run_text + "ranked: true\nresamples: 60\n")
    again = run_sweep(load_run_file(file))
    assert {one.bootstrap.resamples for one in again[0].runs if one.bootstrap} == {60}
    (folder / "run.yaml").write_text(run_text.replace("results", "fresh") + "ranked: true\nresamples: 60\n")
    fresh = run_sweep(load_run_file(file))
    assert [one.intervals for one in again[0].runs] == [one.intervals for one in fresh[0].runs]
    assert "set_recall@5" in again[0].runs[0].intervals
    file.write_text(run_text + "ranked: true\nresamples: 60\nrelevance: stores/late.h5\n")
    other = run_sweep(load_run_file(file))
    assert {str(one.relevance)[:11] for one in other[0].runs} == {"fake:toy:2 "}
    assert other[0].runs[0].metrics["dcg@10"] != again[0].runs[0].metrics["dcg@10"]
    assert all(", sets " in str(one.relevance) for one in other[0].runs)
    for one in (folder / "results").rglob("*.json"):
        fields = json.loads(re.sub(r", sets [0-9a-f]{12}", ", sets 000000000000", one.read_text()))
        del fields[DIGEST]
        one.write_text(json.dumps({**fields, DIGEST: digest_of(fields)}))
    again = run_sweep(load_run_file(file))  # of other texts under the same names
    assert [one.relevance for one in again[0].runs] == [one.relevance for one in other[0].runs]
