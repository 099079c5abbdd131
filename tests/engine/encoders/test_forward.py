"""Batches of a forward pass: in half precision none that would make a row depend on its neighbours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from engine.encoders.forward import Forward

LENGTHS = [5, 3, 5, 3, 5, 8]


def forward(precision: str) -> Forward:
    return Forward(torch.device("cpu"), precision, 2)


def test_in_full_precision_batches_are_full_whatever_the_lengths() -> None:
    assert [rows.tolist() for rows in forward("fp32").batches(LENGTHS)] == [[1, 3], [0, 2], [4, 5]]
    assert [rows.tolist() for rows in forward("fp32").batches(LENGTHS, equal=True)] == [
        [1, 3],
        [0, 2],
        [4],
        [5],
    ]
    assert len(forward("fp32").filled(torch.zeros(1, 3))) == 1


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_in_half_precision_a_batch_has_one_length_and_all_its_rows(precision: str) -> None:
    assert [rows.tolist() for rows in forward(precision).batches(LENGTHS)] == [[1, 3], [0, 2], [4], [5]]
    assert forward(precision).filled(torch.tensor([[1, 2]])).tolist() == [[1, 2], [1, 2]]
    assert forward(precision).filled(torch.tensor([[1], [2], [3]])).tolist() == [[1], [2], [3]]


# ---------------------------------------------------------------- TF32


def allow_tf32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True


def allow_by_precision() -> None:
    torch.set_float32_matmul_precision("high")


@pytest.fixture
def tf32_as_before() -> Iterator[None]:
    """The process' settings, put back after the test."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def tf32_is_allowed() -> bool:
    """For products; readable without a GPU, in every version of torch."""
    settings = torch.backends.cuda.matmul
    newer = getattr(settings, "fp32_precision", None)
    return bool(settings.allow_tf32) if newer is None else bool(newer == "tf32")


@pytest.mark.usefixtures("tf32_as_before")
@pytest.mark.parametrize("allow", [allow_tf32, allow_by_precision])
def test_float32_products_on_a_gpu_are_no_tf32_whatever_the_process_allows(
    allow: Callable[[], None],
) -> None:
    allow()
    assert tf32_is_allowed()
    with Forward(torch.device("cuda"), "fp32", 2).passes():
        assert not tf32_is_allowed()
    assert tf32_is_allowed()


NEWER = hasattr(torch.backends, "fp32_precision")  # since torch 2.9
IN_A_PROCESS_OF_ITS_OWN = """
import sys, torch
from engine.encoders.forward import Forward

def readable():
    words = [torch.backends.mkldnn.conv.fp32_precision, torch.backends.cudnn.conv.fp32_precision]
    for read in (lambda: torch.backends.cuda.matmul.allow_tf32, lambda: torch.backends.cudnn.allow_tf32):
        try:
            words.append(read())
        except RuntimeError:
            words.append("raises")
    return words

exec(sys.argv[1])
before = readable()
with Forward(torch.device(sys.argv[2]), "fp32", 2).passes():
    print(readable())
assert readable() == before, (readable(), before)
"""


@pytest.mark.skipif(not NEWER, reason="torch before 2.9 has one interface")
@pytest.mark.parametrize(
    ("setting", "device", "wanted"),
    [
        ("pass", "cuda", ["none", "ieee", False, False]),
        ("torch.backends.fp32_precision = 'tf32'", "cpu", ["ieee", "tf32", "raises", True]),
        ("torch.backends.fp32_precision = 'tf32'", "cuda", ["tf32", "ieee", False, False]),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "cuda", ["none", "ieee", False, False]),
        ("torch.set_float32_matmul_precision('high')", "cuda", ["none", "ieee", False, False]),
        ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", "cuda", ["none", "ieee", False, "raises"]),
    ],
)
def test_float32_holds_whichever_interface_of_torch_a_process_uses(
    setting: str, device: str, wanted: list[object]
) -> None:
    """In a process of its own: torch cannot be put back to where it has only been told by one of them."""
    found = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, setting, device], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(wanted)
