"""The doctor says what is there, and what to do about what is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from rich.console import Console

from engine.cli import doctor
from engine.cli.main import run
from engine.variants.tagging import PIPELINES


def test_a_working_installation_has_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    for thing in ("Python", "FAISS", "BLAS kernel", "BLAS loaded", "torch", "spaCy pipeline", "free disk"):
        assert thing in shown


def test_a_missing_pipeline_is_wrong_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        doctor.importlib.util,
        "find_spec",
        lambda name, *rest: None if name in PIPELINES else found(name, *rest),
    )
    assert run(["doctor"]) == 1
    (finding,) = doctor.check_spacy()
    assert finding.state is doctor.State.WRONG
    assert "pip install en-core-web-sm" in finding.advice


def test_an_unfit_kernel_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    from indexes import blas_kernel

    old = blas_kernel.LoadedKernel("libopenblaso.so", "0.3.15", "Prescott", 2)
    choice = blas_kernel.KernelChoice("SkylakeX", "Prescott", False, ())
    monkeypatch.setattr(blas_kernel, "loaded_kernels", lambda: (old,))
    monkeypatch.setattr(blas_kernel, "choose_kernel", lambda: choice)
    noted = [finding for finding in doctor.check_faiss() if finding.name == "BLAS kernel"]
    assert noted[0].state is doctor.State.NOTE
    assert "SkylakeX" in noted[0].advice


def test_little_disk_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Usage:
        free = 5

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: Usage)
    (finding,) = doctor.check_disk(tmp_path)
    assert finding.state is doctor.State.NOTE
    assert finding.advice


def test_what_was_found_is_shown_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = "[odd] SapphireRapidsWithAVeryLongName, second"
    monkeypatch.setattr(doctor, "examine", lambda folder: [doctor.Finding("thing", doctor.State.GOOD, found)])
    monkeypatch.setattr(doctor, "table_console", lambda: Console(width=40))
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    head, *lines = shown.splitlines()
    words = "".join(line[head.index("found") :] for line in lines)
    assert words.replace(" ", "") == found.replace(" ", "")
