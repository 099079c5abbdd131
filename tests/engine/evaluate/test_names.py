"""The order of names with numbers in them, one for patterns of checkpoints and for the report."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from engine.evaluate.names import natural_key
from engine.sweeps.run_file.model_paths import models_of


@pytest.mark.parametrize(
    "names",
    [
        ["step-2", "step-10", "step-100"],
        ["a1b2", "a1b10", "a2b1"],
        ["0", "epoch", "epoch 1", "epoch 02", "Epoch 3"],
        ["x", "x²", "x٣"],
        ["run 7", f"run 1{'0' * 5000}", f"run 2{'0' * 5000}"],
    ],
)
def test_names_are_ordered_as_people_count(names: list[str]) -> None:
    for shuffled in permutations(names):
        assert sorted(shuffled, key=natural_key) == names


def test_checkpoints_of_a_pattern_have_the_order_of_the_report(tmp_path: Path) -> None:
    names = ["2", "epoch_1", "Epoch_2", "epoch_9", "Epoch_10", "last"]
    for name in names:
        (tmp_path / f"{name}.pt").touch()
    assert [name for _, name in models_of("open_clip:ViT-B-32:*.pt", tmp_path)] == names
