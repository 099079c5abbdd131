"""Files of a model's folder that no library should be given."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.encoders import model_files
from engine.encoders.model_files import OBJECTS, OTHERS, check_model_files
from engine.encoders.registry import check_model, open_encoder
from engine.errors import InputError

BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (Path.mkdir, r" is a folder; expected a file of the model$"),
    "pipe": (os.mkfifo, r" is a pipe; expected a file of the model; write its content to a file first$"),
    "device": (lambda file: file.symlink_to("/dev/zero"), r" is a device; expected a file of the model"),
    "lost link": (lambda file: file.symlink_to("gone"), r": no such file; expected a file of the model$"),
}
BAD_JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r": not valid JSON \(.*\); get the file again$"),
    "cut off": (b'{"a": [1, 2', r": not valid JSON \(.*\); get the file again$"),
    "bytes": (bytes(range(128, 256)), r": not valid JSON \(.*\); get the file again$"),
    "nested": (b"[" * 200_000, r": not valid JSON \(.*\); get the file again$"),
    "list": (b"[1, 2]", r": holds a JSON list; expected an object$"),
    "text": (b'"a"', r": holds a JSON str; expected an object$"),
    "nothing": (b"null", r": holds a JSON NoneType; expected an object$"),
    "long": (b'{"a": "' + b"x" * 50 + b'"}', r": 59 bytes; expected JSON of at most 50$"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", [*OBJECTS, *OTHERS])
def test_what_is_no_file_is_named(tmp_path: Path, name: str, kind: str) -> None:
    make, words = BAD[kind]
    make(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}{words}"):
        check_model_files(tmp_path)


@pytest.mark.parametrize("kind", BAD_JSON)
@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_no_json_object_is_named(
    tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, words = BAD_JSON[kind]
    monkeypatch.setattr(model_files, "LARGEST_JSON", 50 if kind == "long" else 10**6)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}{words}") as caught:
        check_model_files(tmp_path)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_what_no_library_looks_for_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_bytes(b"[")
    os.mkfifo(tmp_path / "pipe.json")
    for name in OBJECTS:
        (tmp_path / name).write_text("{}")
    for name in OTHERS:
        (tmp_path / name).write_bytes(b"\x00")
    check_model_files(tmp_path)


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize(
    "name",
    ["open_clip_config.json", "tokenizer_config.json", "tokenizer.json", "open_clip_model.safetensors"],
)
def test_an_open_clip_folder_is_checked_before_it_is_opened(tiny_model: Path, name: str, kind: str) -> None:
    make, words = BAD[kind]
    (tiny_model / name).unlink()
    make(tiny_model / name)
    for call in (open_encoder, check_model):
        with pytest.raises(InputError, match=f"{name}{words}"):
            call(f"open_clip:local-dir:{tiny_model}", device="cpu")


def test_a_checkpoint_beside_other_files_is_opened_without_them(tiny_model: Path) -> None:
    """Only an `open_clip_config.json` makes a model's folder of the one that a checkpoint lies in."""
    (tiny_model / "tokenizer_config.json").write_text("[")
    spec = f"open_clip:ViT-B-32-quickgelu:{tiny_model / 'open_clip_model.safetensors'}"
    with pytest.raises(InputError, match=r"tokenizer_config.json: not valid JSON"):
        check_model(spec, device="cpu", preprocess="openai")
    (tiny_model / "open_clip_config.json").unlink()
    check_model(spec, device="cpu", preprocess="openai")


def test_a_python_file_that_is_not_there_is_named_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    with pytest.raises(InputError, match=r"mine\.py: no such file; expected a Python module \(python:"):
        check_model(f"python:{file}:encoder", device="cpu")
    file.write_text("raise SystemExit('it was run')")
    check_model(f"python:{file}:encoder", device="cpu")
    with pytest.raises(InputError, match=r"names no object; expected python:MODULE:OBJECT"):
        check_model(f"python:{file}", device="cpu")


@pytest.mark.parametrize("family", ["albef", "blip", "vse_infty", "vsrn", "saf", "sgr"])
def test_a_checkpoint_that_is_not_there_is_named_before_any_work(tmp_path: Path, family: str) -> None:
    file = tmp_path / "gone.pth"
    with pytest.raises(InputError, match=rf"no checkpoint \({file}\); give the path of what is there$"):
        check_model(f"{family}:{file}", device="cpu")
    with pytest.raises(InputError, match=rf"preprocessing of the family '{family}' is part of it"):
        check_model(f"{family}:{file}", device="cpu", preprocess="openai")
    file.touch()
    with pytest.raises(InputError, match=r"no (BERT's )?vocabulary \(.*\); give the path of what is there$"):
        check_model(f"{family}:{file}", device="cpu")
