"""Which set of a store a variant's spec asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.evaluate.sets import canonical_name

STORED = (
    "original",
    "mix:0.9:seed=1",
    "patch:0.9:seed=1",
    "patch:0.9:seed=10",
    "mix:0.8:seed=0",
    "mix:0.8:seed=5",
)


def holding(*names: str) -> Any:
    """A store, as far as its sets have names."""
    return SimpleNamespace(sets=[SimpleNamespace(name=name) for name in names])


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("mix:0.9", "mix:0.9:seed=1"),  # the only one
        ("mix:0.90", "mix:0.9:seed=1"),
        ("mix:0.9:seed=0", "mix:0.9:seed=0"),  # named, so it is meant
        ("mix:0.9:mode=paper", "mix:0.9:mode=paper:seed=0"),  # another variant
        ("patch:0.9", "patch:0.9:seed=0"),  # two seeds: an error that lists them, later
        ("mix:0.8", "mix:0.8:seed=0"),  # the default one is there
        ("mix:0.7", "mix:0.7:seed=0"),
        ("distraction_true", "distraction_true"),
        ("mine", "mine"),
    ],
)
def test_a_spec_without_a_seed_means_the_only_set_there_is(spec: str, name: str) -> None:
    assert canonical_name(spec, holding(*STORED)) == name


def test_of_several_stores_all_sets_count() -> None:
    assert canonical_name("mix:0.9", holding("mix:0.9:seed=1"), holding("mix:0.9:seed=1")) == "mix:0.9:seed=1"
    assert canonical_name("mix:0.9", holding("mix:0.9:seed=1"), holding("mix:0.9:seed=2")) == "mix:0.9:seed=0"
