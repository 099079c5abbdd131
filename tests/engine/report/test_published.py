"""The papers' figures: all there, the known errors marked, and own values in the right places."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from engine.report.entries import Entry
from engine.report.published import SideBySide, published_figures, size_of

B32 = "CLIP ViT-B/32 (zero-shot)"


def entry(checkpoint: str, variant: str | None, direction: Any, spec: str = "x:y", **values: float) -> Entry:
    named = {name.replace("_at_", "@"): value for name, value in values.items()}
    return Entry(checkpoint, spec, direction, variant, (), 1, 5, 9, 0, "raw", named, {}, {}, {})


def sized(one: Entry, queries: int, originals: int, distractors: int = 0) -> Entry:
    return replace(one, queries=queries, originals=originals, distractors=distractors)


def test_known_errors_are_what_the_invariants_find_and_more() -> None:
    values: dict[tuple[str, str, str], dict[str, Any]] = {}
    for figure in published_figures("rococo"):
        values.setdefault((figure.table, figure.model, figure.setting), {})[figure.metric] = figure
    bad = set()
    for (table, model, setting), found in values.items():
        if setting == "original":
            continue
        base = values[table, model, "original"]["recall@1"].value
        new, drop, wrong = (found[n].value for n in ("recall@1", "drop_rate", "incorrect_recall@1"))
        if abs(100 * (base - new) / base - drop) > 0.06 or base - new > wrong + 0.02 or new + wrong > 100:
            bad.add((table, model, setting))
            assert any(one.doubt for one in found.values()), (table, model, setting)
    assert {(table, model) for table, model, _ in bad} == {
        ("RoCOCO Table 3", "BLIP ViT-B"),
        ("RoCOCO Table 4", "ALBEF"),
    }
    doubtful = {key for key, found in values.items() if any(one.doubt for one in found.values())}
    assert len(doubtful) == 10


def test_brittleness_errors_are_marked() -> None:
    marked = {(f.table, f.dataset, f.model, f.setting) for f in published_figures("brittleness") if f.doubt}
    assert ("Brittleness Table 3", "MS-COCO", "CLIP", "Typos") in marked
    assert ("Brittleness Table 3", "MS-COCO", "CLIP", "No perturbation") not in marked
    assert ("Brittleness Table 3", "Flickr30k-FG", "ALIGN", "No perturbation") in marked
    assert ("Brittleness Table 3", "Flickr30k-FG", "CLIP", "Typos") not in marked
    t2i = [
        f
        for f in published_figures("brittleness")
        if f.table == "Brittleness Table 2" and f.direction == "t2i"
    ]
    assert len(t2i) == 16 * 5
    assert not any(figure.doubt for figure in t2i)


def test_the_i2t_columns_of_brittleness_are_read_as_what_they_are() -> None:
    found = {
        f.metric: f.value
        for f in published_figures("brittleness")
        if (f.dataset, f.model, f.direction, f.setting) == ("Flickr30k", "CLIP", "i2t", "No perturbation")
    }
    assert (found["recall@1"], found["set_recall@5"], found["set_recall@10"]) == (79.30, 58.06, 72.54)
    assert found["set_rsum"] == pytest.approx(79.30 + 58.06 + 72.54)


@pytest.mark.published
def test_the_package_holds_the_tables_as_they_are_at_hand(published_data: Path) -> None:
    package = Path(__file__).parents[3] / "engine" / "report" / "published"
    files = sorted((published_data / "published").glob("*.csv"))
    assert len(files) == 8
    for file in files:
        ours, theirs = ((f / file.name).read_text() for f in (package, file.parent))
        assert list(csv.reader(ours.splitlines())) == list(csv.reader(theirs.splitlines()))


def test_own_values_stand_beside_the_printed_ones() -> None:
    spec = "open_clip:ViT-B-32:openai"
    entries = [
        entry("mine", None, "i2t", spec, recall_at_1=50.0),
        entry("mine", "rococo:same_concept_x", "i2t", spec, recall_at_1=36.0, drop_rate=28.0),
        entry("mine", "same_concept", "i2t", spec, recall_at_1=31.0, drop_rate=38.0),
        entry("mine", "mix:0.9", "t2i", spec, recall_at_1=21.0),
        entry("unknown", None, "i2t", recall_at_1=1.0),
    ]
    side = SideBySide.of(entries, "rococo", {})
    lines = {(one.figure.setting, one.variant, one.figure.metric): one for one in side.lines}
    assert lines["original", "", "recall@1"].difference == pytest.approx(50.0 - 50.1)
    assert lines["same_concept", "rococo:same_concept_x", "drop_rate"].difference == pytest.approx(
        28.0 - 28.6
    )
    assert lines["same_concept", "same_concept", "recall@1"].own == 31.0
    assert lines["same_concept", "same_concept", "incorrect_recall@1"].own is None
    assert lines["mix_0.9", "mix:0.9", "recall@1"].difference == pytest.approx(21.0 - 20.29)
    assert {one.checkpoint for one in side.lines} == {"mine"}
    assert [(one.title[:14], len(one.rows)) for one in side.sections()] == [
        ("RoCOCO Table 1", 3),
        ("RoCOCO Table 2", 1),
    ]
    assert len(side.records()) == len(side.lines)


def test_a_setting_of_several_perturbations_is_the_mean_of_all_in_one_mode() -> None:
    names = ("char_swap", "missing_char", "extra_char", "nearby_char")
    typos = [entry("CLIP", f"{name}:mode=paper", "t2i", rsum=float(n)) for n, name in enumerate(names)]
    side = SideBySide.of(typos, "brittleness", {}, "Flickr30k")
    (line,) = side.lines
    assert (line.figure.setting, line.own, line.figure.value) == ("Typos", 1.5, 87.99)
    with pytest.raises(InputError, match="no run has a setting of brittleness"):
        SideBySide.of(typos[:3], "brittleness", {}, "Flickr30k")
    mixed = [*typos[:3], entry("CLIP", "nearby_char", "t2i", rsum=9.0)]
    with pytest.raises(InputError, match="no run has a setting"):
        SideBySide.of(mixed, "brittleness", {}, "Flickr30k")


def test_a_run_among_as_many_images_as_the_papers_is_taken_and_any_other_is_marked() -> None:
    small, middle, full = (
        sized(entry("CLIP", None, "t2i", rsum=value), 25010, 5000, more)
        for value, more in ((120.0, 0), (100.0, 10_000), (90.0, 35_504))
    )
    side = SideBySide.of([small, middle, full], "brittleness", {}, "MS-COCO")
    assert {(line.own, line.unlike) for line in side.lines if line.figure.metric == "rsum"} == {(90.0, ())}
    assert not any("‡" in note for one in side.sections() for note in one.notes)
    side = SideBySide.of([small, middle], "brittleness", {}, "MS-COCO")
    (line,) = (one for one in side.lines if one.figure.metric == "rsum")
    assert (line.own, line.unlike) == (120.0, ("gallery 5,000, the paper's 40,504",))
    (section,) = side.sections()
    assert any(cell == "120.00‡" for row in section.rows for cell in row)
    assert "‡ CLIP No perturbation: gallery 5,000, the paper's 40,504" in section.notes
    assert side.records()[0]["unlike_the_paper"] == "gallery 5,000, the paper's 40,504"


def test_other_queries_and_default_mode_are_marked() -> None:
    entries = [
        sized(entry("mine", None, "i2t", recall_at_1=50.0), 1000, 5000),
        sized(entry("mine", "same_concept:mode=paper", "i2t", recall_at_1=31.0), 5000, 25010),
        sized(entry("mine", "diff_concept", "i2t", recall_at_1=32.0), 5000, 25010),
        sized(entry("mine", "rococo:rand_x", "i2t", recall_at_1=33.0), 5000, 25010),
        sized(entry("mine", "delete_random", "i2t", recall_at_1=34.0), 5000, 25010),
    ]
    side = SideBySide.of(entries, "rococo", {"mine": B32})
    unlike = {line.variant: line.unlike for line in side.lines if line.figure.metric == "recall@1"}
    assert unlike[""] == ("gallery 5,000, the paper's 25,010", "queries 1,000, the paper's 5,000")
    assert unlike["diff_concept"] == ("made in default mode, the paper's is mode=paper",)
    assert unlike["same_concept:mode=paper"] == unlike["rococo:rand_x"] == ()
    assert unlike.get("delete_random", ()) == ()


def test_every_figure_has_a_size() -> None:
    for source in ("rococo", "brittleness"):
        for figure in published_figures(source):
            assert size_of(source, figure.dataset, figure.direction).gallery


def test_a_model_is_named_by_a_beginning_that_only_it_has() -> None:
    own = [entry("mine", None, "i2t", recall_at_1=50.0)]
    for name, model in (("clip vit-b/32", B32), ("Saf", "SAF"), ("BLIP ViT-B", "BLIP ViT-B")):
        lines = SideBySide.of(own, "rococo", {"mine": name}).lines
        assert {line.figure.model for line in lines} == {model}


def test_what_cannot_be_matched_is_said() -> None:
    own = [entry("mine", None, "i2t", recall_at_1=50.0)]
    for arguments, message in (
        (("rococo", {}), "none of the checkpoints mine is known as a model of rococo.*--as"),
        (("rococo", {"yours": B32}), "unknown checkpoint 'yours'"),
        (("rococo", {"mine": "CLIP ViT-B"}), "unknown model of rococo 'CLIP ViT-B'; did you mean"),
        (("rococo", {"mine": ""}), "unknown model of rococo ''"),
        (("rococo", {"mine": B32}, "MS-COCO"), "a single data set"),
        (("rococoo", {}), "unknown published source 'rococoo'; did you mean 'rococo'"),
        (
            ("brittleness", {"mine": "CLIP"}),
            "several data sets; name yours with --dataset: MS-COCO, MS-COCO-FG",
        ),
        (("brittleness", {"mine": "CLIP"}, "COCO"), "unknown data set 'COCO'"),
    ):
        with pytest.raises(InputError, match=message):
            SideBySide.of(own, *arguments)  # type: ignore[arg-type]
