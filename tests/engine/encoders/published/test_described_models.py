"""`itrstress models`: families are listed, a model says what it is and which files it lacks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.cli.models import fact_lines
from engine.encoders import registry
from engine.encoders.catalogue import catalogue
from engine.encoders.needed_files import needed_files
from engine.encoders.registry import model_families, open_encoder

Tiny = Any


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert run(["models", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_every_family_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    words, _ = output(capsys, "list")
    listed = json.loads(output(capsys, "list", "--json")[0])
    for name, facts in catalogue().items():
        assert all(form.startswith(f"{name}:") for form in facts.forms)
        assert facts.forms[0] in words
        assert listed[name]["scores"] == facts.scores


def test_every_family_has_what_it_is_opened_with() -> None:
    for family in registry.model_families().values():
        module = import_module(family.module)
        assert callable(module.open_family)
        assert hasattr(module, "open_scorer") == family.scores_pairs
        assert bool(family.options) <= family.names_files


def test_a_new_file_is_a_new_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.encoders import families

    (tmp_path / "added.py").write_text(
        """
from engine.encoders.family import Family, FamilyFacts

FACTS = FamilyFacts(("added:NAME",), "images", "cosine", "nothing")
FAMILIES = (Family("added", "engine.encoders.python_object", FACTS, lambda request: []),)
"""
    )
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{families.__name__}.added", raising=False)
    collect = registry.model_families.__wrapped__
    assert set(collect()) == {*registry.model_families(), "added"}
    (tmp_path / "again.py").write_text(f"from {families.__name__}.added import FAMILIES")
    monkeypatch.delitem(sys.modules, f"{families.__name__}.again", raising=False)
    with pytest.raises(ValueError, match="two model families are called 'added'"):
        collect()


def test_families_are_known_without_the_libraries_of_their_models() -> None:
    code = (
        "import sys; from engine.encoders.catalogue import catalogue; catalogue(); "
        "print([name for name in ('torch', 'transformers', 'open_clip') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_plug_in_is_listed_without_being_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [EntryPoint("mine", "no_such_package:open_family", "itrstress.encoders")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert "mine:NAME[:WEIGHTS]\n    the plug-in no_such_package:open_family" in output(capsys, "list")[0]


@pytest.fixture
def specs(tiny: Tiny, tiny_model: Path) -> dict[str, str]:
    tiny.pieces()
    tiny.vocabulary()
    saf = tiny.save("saf.pth", {"model": tiny.sgraf_states("saf")})
    sgr = tiny.save("sgr.pth", {"model": tiny.sgraf_states("sgr", 5)})
    return {
        "open_clip": f"open_clip:local-dir:{tiny_model}",
        "blip": f"blip:{tiny.save('blip.pth', {'model': tiny.blip_state()})}:{tiny.heads}",
        "albef": f"albef:{tiny.save('albef.pth', {'model': tiny.albef_state()})}:{tiny.heads}",
        "vse_infty": f"vse_infty:{tiny.save('region.pth', {'model': tiny.vse_region_states()})}",
        "vsrn": f"vsrn:{tiny.save('m1.pth', {'model': tiny.vsrn_states(0)})}",
        "saf+sgr": f"saf+sgr:{saf}+{sgr}",
    }


READS = {"vse_infty": "regions", "vsrn": "regions", "saf+sgr": "regions"}
SCORES = {
    "blip": "cosine, then a matching head (join: add)",
    "albef": "cosine, then a matching head (join: replace)",
    "saf+sgr": "pairs",
}


@pytest.mark.parametrize("family", ["open_clip", "blip", "albef", "vse_infty", "vsrn", "saf+sgr"])
def test_a_model_says_what_it_is(
    specs: dict[str, str], capsys: pytest.CaptureFixture[str], family: str
) -> None:
    found = json.loads(output(capsys, "describe", specs[family], "--device", "cpu", "--json")[0])
    assert found["reads"] == READS.get(family, "images")
    assert found["scores"] == SCORES.get(family, "cosine")
    assert found["precisions"][0] == "fp32"
    assert found["fingerprint of"]["family"] == family
    assert all(file["there"] for file in found["files"])
    if family != "saf+sgr":
        encoder = open_encoder(specs[family], device="cpu")
        assert (found["dimensions"], found["fingerprint"]) == (encoder.dim, encoder.fingerprint)
    words, _ = output(capsys, "describe", specs[family], "--device", "cpu")
    assert "MISSING" not in words
    assert f"fingerprint   {found['fingerprint']}" in words
    assert f"precisions    {', '.join(found['precisions'])}" in words


def test_missing_files_are_named_and_nothing_is_opened(
    specs: dict[str, str], tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("vocab.txt", "words_vocab.json", "m1.pth"):
        (tiny.folder / name).unlink()
    cases = {
        specs["blip"]: "BERT's vocabulary",
        specs["vse_infty"]: "vocabulary",
        specs["vsrn"]: "checkpoint",
        "transformers:owner/no-such-model": "`hf download owner/no-such-model` gets it",
        "open_clip:ViT-B-32:openai": "1 of the files it needs is missing: weights",
        "open_clip:ViT-B-32:nowhere.pt": "weights (nowhere.pt)",
        "python:nowhere.py:encoder": "module (nowhere.py)",
    }
    for spec, wanted in cases.items():
        words, error = output(capsys, "describe", spec, code=2)
        assert wanted in error
        assert error.count("\n") == 1
        assert "MISSING" in words
        assert "fingerprint" not in words


def test_files_are_those_that_are_there(tiny_model: Path, tmp_path: Path) -> None:
    found = needed_files(f"open_clip:local-dir:{tiny_model}")
    assert found is not None
    assert [(file.what, file.there) for file in found] == [("configuration", True), ("weights", True)]
    assert needed_files("no-such-family:x") is None


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], tiny: Tiny) -> None:
    path = tiny.save("other.pth", {"model": tiny.albef_state()})
    tiny.pieces()
    for spec, words in {
        "nonsense": "is not a spec",
        "opneclip:a:b": "did you mean 'open_clip'",
        f"blip:{path}": "this is a checkpoint of the family 'albef'",
    }.items():
        _, error = output(capsys, "describe", spec, code=2)
        assert words in error
        assert error.count("\n") == 1


def test_long_names_of_parts_stand_apart_from_their_values() -> None:
    parts = {"vocabularies": ["a"], "longest_text": 35, "empty": {}}
    assert list(fact_lines({"fingerprint of": parts, "nothing": {}})) == [
        "  vocabularies [a]",
        "  longest_text 35",
        "  empty        {}",
    ]


def test_a_folder_of_transformers_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make_tiny_model: Callable[..., Path]
) -> None:
    folder = make_tiny_model("not-theirs")
    shutil.copy(folder / "tokenizer.json", tmp_path / "tokenizer.json")
    words, error = output(capsys, "describe", f"transformers:{tmp_path}", code=2)
    assert f"there   tokenizer: {tmp_path}/tokenizer.json" in words
    assert f"MISSING configuration: {tmp_path}/config.json" in words
    assert "3 of the files it needs are missing" in error


def test_every_option_of_a_family_is_listed_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list"]) == 0
    shown = capsys.readouterr().out
    assert run(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    for name, family in model_families().items():
        assert [option.partition("=")[0] for option in listed[name]["options"]] == list(family.options)
        block = shown[shown.index(family.facts.forms[0]) :].splitlines()[1:]
        about = list(takewhile(lambda line: line.startswith(" "), block))
        for option, words in listed[name]["options"].items():
            assert any(line.startswith(f"      {option} ") and words.split()[0] in line for line in about)
        assert sum("=" in line.split()[0] for line in about) == len(family.options)
    assert {name for name, one in listed.items() if "image_heads=N" in one["options"]} == {"albef", "blip"}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_description_has_the_options_of_its_family(
    tmp_path: Path, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["models", "describe", f"vse_infty:{tmp_path / 'gone.pth'}", *(["--json"] if as_json else [])]
    assert run(command) == 2
    shown = capsys.readouterr().out
    if as_json:
        assert list(json.loads(shown)["options"]) == ["vocab=FILE", "image_size=PIXELS", "text_heads=N"]
    else:
        assert "\noptions       vocab=FILE, image_size=PIXELS, text_heads=N\n" in shown


def test_a_family_that_is_none_is_said_before_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "describe", "blub:x"]) == 2
    assert "unknown model family 'blub'" in capsys.readouterr().err
