"""Run files: what is read, and that every error names line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.evaluate import run_file as module
from engine.evaluate.run_file import load_run_file, with_seed

GOOD = """\
checkpoints:
  - open_clip:ViT-B-32:openai
  - {model: "open_clip:local-dir:last", preprocess: openai}
corpus:
  path: corpus.json
  images: pictures
variants: ["rococo:sets/same.json", "mix:0.9"]
stores: stores
out: results
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus.json").write_text("[]")
    for name in ("pictures", "last", "elsewhere"):
        (tmp_path / name).mkdir()
    return tmp_path


def load(folder: Path, text: str) -> str:
    """The error that the text gives, without the file's name."""
    file = folder / "run.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_run_file(file)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{file} ").removeprefix(f"{file}: ")


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.yaml").write_text(GOOD)
    monkeypatch.chdir(folder / "elsewhere")
    run_file = load_run_file(Path("../run.yaml"))
    assert run_file.corpus.path == folder / "corpus.json"
    assert run_file.stores == folder / "stores"
    assert run_file.variants == (f"rococo:{folder / 'sets/same.json'}", "mix:0.9")
    assert [one.model for one in run_file.checkpoints] == [
        "open_clip:ViT-B-32:openai",
        f"open_clip:local-dir:{folder / 'last'}",
    ]
    assert [one.label for one in run_file.checkpoints] == ["open_clip:ViT-B-32:openai", "last"]
    assert run_file.directions == ("i2t", "t2i")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("out: results", "outt: results", "line 9: unknown key 'outt'; did you mean 'out'?"),
        (
            "out: results",
            "out: results\nmemory_limit: 2 pigs",
            "line 10: '2 pigs' is not a size of memory; expected one such as 1.5GiB or 800MiB",
        ),
        (
            "  images: pictures",
            "  imagess: pictures",
            "line 6: unknown key 'imagess'; did you mean 'images'?",
        ),
        (
            "preprocess: openai",
            "preproces: clip",
            "line 3: unknown key 'preproces'; did you mean 'preprocess'?",
        ),
        ("out: results\n", "", "line 1: out is missing"),
        ("  path: corpus.json\n", "", "line 5: corpus.path is missing"),
        (
            "out: results",
            "out: results\nseed: soon",
            "line 10: seed is 'soon': input should be a valid integer",
        ),
        ("out: results", "out: results\nbatch_size: 0", "line 10: batch_size is 0: input should be greater"),
        ("out: results", "out: 3", "line 9: out is 3: "),
        ("  - open_clip:ViT-B-32:openai", "  - 12", "line 2: checkpoints[0] is 12: "),
        (
            "out: results",
            "out: results\nties: lucky",
            "line 10: ties is 'lucky': input should be 'optimistic'",
        ),
        ("out: results", "out: results\ndirections: [i2t, t2t]", "line 10: directions[1] is 't2t': "),
        ("out: results", "out: results\ndirections: []", "line 10: directions is []: "),
        ("path: corpus.json", "path: gone.json", "line 5: corpus.path 'gone.json' is not there"),
        ("images: pictures", "images: gone", "line 6: corpus.images 'gone' is not there"),
        ("out: results", "out: results\nout: twice", "line 10: the key 'out' is given twice"),
        ("path: corpus.json", "path: corpus.json\n  path: b", "line 6: the key 'path' is given twice"),
        ("out: results", "out: [results", "line 10: not YAML"),
        ("out: results", "out: &here results\ndevice: *here", "line 10: the alias *here is not supported"),
        ("out: results", "out: !!python/object/apply:os.getcwd []", "line 9: not YAML"),
        ("{model: ", "{name: 'Open_clip:vit-b-32:OPENAI', model: ", "line 3: checkpoints[1] has the name"),
        ("out: results", "out: results\nbackend: fais", "line 10: unknown search backend 'fais'; did you"),
        ("out: results", "out: results\nprecision: bf61", "line 10: unknown precision 'bf61'; did you"),
        (
            "images: pictures",
            "images: pictures\n  reader: roccoo",
            "line 7: unknown reader 'roccoo'; did you",
        ),
        ("mix:0.9", "mixx:0.9", "line 7: unknown variant 'mixx'; did you mean 'mix'"),
        ("out: results", "out: 2024-13-01", "a value that YAML cannot read"),
        ("out: results", "? [a]\n: b\nout: results", "line 9: "),
        (
            "local-dir:last",
            "ViT-B-32:openai",
            "line 3: checkpoints[1] has the name 'open_clip:ViT-B-32:openai'",
        ),
        ("open_clip:ViT-B-32:openai", "openclip", "line 2: the model 'openclip' is not a spec"),
    ],
)
def test_errors_name_line_and_key(folder: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    message = load(folder, GOOD.replace(old, new, 1))
    assert message.startswith(expected), message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a mapping with the keys checkpoints"),
        ("- a\n- b\n", "expected a mapping"),
        ("\t", "line 1: not"),
    ],
)
def test_a_file_that_is_no_mapping(folder: Path, text: str, expected: str) -> None:
    assert load(folder, text).startswith(expected)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.yaml: no such file; expected a run file"):
        load_run_file(tmp_path / "gone.yaml")


def test_deep_nesting_is_an_error_not_a_crash(folder: Path) -> None:
    assert load(folder, "out: " + "[" * 500_000).startswith("line 1: nested more than 16 deep")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text, encoding="utf-8", errors="replace", newline="")
    with pytest.raises(InputError):
        load_run_file(file)


@pytest.mark.parametrize(
    ("spec", "seeded"),
    [
        ("mix:0.9", "mix:0.9:seed=7"),
        ("mix:0.9:seed=1", "mix:0.9:seed=1"),
        ("rococo:a.json", "rococo:a.json"),
        ("unknown", "unknown"),
    ],
)
def test_the_seed_goes_to_variants_that_name_none(spec: str, seeded: str) -> None:
    assert with_seed(spec, 7) == seeded


def test_the_example_of_the_documentation_is_a_run_file(folder: Path) -> None:
    example = "\n".join(line[4:] for line in (module.__doc__ or "").splitlines() if line.startswith("    "))
    (folder / "dataset_coco.json").write_text("[]")
    (folder / "val2014").mkdir()
    (folder / "run.yaml").write_text(example)
    assert load_run_file(folder / "run.yaml").checkpoints[1].label == "epoch 9"


def test_a_preprocessing_that_is_not_known_stops_before_any_work(folder: Path) -> None:
    expected = load(folder, GOOD.replace("preprocess: openai", "preprocess: clip"))
    assert expected.startswith("line 3: ")
    assert "clip" in expected
