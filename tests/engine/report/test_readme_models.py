"""The README's table of models: every model of both papers, its figures as printed, specs that are some."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

import pytest

from engine.encoders.registry import model_families, parse_spec

README = Path(__file__).resolve().parents[3] / "README.md"
ROW = re.compile(
    r"\| (?P<model>[^|`]+) \| `(?P<spec>[^`]+)` \|(?:[^|]*\|){3} (?P<i2t>[\d.]+) / (?P<t2i>[\d.]+) \|"
)


def rows() -> list[dict[str, str]]:
    return [match.groupdict() for match in ROW.finditer(README.read_text())]


def table(name: str) -> list[dict[str, str]]:
    text = resources.files("engine.report").joinpath("published", f"{name}.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def rococo() -> dict[str, tuple[float, float]]:
    by_direction = [
        {
            row["model"].removesuffix(" (zero-shot)") if "CLIP" in row["model"] else row["model"]: float(
                row["recall_at_1"]
            )
            for row in table(name)
            if row["setting"] == "original"
        }
        for name in ("rococo_table1", "rococo_table2")
    ]
    return {model: (value, by_direction[1][model]) for model, value in by_direction[0].items()}


def brittleness() -> dict[str, tuple[float, float]]:
    """The third image-to-text column holds R@1 (`known_errors.csv`, the spec of the study)."""
    return {
        row["model"]: (float(row["i2t_col3"]), float(row["t2i_recall_at_1"]))
        for row in table("brittleness_table2")
        if row["dataset"] == "MS-COCO"
    }


def test_every_model_of_both_papers_is_there_with_its_figures() -> None:
    wanted = [*rococo().items(), *brittleness().items()]
    found = [(row["model"], (float(row["i2t"]), float(row["t2i"]))) for row in rows()]
    assert len(wanted) == 18
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["model"])
def test_its_spec_is_of_a_family(row: dict[str, str]) -> None:
    family, _, _ = parse_spec(row["spec"])
    assert family in model_families()
