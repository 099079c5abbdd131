"""The choice of a first pass is measured once, kept, and measured again when what was kept is spoiled."""

from __future__ import annotations

import json

import pytest
import torch

from indexes import probe

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of this test's own, and a probe that has not run yet."""
    monkeypatch.setattr(probe, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(probe, "measure_rates", lambda device: measured.append(device) or dict(RATES))
    measured.clear()
    probe.product_rates.cache_clear()
    yield tmp_path / "cache"
    probe.product_rates.cache_clear()


RATES = {"bfloat16": 900.0, "float32": 200.0, "numpy": 250.0}
measured: list[torch.device] = []


def again():
    probe.product_rates.cache_clear()
    return probe.product_rates(CPU)


def test_measured_once_and_kept(folder):
    assert again() == RATES
    assert again() == RATES
    assert len(measured) == 1
    assert [path.suffix for path in folder.iterdir()] == [".json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"bfloat16": 1.0}',
        '{"float32": "fast"}',
        '{"float32": -1.0}',
        '{"float32": 1.0, "x": 2.0}',
    ],
)
def test_a_spoiled_file_is_measured_again_and_replaced(folder, content):
    again()
    file = next(folder.iterdir())
    file.write_text(content)
    assert again() == RATES
    assert len(measured) == 2
    assert json.loads(file.read_text()) == RATES


def test_a_folder_that_cannot_be_written_does_not_matter(folder):
    folder.write_text("a file where the folder should be")
    assert again() == RATES
    assert again() == RATES
    assert len(measured) == 2


def test_another_machine_or_setting_has_another_file(monkeypatch):
    before = probe.machine_key(CPU)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert probe.machine_key(CPU) != before
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    monkeypatch.setattr(probe, "processor_flags", lambda: frozenset({"another"}))
    assert probe.machine_key(CPU) != before


@pytest.mark.parametrize(
    ("rates", "precision", "backend"),
    [
        ({"bfloat16": 900.0, "float32": 200.0, "numpy": 250.0}, "bfloat16", "torch-cpu"),
        ({"bfloat16": 210.0, "float32": 200.0, "numpy": 250.0}, "float32", "numpy"),
        ({"bfloat16": 260.0, "float32": 200.0, "numpy": 250.0}, "bfloat16", "numpy"),
        ({"float32": 200.0, "numpy": 150.0}, "float32", "torch-cpu"),
        ({"float32": 200.0, "numpy": 250.0}, "float32", "numpy"),
    ],
)
def test_the_fastest_is_chosen_unless_it_gains_too_little(monkeypatch, rates, precision, backend):
    monkeypatch.setattr(probe, "product_rates", lambda device: rates)
    assert probe.fastest_precision(CPU) == precision
    assert probe.fastest_on_cpu() == backend


def test_the_real_probe_measures_every_candidate():
    rates = probe.measure_rates(CPU)
    assert set(rates) == {*probe.candidates(CPU), probe.NUMPY}
    assert all(rate > 0 for rate in rates.values())
