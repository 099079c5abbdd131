"""`itrstress variants make`, and every command that takes its files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.cli.main import run
from engine.store.reader import open_store
from engine.variants.variant_file_reader import read_header

VARIANTS = ("char_swap", "mix:0.9", "patch:0.6", "mix:0.8:mode=paper", "occlude:2:1")
NAMES = (
    *("char_swap:seed=5", "mix:0.9:seed=5", "patch:0.6:seed=5", "mix:0.8:mode=paper:seed=5", "occlude:2:1"),
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rows = []
    for k in range(4):
        noise = np.random.default_rng(k).integers(0, 256, (30, 40 + k, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "images" / f"{k}.png")
        rows += [{"image": f"{k}.png", "caption": text} for text in (f"a picture of {k} dogs", "!")]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make(corpus: Path, out: str, *options: str, variants: tuple[str, ...] = VARIANTS) -> Path:
    folder = corpus.with_name(out)
    command = ["variants", "make", "--corpus", str(corpus), "--variant", ",".join(variants)]
    assert run([*command, "--out", str(folder), *options]) == 0
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("error: ")] == lines[-1:]
    return lines[-1]


def test_there_is_one_file_a_variant_and_equal_seeds_give_equal_bytes(corpus: Path) -> None:
    first = files_of(make(corpus, "first", "--seed", "5"))
    assert [read_header(corpus.with_name("first") / name).name for name in first] == sorted(NAMES)
    order = VARIANTS[::-1]
    assert files_of(make(corpus, "again", "--seed", "5", variants=order)) == first
    other = files_of(make(corpus, "other", "--seed", "6"))
    assert other["occlude,2,1.jsonl"] == first["occlude,2,1.jsonl"]
    assert set(other) & set(first) == {"occlude,2,1.jsonl"}


def test_processes_that_hash_differently_write_the_same_bytes(corpus: Path) -> None:
    specs = "same_concept,rand_voca,substitute:2,shuffle_all_words,mix:0.9,patch:0.8:mode=paper"
    made = []
    for hashing in ("1", "2"):
        folder = corpus.with_name(hashing)
        command = ["variants", "make", "--corpus", str(corpus), "--variant", specs, "--out", str(folder)]
        program = "from engine.cli.main import main; main()"
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        subprocess.run([sys.executable, "-c", program, *command], check=True, env=environment)
        made.append(files_of(folder))
    assert len(made[0]) == 6
    assert made[0] == made[1]


def test_a_spec_that_names_its_seed_keeps_it(corpus: Path) -> None:
    folder = make(corpus, "out", "--seed", "5", variants=("mix:0.9:seed=2", "char_swap:mode=paper"))
    assert sorted(files_of(folder)) == ["char_swap,mode=paper.jsonl", "mix,0.9,seed=2.jsonl"]


@pytest.mark.usefixtures("wordnet")
def test_a_stand_in_is_said_on_the_terminal_and_in_the_file(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.variants.families.synonyms.has_tagger", lambda: False)
    folder = make(corpus, "out", variants=("synonym_noun:mode=paper",))
    assert "synonym_noun:mode=paper: tagged by en_core_web_sm" in capsys.readouterr().err
    header = records(folder / "synonym_noun,mode=paper.jsonl")[0]
    assert header["made_with"]["tagger"].startswith("en_core_web_sm")


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_with_the_images_boxes_are_in_pixels(corpus: Path) -> None:
    images = ["--images", str(corpus.with_name("images"))]
    folder = make(corpus, "out", *images, variants=("patch:0.6", "occlude:2:1", "mix:0.9"))
    patches, cells = records(folder / "patch,0.6,seed=0.jsonl"), records(folder / "occlude,2,1.jsonl")
    for row, record in enumerate(patches[1:]):
        assert record["change"]["size"] == [40 + row, 30]
        box = record["change"]["pixels"]
        assert box["width"] * box["rows"] + box["rest"] == round(0.4 * 30 * (40 + row))
    assert cells[1]["change"] == {
        "size": [40, 30],
        "pixels": {"left": 20, "top": 0, "right": 40, "bottom": 15},
    }
    assert "change" not in records(folder / "mix,0.9,seed=0.jsonl")[1]


def test_what_is_there_is_kept_and_nothing_else_is_overwritten(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = make(corpus, "out", variants=("mix:0.9",)) / "mix,0.9,seed=0.jsonl"
    before = file.stat().st_mtime_ns
    make(corpus, "out", variants=("mix:0.9",))
    assert file.stat().st_mtime_ns == before
    assert "as it was" in capsys.readouterr().out
    data = file.read_bytes()
    file.write_bytes(b"mine")
    command = ["variants", "make", "--corpus", str(corpus), "--variant", "mix:0.9", "--out", str(file.parent)]
    assert "holds something else" in refused(command, capsys)
    assert file.read_bytes() == b"mine"
    assert run([*command, "--force"]) == 0
    assert file.read_bytes() == data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variant", "mixx"], "unknown variant 'mixx'; did you mean 'mix'?"),
        (["--variant", "mix:0.9,"], "a spec is empty"),
        (["--variant", "mix:0.9,mix:0.90"], "'mix:0.9:seed=0' is there twice"),
        (["--variant", "file:x.jsonl"], "is a file already"),
        (["--variant", "mix:0.9", "--images", "nowhere"], "image folder nowhere: found nothing"),
        (["--variant", "mix:0.9", "--influence", "blip:b"], "no variant chooses words by it"),
        (["--variant", "occlude:40:3", "--images", "images"], "expected at least 40 a side"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    options: list[str],
    message: str,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(corpus.parent)
    command = ["variants", "make", "--corpus", str(corpus), "--out", "out", *options]
    assert message in refused(command, capsys)
    assert not Path("out").exists()


def test_files_and_short_names_are_the_same_to_embed_evaluate_and_sweep(
    corpus: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, images = make(corpus, "made", "--seed", "5"), corpus.with_name("images")
    made = [f"file:{file}" for file in sorted(folder.iterdir())]
    model, store = f"open_clip:local-dir:{tiny_model}", corpus.with_name("store.h5")
    embed = ["embed", "--model", model, "--corpus", str(corpus), "--images", str(images), "--out", str(store)]
    assert run([*embed, *(word for one in made for word in ("--variant", one))]) == 0
    with open_store(store) as stored:
        keys = {info.name: info.content_key for info in stored.sets if info.variant is not None}
    assert set(keys) == set(NAMES)
    data = store.read_bytes()
    assert run([*embed, *(word for name in NAMES for word in ("--variant", name))]) == 0
    assert store.read_bytes() == data  # the same sets, under the same keys

    out = corpus.with_name("results")
    wanted = ["--variant", made[-1], "--variant", "occlude:2:1", "--variant", "mix:0.9:seed=5"]
    assert run(["evaluate", str(store), "--out", str(out), *wanted]) == 0
    found = {one["variant"] for one in json.loads((out / "results.json").read_text())["runs"]}
    assert found == {None, read_header(Path(made[-1].removeprefix("file:"))).name, "occlude:2:1", NAMES[1]}
    capsys.readouterr()
    assert run(["evaluate", str(store), "--variant", "mix:0.9"]) == 0
    assert "mix:0.9:seed=5" in capsys.readouterr().out  # the only one that the store has
    assert "unknown variant 'mix:0.8:seed=0'" in refused(
        ["evaluate", str(store), "--variant", "mix:0.8"], capsys
    )

    run_file = corpus.with_name("run.yaml")
    run_file.write_text(
        json.dumps(
            {
                "checkpoints": [{"model": model, "name": "tiny"}],
                "corpus": {"path": corpus.name, "images": "images"},
                "variants": ["file:made/mix,0.9,seed=5.jsonl", "occlude:2:1", "mix:0.9"],
                "stores": "stores",
                "out": "swept",
            }
        )
    )
    assert run(["sweep", str(run_file)]) == 0
    swept = {file.name for file in corpus.with_name("swept").rglob("*.json")}
    assert {"mix,0.9,seed=5.t2i.json", "mix,0.9,seed=0.t2i.json", "occlude,2,1.i2t.json"} <= swept


def test_fakes_are_drawn_in_the_loader_from_any_kind_of_image_and_never_saved(
    corpus: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = corpus.with_name("images")
    for k, mode in enumerate(("L", "RGBA", "CMYK", "P")):
        with Image.open(images / f"{k}.png") as picture:
            kinds = {"CMYK": "TIFF"}
            picture.convert(mode).save(images / f"{k}.png", kinds.get(mode, "PNG"))
    save = Image.Image.save

    def save_in_memory(self: Image.Image, file: Any, *rest: Any, **options: Any) -> None:
        assert isinstance(file, io.BytesIO), f"a picture is saved to {file}"
        save(self, file, *rest, **options)

    monkeypatch.setattr(Image.Image, "save", save_in_memory)
    before = sorted(corpus.parent.rglob("*"))
    store = corpus.with_name("store.h5")
    model = f"open_clip:local-dir:{tiny_model}"
    embed = ["embed", "--model", model, "--corpus", str(corpus), "--images", str(images), "--out", str(store)]
    specs = ("mix:0.9", "patch:0.9", "mix:0.9:mode=paper", "patch:0.9:mode=paper", "reencode", "occlude:4:5")
    assert run([*embed, *(word for spec in specs for word in ("--variant", spec))]) == 0
    with open_store(store) as stored:
        assert sum(info.complete == info.rows == 4 for info in stored.sets if info.modality == "images") == 7
    left = {path for path in sorted(corpus.parent.rglob("*")) if path not in before}
    assert {path.name for path in left} == {"store.h5"}


def test_an_image_smaller_than_the_grid_is_named_by_embed(
    corpus: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = corpus.with_name("images")
    Image.new("RGB", (3, 2)).save(images / "2.png")
    store, model = corpus.with_name("store.h5"), f"open_clip:local-dir:{tiny_model}"
    embed = ["embed", "--model", model, "--corpus", str(corpus), "--images", str(images), "--out", str(store)]
    line = refused([*embed, "--variant", "occlude:4:5"], capsys)
    assert "image '2.png' has 3 x 2 pixels; expected at least 4 a side" in line


@pytest.mark.parametrize("read", ["corpus.jsonl", "images/2.png", "words.txt"])
def test_no_file_that_is_read_is_replaced_through_a_link(
    corpus: Path, read: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = corpus.with_name("words.txt")
    words.write_text("".join(f"word{chr(97 + k)}\n" for k in range(26)))
    before = (corpus.parent / read).read_bytes()
    (corpus.parent / "out").mkdir()
    (corpus.parent / "out" / "char_swap,seed=0.jsonl").symlink_to(corpus.parent / read)
    command = ["variants", "make", "--corpus", str(corpus), "--images", str(corpus.parent / "images")]
    command += ["--variant", f"char_swap,substitute:2:vocabulary={words}", "--force"]
    error = refused([*command, "--out", str(corpus.parent / "out")], capsys)
    assert "char_swap,seed=0.jsonl: the command reads it" in error
    assert (corpus.parent / read).read_bytes() == before
