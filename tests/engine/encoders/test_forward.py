"""Batches of a forward pass: in half precision none that would make a row depend on its neighbours."""

from __future__ import annotations

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
