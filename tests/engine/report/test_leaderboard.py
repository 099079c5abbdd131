"""The leaderboard: seeds averaged, sorted, and the same numbers in every format."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.errors import InputError
from engine.evaluate.collection import FoundRun
from engine.evaluate.metrics import RANK_METRICS
from engine.evaluate.results import Provenance, Run
from engine.report.grid import FORMATS, Section, choose_format, latex_text, markdown_text
from engine.report.leaderboard import Leaderboard


def found_run(
    checkpoint: str,
    variant: str | None,
    direction: str,
    recall: float,
    drop: float | None = None,
    **more: Any,
) -> FoundRun:
    values: dict[str, float | None] = dict.fromkeys(RANK_METRICS, 1.0)
    values |= {"recall@1": recall, "rsum": 3 * recall}
    if variant is not None:
        values["drop_rate"] = drop
    fields: dict[str, Any] = {
        "variant": variant,
        "side": None if variant is None else "gallery",
        "direction": direction,
        "queries": 50,
        "gallery": {"original": 100},
        "positives": 100,
        "metrics": values,
        "undefined": {},
        "base": None if variant is None else {**dict.fromkeys(RANK_METRICS, 1.0), "recall@1": 60.0},
        "ties": "expected",
        "tied": {"tied_queries": 0},
        "left_out": {},
        "timings": {},
        "outcomes": None,
        "key": {},
    }
    provenance = Provenance(
        checkpoint=checkpoint, command=(), config={}, seeds={}, encoder_spec=f"fake:{checkpoint}",
        encoder_fingerprint=checkpoint, dim=4, corpus_name="c", corpus_fingerprint="f", normalisation="raw",
        sets=(), versions={}, backend="numpy", search_device="cpu", created="2024-01-01T00:00:00+00:00",
    )  # fmt: skip
    return FoundRun(Run(**{**fields, **more}), provenance, Path("x.json"))


SEEDS = ((1, 50.0, 16.0), (10, 53.0, 11.0), (100, 47.0, 22.0))
RUNS = (
    found_run("a|b", None, "i2t", 60.0, intervals={"recall@1": (55.0, 65.5)}),
    found_run("a|b", None, "t2i", 40.0),
    found_run("a_b", None, "i2t", 70.0),
    *(found_run("a|b", f"mix:0.9:seed={seed}", "i2t", recall, drop) for seed, recall, drop in SEEDS),
    found_run("a_b", "mix:0.9:seed=1", "i2t", 60.0, 14.0),
    found_run("zero", "mix:0.9:seed=1", "i2t", 0.0, None),
)


def test_runs_that_differ_in_their_seed_are_averaged() -> None:
    records = Leaderboard.of(RUNS).records()
    (mixed,) = (one for one in records if one["checkpoint"] == "a|b" and one["variant"] == "mix:0.9")
    assert (mixed["runs"], mixed["seeds"]) == (3, "1 10 100")
    for name, place in (("recall@1", 1), ("drop_rate", 2)):
        values = [one[place] for one in SEEDS]
        assert mixed[name] == pytest.approx(mean(values))
        assert mixed[f"{name}_std"] == pytest.approx(stdev(values))
    (base,) = (
        one
        for one in records
        if one["checkpoint"] == "a|b" and one["variant"] is None and one["direction"] == "i2t"
    )
    assert (base["recall@1_low"], base["recall@1_high"], base["recall@1_std"]) == (55.0, 65.5, None)
    assert (base["rsum_both_directions"], mixed["rsum_both_directions"]) == (3 * 60.0 + 3 * 40.0, None)


@pytest.mark.parametrize(
    ("metric", "order"), [("drop_rate", ["a_b", "a|b", "zero"]), ("recall@1", ["a_b", "a|b", "zero"])]
)
def test_sorting_puts_the_best_first_and_the_undefined_last(metric: str, order: list[str]) -> None:
    for runs in (RUNS, RUNS[::-1]):
        entries = Leaderboard.of(runs, sort=metric).entries
        assert [one.checkpoint for one in entries if one.variant == "mix:0.9"] == order
        assert entries[0].variant is None  # the order of variants stays
    with pytest.raises(InputError, match="unknown metric 'droprate'; did you mean 'drop_rate'"):
        Leaderboard.of(RUNS, sort="droprate")


def test_distractors_have_a_table_of_their_own() -> None:
    more = found_run("a_b", None, "i2t", 65.0, gallery={"original": 100, "distractor": 1000})
    sections = Leaderboard.of((*RUNS, more)).sections()
    assert [one.title for one in sections if "i2t" in one.title] == [
        "i2t: 50 queries, 100 originals",
        "i2t: 50 queries, 100 originals, 1,000 distractors",
    ]


def test_every_format_says_the_same(tmp_path: Path) -> None:
    board = Leaderboard.of(RUNS, with_intervals=True)
    texts = {name: FORMATS[name].write(board) for name in FORMATS if FORMATS[name].is_text}
    assert "60.0 [55.0, 65.5]" in texts["table"].decode()
    assert "50.0 ±3.0" in texts["table"].decode()
    assert r"| \(none\) |" not in texts["markdown"].decode()
    assert r"| (none) | a\|b | 1 | - | 60.0 \[55.0, 65.5\]" in texts["markdown"].decode()
    latex = texts["latex"].decode()
    assert r"50.0 $\pm$3.0" in latex
    assert r"a\_b" in latex
    for command in ("toprule", "midrule", "bottomrule"):
        assert f"\\{command}" in latex
    assert latex.count("\\begin{") == latex.count("\\end{")
    rows = list(csv.DictReader(io.StringIO(texts["csv"].decode())))
    file = tmp_path / "x.parquet"
    file.write_bytes(FORMATS["parquet"].write(board))
    table = pq.read_table(file).to_pylist()
    assert table == board.records()
    assert [{k: "" if v is None else str(v) for k, v in one.items()} for one in table] == rows


def test_tables_of_markdown_and_latex_have_one_width() -> None:
    board = Leaderboard.of(RUNS)
    lines = FORMATS["markdown"].write(board).decode().replace("\\|", "").splitlines()
    tables = "\n".join(lines).split("###")[1:]
    for table in tables:
        assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) == 1
    for line in FORMATS["latex"].write(board).decode().splitlines():
        if line.endswith("\\\\") and not line.startswith("checkpoint"):
            assert line.count(" & ") in {1, *(len(s.headers) - 1 for s in board.sections())}


def test_names_are_never_markup() -> None:
    assert markdown_text("<b>*x*|`y`</b>\n[a](b)") == r"&lt;b&gt;\*x\*\|\`y\`&lt;/b&gt; \[a\](b)"
    assert latex_text("[x] \\input{a}_%") == r"{[}x{]} \textbackslash{}input\{a\}\_\%"


def test_the_format_follows_the_name_the_file_or_the_default() -> None:
    assert choose_format(None, None) == "table"
    assert choose_format(None, Path("x.tex")) == "latex"
    assert choose_format("csv", Path("x.tex")) == "csv"
    with pytest.raises(InputError, match=r"no format has the ending '.doc'"):
        choose_format(None, Path("x.doc"))
    with pytest.raises(InputError, match="unknown format 'latx'; did you mean 'latex'"):
        choose_format("latx", None)
    with pytest.raises(InputError, match="--format parquet: is not text; name a file"):
        choose_format("parquet", None)


def test_rules_stand_between_groups_of_several_names_only() -> None:
    rows = (("a", "1"), ("a", "2"), ("b", "3"))
    assert [Section("t", 2, ("x", "y"), rows).begins_group(n) for n in range(3)] == [False, False, True]
    assert not any(Section("t", 1, ("x", "y"), rows).begins_group(n) for n in range(3))
