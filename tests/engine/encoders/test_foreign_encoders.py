"""Encoders that others wrote: an installed plug-in, a module of the user's, and what is wrong with some."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.encoders import registry
from engine.encoders.foreign import CheckedEncoder
from engine.encoders.registry import open_encoder
from engine.errors import InputError

PLUGIN = Path(__file__).parent / "example_plugin"
GOOD = """
import numpy as np

class Mine:
    spec, dim, fingerprint = "python:mine:encoder", 2, "mine-1"
    def __init__(self, request=None):
        self.spec = request.spec if request else self.spec
    def prepare_image(self, image):
        return image.width / image.height
    def encode_images(self, images):
        angles = np.array(images, dtype=np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    def encode_texts(self, texts):
        return self.encode_images([len(text) for text in texts])

encoder = Mine()
number = 3

def fails(request):
    raise RuntimeError("first line\\nsecond line")

def gives_nothing(request):
    return None
"""


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the module ``mine_<test>.py`` of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(folder: Path, text: str = GOOD, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def line(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- plug-ins


@pytest.fixture(scope="session")
def installed_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the example package is installed, as pip installs it, without a network."""
    source = shutil.copytree(PLUGIN, tmp_path_factory.mktemp("source") / "plugin")
    target = tmp_path_factory.mktemp("site")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(source)],
        check=True,
        timeout=300,
    )
    return target


def itrstress(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from engine.cli.main import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_an_installed_plug_in_fills_a_store_by_its_spec(installed_plugin: Path, tmp_path: Path) -> None:
    from engine.store.reader import open_store

    images = tmp_path / "images"
    images.mkdir()
    entries = []
    for colour in ("red", "green", "blue"):
        Image.new("RGB", (8, 8), colour).save(images / f"{colour}.png")
        entries.append({"image": f"{colour}.png", "caption": [f"all {colour}"]})
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps(entries))
    store = tmp_path / "colours.h5"
    done = itrstress(
        installed_plugin,
        *("embed", "--model", "colours:rgb", "--corpus", str(corpus)),
        *("--images", str(images), "--out", str(store)),
    )
    assert done.returncode == 0, done.stderr
    with open_store(store) as opened:
        assert opened.header.encoder_spec == "colours:rgb"
        rows = [opened.load(modality, "original").rows.read(0, 3) for modality in ("images", "captions")]
    assert np.argmax(rows[0] @ rows[1].T, axis=1).tolist() == [0, 1, 2]


def test_errors_of_a_plug_in_are_one_line(installed_plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("[]")
    wanted = (
        "--corpus",
        str(tmp_path / "c.json"),
        "--images",
        str(tmp_path),
        "--out",
        str(tmp_path / "x.h5"),
    )
    for spec, words in (("colours:cmyk", "expected colours:rgb"), ("colors:rgb", "did you mean 'colours'?")):
        done = itrstress(installed_plugin, "models", "describe", spec)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr
    assert itrstress(tmp_path, "embed", "--model", "colours:rgb", *wanted).returncode == 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def open_family(request): raise KeyError('weights')", "plugged:x raised KeyError: 'weights'"),
        ("open_family = 3", "plugged:x raised TypeError: 'int' object is not callable"),
        ("def (", "cannot be loaded: its import raised SyntaxError"),
        ("raise OSError('no libcuda')", "cannot be loaded: its import raised OSError: no libcuda"),
        ("", "cannot be loaded: its import raised AttributeError"),
    ],
)
def test_what_a_plug_in_raises_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    module = f"plugged_{tmp_path.name}"
    save(tmp_path, source, f"{module}.py")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("plugged", f"{module}:open_family", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    message = line(lambda: open_encoder("plugged:x"))
    assert words in message
    assert "(--debug shows where)" in message


# ---------------------------------------------------------------- python:MODULE:OBJECT


@pytest.mark.parametrize("spec", ["python:mine.py:encoder", "python:mine.py:Mine", "python:{}/mine.py:Mine"])
def test_an_object_or_what_a_function_gives_is_the_encoder(in_folder: Path, spec: str) -> None:
    save(in_folder)
    encoder = open_encoder(spec.format(in_folder))
    rows = encoder.encode_texts(["a", "bb"])
    np.testing.assert_allclose(rows, [[np.cos(1), np.sin(1)], [np.cos(2), np.sin(2)]], atol=1e-6)
    assert encoder.encode_images([encoder.prepare_image(Image.new("RGB", (2, 1)))]).shape == (1, 2)
    assert (encoder.dim, encoder.fingerprint) == (2, "mine-1")


def test_a_module_is_found_in_the_working_folder_and_the_path_is_put_back(in_folder: Path) -> None:
    save(in_folder, name="itrstress_test_module.py")
    before = list(sys.path)
    assert open_encoder("python:itrstress_test_module:encoder").dim == 2
    assert sys.path == before


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("python:mine.py", "names no object; expected python:MODULE:OBJECT"),
        ("python:nowhere.py:encoder", "nowhere.py: no such file"),
        ("python:no.such.module:encoder", "cannot be imported: ModuleNotFoundError: No module named 'no'"),
        ("python:broken.py:encoder", "cannot be imported: SyntaxError"),
        ("python:mine.py:encoders", "did you mean 'encoder'?"),
        ("python:mine.py:number", "a value of type int, which lacks prepare_image, encode_images"),
        ("python:mine.py:fails", "raised RuntimeError: first line"),
        ("python:mine.py:gives_nothing", "a value of type NoneType, which lacks"),
    ],
)
def test_what_gives_no_encoder_is_one_line(in_folder: Path, spec: str, words: str) -> None:
    save(in_folder)
    save(in_folder, "def (", "broken.py")
    message = line(lambda: open_encoder(spec))
    assert words in message
    assert spec.split(":")[1] in message


