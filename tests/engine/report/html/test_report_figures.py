"""The figures as data: orders, intervals, and what cannot be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.report.entries import Entry
from engine.report.html.figures import (
    before_of,
    changes_figure,
    checkpoints_figure,
    distractors_figure,
    least_crowded,
    levels_figure,
    split_variant,
    trade_off_figure,
    value_of,
    words_figure,
)
from engine.report.html.headlines import caveats, worst_first


def entry(checkpoint: str, variant: str | None, recall: float, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "checkpoint": checkpoint,
        "spec": "fake",
        "direction": "i2t",
        "variant": variant,
        "seeds": (),
        "runs": 1,
        "queries": 10,
        "originals": 20,
        "distractors": 0,
        "normalisation": "raw",
        "values": {"recall@1": recall},
        "deviations": {},
        "intervals": {},
        "base": {} if variant is None else {"recall@1": 60.0},
    }
    return Entry(**{**fields, **more})


@pytest.mark.parametrize(
    ("variant", "parts"),
    [
        ("mix:0.9", ("mix", 0.9, ())),
        ("mix:.9:mode=paper", ("mix", 0.9, ("mode=paper",))),
        ("substitute:3", ("substitute", 3.0, ())),
        ("same_concept", ("same_concept", None, ())),
        ("rococo:1.json", ("rococo", None, ("1.json",))),
        (None, ("", None, ())),
    ],
)
def test_the_number_of_a_variant(variant: str | None, parts: Any) -> None:
    assert split_variant(variant) == parts


def test_before_has_the_interval_of_the_run_without_variant_where_it_is_the_same_value() -> None:
    base = entry("a", None, 60.0, intervals={"recall@1": (55.0, 65.0)})
    attacked = entry("a", "mix:0.9", 40.0)
    assert before_of(attacked, [base, attacked]) == (60.0, 55.0, 65.0)
    fewer = entry("a", "typo", 40.0, base={"recall@1": 61.0})
    assert before_of(fewer, [base, fewer]) == (61.0, None, None)
    crowd = entry("a", "mix:0.9", 40.0, distractors=5)
    assert before_of(crowd, [base, crowd]) == (60.0, None, None)


def test_seeds_have_their_deviation_for_bounds() -> None:
    seeds = entry("a", "mix:0.9", 40.0, runs=3, deviations={"recall@1": 1.5})
    assert value_of(seeds, "recall@1") == (40.0, 38.5, 41.5)
    assert value_of(seeds, "drop_rate") is None


@pytest.mark.parametrize(
    ("intervals", "queries", "said"),
    [
        (
            [(30.0, 34.0), (28.0, 31.0), (27.0, 32.0)],
            100,
            ["The intervals of its drop rate and of mix:0.8 and 1 more overlap."],
        ),
        (
            [(31.5, 34.0), (28.0, 31.4), (1.0, 31.5)],
            100,
            ["The intervals of its drop rate and of patch overlap."],
        ),
        ([(31.5, 34.0), (28.0, 31.4), (1.0, 2.0)], 50, []),
        ([(31.5, 34.0), (28.0, 31.4), None], 49, ["Right without it: 29 of 49 queries, too few"]),
    ],
)
def test_what_a_headline_does_not_show_is_said(intervals: Any, queries: int, said: list[str]) -> None:
    attacks = [
        entry(
            "a",
            variant,
            40.0,
            queries=queries,
            values={"drop_rate": drop},
            intervals={"drop_rate": bounds} if bounds else {},
        )
        for variant, drop, bounds in zip(
            ("mix:0.9", "mix:0.8", "patch"), (32.0, 30.0, 29.0), intervals, strict=True
        )
    ]
    found = list(caveats(worst_first([entry("a", None, 60.0), *reversed(attacks)])))
    assert [one.startswith(start) for one, start in zip(found, said, strict=True)] == [True] * len(said)


def test_deviations_over_seeds_are_no_intervals_and_tell_nothing_apart() -> None:
    seeded = [
        entry(
            "a", variant, 40.0, runs=3, queries=100, values={"drop_rate": drop}, deviations={"drop_rate": 2.0}
        )
        for variant, drop in (("mix:0.9", 30.0), ("patch", 29.5))
    ]
    assert list(caveats(worst_first(seeded))) == []


def lines(entries: Sequence[Entry], make: Any) -> dict[str, list[tuple[Any, float]]]:
    return {
        f"{panel.title} {series.name}": [(point.x, point.values["recall@1"][0]) for point in series.points]
        for panel in make(entries).panels
        for series in panel.series
    }


def test_levels_are_lines_of_checkpoints_ascending() -> None:
    entries = [
        entry("b", "mix:0.9", 1.0),
        entry("b", "mix:0.85", 2.0),
        entry("a", "mix:0.9", 3.0),
        entry("b", "mix:0.9:mode=paper", 4.0),
        entry("b", "patch:0.9", 5.0),
        entry("b", "patch:0.9", 6.0, distractors=3),
    ]
    assert lines(entries, levels_figure) == {"mix:L b": [(0.85, 2.0), (0.9, 1.0)]}
    assert levels_figure(entries[:1]).missing


def test_words_and_distractors_need_two_numbers() -> None:
    entries = [
        *(entry("a", f"substitute:{count}", float(count)) for count in (10, 2)),
        *(entry("a", None, 90.0 - count, distractors=count) for count in (0, 100)),
    ]
    assert lines(entries, words_figure) == {"substitute:N a": [(2.0, 2.0), (10.0, 10.0)]}
    assert lines(entries, distractors_figure) == {
        "i2t: images ask for captions a": [(0.0, 90.0), (100.0, -10.0)]
    }
    assert words_figure(entries[:1]).missing
    assert distractors_figure(entries[:3]).missing


def test_checkpoints_are_one_axis_in_their_order() -> None:
    entries = [entry(name, variant, 1.0) for name in ("s10", "s9") for variant in (None, "mix:0.9")]
    figure = checkpoints_figure(entries)
    assert figure.ticks == ("s9", "s10")
    assert [series.name for series in figure.panels[0].series] == ["(none)", "mix:0.9"]
    assert checkpoints_figure(entries[:2]).missing


def test_crowded_galleries_are_left_to_their_own_figure() -> None:
    crowd = [entry("a", variant, 1.0, distractors=count) for variant in (None, "mix:0.9") for count in (9, 5)]
    assert {one.distractors for one in least_crowded(crowd)} == {5}
    quiet = entry("a", "mix:0.9", 2.0)
    (panel,) = changes_figure([*crowd, quiet]).panels
    assert [change.distractors for change in panel.changes] == [0]
    other = entry("a", "mix:0.9", 1.0, direction="t2i", distractors=7)
    assert {one.distractors for one in least_crowded([*crowd, quiet, other])} == {0, 7}


def test_a_drop_rate_that_is_undefined_is_not_drawn() -> None:
    nothing = entry(
        "a", "mix:0.9", 0.0, values={"recall@1": 0.0, "drop_rate": None, "incorrect_recall@1": 9.0}
    )
    some = entry("b", "mix:0.9", 1.0, values={"recall@1": 1.0, "drop_rate": 50.0, "incorrect_recall@1": 9.0})
    (panel,) = trade_off_figure([nothing, some]).panels
    assert [change.checkpoint for change in panel.changes] == ["b"]
    assert trade_off_figure([nothing]).missing
