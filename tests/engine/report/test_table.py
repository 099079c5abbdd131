"""Tables: every run has its row, they fit 80 columns, and names are shown as they are."""

from __future__ import annotations

import re
from collections import Counter
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from engine.evaluate.metrics import RANK_METRICS, SET_RECALL
from engine.evaluate.results import Provenance, Results, Run
from engine.report.table import checkpoints_table, results_table, timings_line


def make_run(variant: str | None, direction: Any, recall: float = 43.04, **changes: Any) -> Run:
    metrics: dict[str, float | None] = {
        "recall@1": recall,
        "recall@5": 71.2,
        "recall@10": 100.0,
        "median_rank": 2.5,
        "mean_rank": 4.5,
        "rsum": recall + 171.2,
    }
    if variant is not None:
        metrics |= {"drop_rate": 4.2, "changed_rate": 99.9, "incorrect_recall@1": 12.34}
        metrics |= {"incorrect_recall@1/own": 12.0, "incorrect_recall@1/other": 0.34}
    fields: dict[str, Any] = {
        "variant": variant,
        "side": None if variant is None else "gallery",
        "direction": direction,
        "queries": 5000,
        "gallery": {"original": 25010} if variant is None else {"original": 25010, "adversarial": 25000},
        "positives": 25010,
        "metrics": metrics,
        "undefined": {},
        "base": None if variant is None else {**dict.fromkeys(RANK_METRICS, 1.0), "recall@1": 44.92},
        "ties": "expected",
        "tied": {"tied_queries": 123},
        "left_out": {},
        "timings": {},
        "outcomes": None,
        "key": {},
    }
    return Run(**{**fields, **changes})


def make_results(checkpoint: str, *runs: Run) -> Results:
    provenance = Provenance(
        checkpoint=checkpoint,
        command=(),
        config={},
        seeds={},
        encoder_spec="s",
        encoder_fingerprint="f",
        dim=4,
        corpus_name="c",
        corpus_fingerprint="f",
        normalisation="raw",
        sets=(),
        versions={},
        backend="numpy",
        search_device="cpu",
        created="2024-01-01T00:00:00+00:00",
    )
    return Results(provenance=provenance, runs=runs, timings={"load": 0.26, "untracked": 0.0, "total": 0.31})


def shown(renderable: Any, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


RUNS = (
    make_run(None, "i2t", 44.92),
    make_run("rococo:same_concept", "i2t"),
    make_run(None, "t2i", 30.0),
    make_run("mix:0.9:seed=1", "t2i"),
)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_row_a_variant_with_whole_numbers_at_usual_widths(width: int) -> None:
    lines = shown(results_table(make_results("model", *RUNS)), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    row = next(line for line in lines if "44.9->43.0" in line)
    assert row.split()[-9:] == ["71.2", "100.0", "2.5", "4.2", "12.3", "12.0/0.3", "123", "99.9", "50,010"]
    base = next(line for line in lines if line.startswith("(none)"))
    assert base.split() == ["(none)", "44.9", "71.2", "100.0", "2.5", "-", "-", "-", "123", "-", "25,010"]
    assert [line.split()[0] for line in lines if "ask for" in line] == ["i2t", "t2i"]
    assert "tie policy (expected)" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 120])
def test_checkpoints_stand_in_one_table_a_direction(width: int) -> None:
    results = [make_results(name, *RUNS) for name in ("epoch 1", "open_clip:ViT-B-32:laion2b_s34b_b79k")]
    lines = shown(checkpoints_table(results), width)
    assert max(map(len, lines)) <= width
    assert sum("44.9->43.0" in line for line in lines) == 4
    assert sum(line.startswith("epoch 1") for line in lines) == 2
    assert sum("checkpoint" in line for line in lines) == 2


@pytest.mark.parametrize("width", [20, 40, 60, 79])
@pytest.mark.parametrize("named", [False, True])
def test_no_number_is_lost_on_a_narrow_terminal(width: int, named: bool) -> None:
    results = make_results("epoch 1", *RUNS)
    show = (lambda one: checkpoints_table([one])) if named else results_table
    narrow, wide = (" ".join(" ".join(shown(show(results), columns)).split()) for columns in (width, 120))
    numbers = re.compile(r"[0-9][0-9.,>/-]*[0-9]")
    assert "…" not in narrow
    assert Counter(numbers.findall(wide)) <= Counter(numbers.findall(narrow))


@pytest.mark.parametrize(("median", "text"), [(46.833333, "46.8"), (2.0, "2"), (1234567.5, "1,234,567.5")])
def test_a_median_rank_has_one_digit_at_most(median: float, text: str) -> None:
    run = make_run(None, "i2t", metrics={**RUNS[0].metrics, "median_rank": median})
    lines = shown(results_table(make_results("m", run)), 120)
    assert next(line for line in lines if line.startswith("(none)")).split()[4] == text


def test_only_columns_that_are_there_are_explained() -> None:
    run = make_run(None, "i2t", metrics={**RUNS[0].metrics, SET_RECALL[1]: 3.0})
    text = "\n".join(shown(results_table(make_results("m", run)), 120))
    assert "set R@k: % of" in text
    assert "DCG@10" not in text


def test_undefined_values_are_dashes_and_names_are_not_markup() -> None:
    metrics = {**RUNS[1].metrics, "drop_rate": None}
    odd = make_run("[red]x[/red]", "i2t", metrics=metrics)
    lines = shown(results_table(make_results("m", odd)), 120)
    row = next(line for line in lines if line.startswith("[red]x[/red]"))
    assert row.split()[5] == "-"


def test_piped_output_is_plain_ascii_and_box_lines_only() -> None:
    text = "\n".join(shown(results_table(make_results("m", *RUNS)), 120))
    assert set(text) - {"─"} <= {chr(code) for code in range(32, 127)} | {"\n"}


def test_the_timings_line_names_every_stage() -> None:
    assert timings_line(make_results("m", *RUNS)) == "0.3 s: load 0.3, untracked 0.0"


def test_intervals_are_shown_where_there_is_room_or_on_request() -> None:
    intervals = {"recall@1": (28.04, 32.5), "drop_rate": (1.0, 2.0)}
    results = make_results("m", make_run("swap", "i2t", intervals=intervals))

    def text(width: int, **options: Any) -> str:
        return "\n".join(shown(results_table(results, **options), width))

    assert "[28.0, 32.5]" in text(160)
    assert "[28.0, 32.5]" not in text(120)
    assert "[28.0, 32.5]" in text(140, intervals=True)
    assert "95%" not in "\n".join(shown(results_table(make_results("m", *RUNS), intervals=True), 160))


def test_originals_without_an_item_of_a_variant_are_counted_in_one_line() -> None:
    without = {"variant_has_no_item": 1201, "queries_skipped": 4}
    runs = [make_run(None, "i2t"), make_run("swap", "i2t", left_out=without), make_run("typo", "i2t")]
    line = "Originals without an item of the variant: swap 1,201."
    one = make_results("a", *runs)
    assert shown(results_table(one), 80).count(line) == 1
    assert shown(checkpoints_table([one, one]), 80).count(line) == 1
    assert not any(
        "Originals without" in text for text in shown(results_table(make_results("a", runs[0])), 80)
    )