def test_a_preprocessing_is_not_for_an_encoder_in_python(in_folder: Path) -> None:
    save(in_folder)
    message = line(lambda: open_encoder("python:mine.py:encoder", preprocess="openai"))
    assert "leave --preprocess out" in message


# ---------------------------------------------------------------- answers are checked


class Fake:
    """An encoder that gives what it is told to."""

    spec, dim, fingerprint = "x:y", 2, "f"

    def __init__(self, answer: Any, **changes: Any) -> None:
        self.answer = answer
        self.__dict__.update(changes)

    def prepare_image(self, image: Any) -> Any:
        return image

    def encode_images(self, images: Any) -> Any:
        return self.answer

    def encode_texts(self, texts: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([[1.0, 0.0]], "gives a value of type list; expected a float32 array"),
        (np.array([[1, 0]]), "gives an array of int64"),
        (np.array([1.0, 0.0]), "the shape [2] for 1 items; expected [1, 2]"),
        (np.array([[1.0, 0.0, 0.0]]), "the shape [1, 3]"),
        (np.array([[3.0, 4.0]]), "item 0 of 1 a row of length 5; expected L2-normalised rows"),
        (np.array([[np.nan, 0.0]]), "a row of length nan"),
        (KeyError("gone"), "encode_texts raised KeyError: 'gone'"),
        (InputError("its own words"), "its own words"),
    ],
)
def test_rows_that_cannot_be_used_are_named(answer: Any, words: str) -> None:
    assert words in line(lambda: CheckedEncoder(Fake(answer), "x:y").encode_texts(["a"]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dim": 0}, "dim is 0; expected a whole number above 0"),
        ({"dim": True}, "dim is True"),
        ({"fingerprint": ""}, "fingerprint is ''; expected text"),
        ({"spec": None}, "spec is None"),
        ({"encode_texts": None}, "which lacks encode_texts"),
    ],
)
def test_an_encoder_that_is_none_is_named(changes: dict[str, Any], words: str) -> None:
    assert words in line(lambda: CheckedEncoder(Fake(None, **changes), "x:y"))


def test_float64_rows_become_float32_and_more_is_passed_on() -> None:
    encoder = CheckedEncoder(Fake(np.array([[0.6, 0.8]]), description={"a": "b"}), "x:y")
    assert encoder.encode_texts(["a"]).dtype == np.float32
    assert encoder.description == {"a": "b"}
    with pytest.raises(AttributeError):
        _ = encoder.nothing_of_that_name
