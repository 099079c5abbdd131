"""The run file of `sweep --init`: it is one, and so is each line that it offers in a comment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli.main import run
from engine.sweeps.run_file.load import load_run_files
from engine.sweeps.run_file.options import RunDocument
from engine.sweeps.run_file.template import TEMPLATE

OFFERED = re.compile(r"^( *)# (- )?(\{model|rococo|[a-z_]+:)")
OPTION = re.compile(r"# [a-z_]+:")
OFFERS = [number for number, line in enumerate(TEMPLATE.splitlines()) if OFFERED.match(line)]
INSTEAD = {
    "features": "  images: val2014\n",
    "corpora": "corpus:\n  path: dataset_coco.json\n  images: val2014\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the template names."""
    for name in (
        "dataset_coco.json",
        "epoch_9.pt",
        "blip_coco.pth",
        "same_concept.json",
        "runs/a/epoch_10.pt",
        "regions/a.npy",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[]")
    for name in ("val2014", "frozen"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_the_template_is_a_run_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "my.yaml"
    assert run(["sweep", "--init", str(file)]) == 0
    assert f"written: {file}" in capsys.readouterr().out
    (one,) = load_run_files(file)
    assert one.variants == ("same_concept:seed=0", *(f"mix:0.9:seed={seed}" for seed in (1, 2, 3)))


@pytest.mark.parametrize("number", OFFERS)
def test_every_line_in_a_comment_can_be_used(folder: Path, number: int) -> None:
    lines = TEMPLATE.splitlines(keepends=True)
    found = OFFERED.match(lines[number])
    assert found is not None
    lines[number] = lines[number].replace("# ", "", 1)
    text = "".join(lines)
    for key, replaced in INSTEAD.items():
        if found[3].startswith(key):
            assert replaced in text
            text = text.replace(replaced, "")
    (folder / "run.yaml").write_text(text)
    load_run_files(folder / "run.yaml")


def test_defaults_in_comments_are_the_defaults(folder: Path) -> None:
    (folder / "run.yaml").write_text(TEMPLATE)
    (plain,) = load_run_files(folder / "run.yaml")
    # instead of another; examples; of this machine
    kept = ("# corpora:", "# memory_limit:", "# index:", "# space:", "# workers:")
    assert all("example" in line for line in TEMPLATE.splitlines() if line.startswith(kept[1:]))
    lines = [
        line.removeprefix("# ") if OPTION.match(line) and not line.startswith(kept) else line
        for line in TEMPLATE.splitlines()
    ]
    assert len(lines) - len(set(lines) & set(TEMPLATE.splitlines())) > 9
    (folder / "run.yaml").write_text("\n".join(lines))
    (spelt,) = load_run_files(folder / "run.yaml")
    assert spelt == plain


def test_the_template_names_every_option() -> None:
    for name in RunDocument.model_fields:
        assert re.search(rf"\b{name}\b", TEMPLATE), name


def test_nothing_is_overwritten_unasked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "my.yaml"
    file.write_text("mine")
    assert run(["sweep", "--init", str(file)]) == 2
    assert file.read_text() == "mine"
    assert f"error: --init {file}: there already" in capsys.readouterr().err
    assert run(["sweep", "--init", str(file), "--force"]) == 0
    assert file.read_text() == TEMPLATE


def test_without_a_name_it_is_run_yaml_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert run(["sweep", "--init"]) == 0
    assert (folder / "run.yaml").read_text() == TEMPLATE


@pytest.mark.parametrize("words", [[], ["run.yaml", "--init", "other.yaml"]])
def test_a_run_file_is_run_or_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(folder)
    assert run(["sweep", *words]) == 2
    assert "name the run file to run, or --init to write one" in capsys.readouterr().err
    assert not (folder / "other.yaml").exists()
