"""The controls of the page: texts in two normalisations, re-encoded images, fakes that change nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run


def controls_of(paths: list[Path], out: Path) -> str:
    """The text of the page's section of controls."""
    assert run(["report", *map(str, paths), "--out", str(out), "--worst", "0"]) == 0
    page = out.read_text(encoding="utf-8")
    section = page[page.index('<section id="controls"') : page.index('<section id="attribution"')]
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def runs_of(study: Any, checkpoint: str) -> dict[str | None, dict[str, Any]]:
    document = json.loads((study.results / checkpoint / "results.json").read_text())
    return {one["variant"]: one for one in document["runs"] if one["direction"] == "i2t"}


def test_texts_in_two_normalisations_stand_beside_each_other(
    study: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    other = make_study(normalisation="pre_caption", families=("same_concept:seed=0",), captions=2, tail="")
    shown = controls_of([study.results, other.results], tmp_path / "r.html")
    raw, normalised = runs_of(study, "step-10"), runs_of(other, "step-10")
    for variant, metric in ((None, "recall@1"), ("same_concept:seed=0", "drop_rate")):
        first, second = (runs[variant]["metrics"][metric] for runs in (raw, normalised))
        assert f"{first:.1f} → {second:.1f} {second - first:+.1f}" in shown
    assert "drop rate, raw → pre_caption" in shown
    assert "in one normalisation" not in shown


def test_a_page_of_one_normalisation_says_how_to_get_the_other(
    study: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    shown = controls_of([study.results], tmp_path / "raw.html")
    assert "in one normalisation, raw." in shown
    assert "--normalisation pre_caption" in shown
    other = make_study(normalisation="pre_caption")
    shown = controls_of([other.results], tmp_path / "pre.html")
    assert "in one normalisation, pre_caption." in shown
    assert "--normalisation raw" in shown


def test_reencoded_images_are_a_control_and_no_attack(
    study: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    assert "No run of reencode" in controls_of([study.results], tmp_path / "without.html")
    alone = make_study(levels=(), reencoded=True, images=60, families=())
    shown = controls_of([alone.results], tmp_path / "with.html")
    assert "No run of reencode" not in shown
    document = json.loads((alone.results / "step-10" / "results.json").read_text())
    run_of = next(one for one in document["runs"] if one["variant"] == "reencode")
    assert run_of["metrics"]["drop_rate"] > 0
    cells = [run_of["base"]["recall@1"], *(run_of["metrics"][name] for name in ("recall@1", "drop_rate"))]
    assert "step-10 t2i reencode " + " ".join(f"{one:.1f}" for one in cells) in shown
    page = (tmp_path / "with.html").read_text(encoding="utf-8")
    assert "of its R@1 to reencode" not in page
    assert "<dd>reencode</dd>" not in page
    assert "2 checkpoints, 1 attack," in page  # the typos


def test_text_attacks_alone_miss_no_reencoded_images(make_study: Callable[..., Any], tmp_path: Path) -> None:
    study = make_study(levels=())
    assert "reencode" not in controls_of([study.results], tmp_path / "r.html")


def test_fakes_without_a_query_are_given_from_lowest_to_highest(study: Any, tmp_path: Path) -> None:
    shown = controls_of([study.results], tmp_path / "r.html")
    blind = sorted(
        runs_of(study, name)["same_concept:seed=0"]["metrics"]["incorrect_without_query"]
        for name in ("step-9", "step-10")
    )
    assert blind[0] != pytest.approx(blind[1], abs=0.1)
    assert f"same_concept i2t 0.0 {blind[0]:.1f} to {blind[1]:.1f}" in shown
