"""`itrstress variants list`."""

from __future__ import annotations

import pytest

from engine.cli.main import run
from engine.variants.registry import variant_families


@pytest.mark.parametrize("option", [[], ["--long"]])
def test_every_family_is_listed_with_its_usage(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["variants", "list", *option]) == 0
    printed = capsys.readouterr().out
    for family in variant_families().values():
        assert family.usage in printed
        assert family.summary.split()[1] in printed
        if option:
            assert family.doc.splitlines()[-1] in printed
