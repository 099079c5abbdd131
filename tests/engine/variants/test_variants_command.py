"""`itrstress variants list`."""

from __future__ import annotations

import pytest
from rich.console import Console

from engine.cli.main import run
from engine.cli.variants import ACTS_ON
from engine.variants.registry import variant_families


@pytest.mark.parametrize("option", [[], ["--long"]])
def test_every_family_is_listed_with_its_usage(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["variants", "list", *option]) == 0
    printed = capsys.readouterr().out
    for family in variant_families().values():
        assert family.usage in printed
        assert family.summary.split()[1] in printed
        if option:
            assert " ".join(family.doc.split()) in " ".join(printed.split())


def test_every_family_is_listed_once_below_what_it_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert {one.acts_on for one in variant_families().values()} == set(ACTS_ON)
    assert run(["variants", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    placed: dict[str, list[str]] = {}
    for line in lines:
        if line in ACTS_ON.values():
            below = placed.setdefault(line, [])
        elif line and not line.startswith(" "):
            below.append(line)
    assert placed == {
        heading: [one.usage for one in variant_families().values() if one.acts_on == acts_on]
        for acts_on, heading in ACTS_ON.items()
    }
    assert placed["images in place of the originals: the queries of i2t"] == ["occlude:GRID:CELL"]


@pytest.mark.parametrize("command", [("variants", "list", "--long"), ("models", "list")])
def test_lists_keep_to_the_width_of_the_terminal(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.report.console.table_console", lambda: Console(width=60))
    assert run(list(command)) == 0
    about = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert 50 < max(map(len, about)) <= 60
