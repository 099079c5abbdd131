"""Batches of a forward pass: in half precision none that would make a row depend on its neighbours."""

from __future__ import annotations

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
