"""Float32 products are float32 while a bound rests on it, whatever the process or the environment says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
import torch

from indexes import faiss_backend, host_scan, probe
from indexes.devices import gpu_trouble
from indexes.errors import SearchInputError
from indexes.float32_products import (
    HOST_VARIABLES,
    ON_GPUS,
    ON_HOST,
    TF32_FORCED,
    ProductSetting,
    float32_products,
)
from indexes.protocol import Shard
from indexes.registry import open_backend
from indexes.sources import ArrayRows
from indexes.streaming import open_streamed

CPU = torch.device("cpu")
NEWER = hasattr(torch.backends.mkldnn, "matmul")  # a setting a device, since torch 2.9


def host_word() -> str:
    """What torch says of float32 products on a processor."""
    return torch.backends.mkldnn.matmul.fp32_precision if NEWER else torch.get_float32_matmul_precision()


@contextmanager
def rounding_allowed() -> Iterator[None]:
    """As a training script leaves it: products on a processor may be those of bfloat16."""
    before = host_word(), torch.backends.cuda.matmul.fp32_precision if NEWER else None
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        if NEWER:
            torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.parametrize("precision", ["torch-float32", "torch-bfloat16"])
def test_a_search_multiplies_in_float32_and_puts_back_what_the_process_allows(
    unit_rows, monkeypatch, precision
):
    rows, queries = unit_rows(1, 3000, 8), unit_rows(2, 200, 8)
    words, matmul = [], torch.matmul

    def watched(*tensors, out):
        words.append(host_word())
        return matmul(*tensors, out=out)

    shard = Shard("rows", "original", ArrayRows(rows))
    backends = [open_backend(precision, shard), open_streamed(shard, backend=precision)]
    monkeypatch.setattr(host_scan.torch, "matmul", watched)
    with rounding_allowed():
        allowed = host_word()
        for backend in backends:
            found = backend.topk(queries, 3)
            backend.counts(queries, found.scores[:, 0].copy())
            backend.survey(queries, found.scores[:, 0].copy())
        assert host_word() == allowed
    assert allowed not in set(words)
    assert set(words) == {"ieee" if NEWER else "highest"}


@pytest.mark.parametrize("variable", HOST_VARIABLES)
def test_rounding_that_the_environment_asks_for_is_refused(unit_rows, monkeypatch, variable):
    shard = Shard("rows", "original", ArrayRows(unit_rows(1, 30, 8)))
    before = probe.machine_key(CPU)
    monkeypatch.setenv(variable, "STRICT")
    open_backend("torch-float32", shard)
    monkeypatch.setenv(variable, "BF16")
    with pytest.raises(SearchInputError, match=f"backend torch-float32: {variable}=BF16 lets .*unset it, or"):
        open_backend("torch-float32", shard)
    with pytest.raises(SearchInputError, match="use --backend numpy"):
        open_streamed(shard, backend="torch-tf32")
    open_backend("torch-bfloat16", shard)  # its inputs are rounded already
    monkeypatch.setattr(probe, "product_rates", lambda device: {"float32": 900.0, "numpy": 1.0})
    assert probe.fastest_on_cpu() == "numpy"
    assert probe.machine_key(CPU) != before


@pytest.mark.parametrize(("value", "forced"), [(None, False), ("0", False), ("1", True)])
def test_a_gpu_that_is_made_to_round_its_inputs_is_not_used(
    value: str | None, forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    if value is not None:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", value)
    said = (faiss_backend.probe_gpu.__wrapped__().found, gpu_trouble.__wrapped__())
    assert [one == TF32_FORCED for one in said] == [forced, forced]


def test_what_torch_said_before_is_put_back_as_it_was():
    settings = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(settings, "fp32_precision") else "allow_tf32"
    before = getattr(settings, name)  # may be a third word, such as "none"
    for tf32 in (True, False):
        with ON_GPUS.held(tf32):
            assert getattr(settings, name) in (tf32, "tf32" if tf32 else "ieee")
        assert getattr(settings, name) == before
    on_host = host_word()
    with ON_HOST.held(False), float32_products(CPU, tf32=True):
        assert host_word() in ("ieee", "highest")
    assert host_word() == on_host


def test_a_setting_is_shared_by_those_who_agree_and_put_back_by_the_last():
    values = [False]

    def write(allowed):
        values.append(allowed)
        return values[-2]

    setting, entered = ProductSetting(write), Event()

    def other():
        with setting.held(False):
            entered.set()

    thread = Thread(target=other)
    with setting.held(True):
        with setting.held(True):
            thread.start()
        assert values == [False, True]  # the inner user's leaving puts nothing back
        assert not entered.is_set()
    thread.join(20)
    assert entered.is_set()
    assert values == [False, True, False, False, False]
