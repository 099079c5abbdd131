"""One corpus file with its texts in two normalisations: compared as a control, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.metrics import RSUM_BOTH
from engine.evaluate.normalisations import collect_with_control
from engine.evaluate.results import Results, write_results
from engine.evaluate.run import evaluate_store


@pytest.fixture
def raw(world_parts: Any, make_world: Any) -> Results:
    return evaluate_store(world_parts[2](make_world()), checkpoint="one")


def changed(results: Results, **provenance: Any) -> Results:
    return results.model_copy(update={"provenance": results.provenance.model_copy(update=provenance)})


def normalised(results: Results, **provenance: Any) -> Results:
    """The same with other texts; every R@1 is 2 less, every drop rate 5."""
    runs = tuple(
        one.model_copy(
            update={
                "metrics": {
                    **one.metrics,
                    **{
                        name: (one.metrics[name] or 0.0) - less
                        for name, less in (("recall@1", 2), ("drop_rate", 5))
                        if name in one.metrics
                    },
                },
                "key": {**one.key, "corpus": "d" * 64},
            }
        )
        for one in results.runs
    )
    texts = {"normalisation": "pre_caption", "corpus_fingerprint": "d" * 64}
    return changed(results, **{**texts, **provenance}).model_copy(update={"runs": runs})


def write(folder: Path, **results: Results) -> Path:
    for name, one in results.items():
        write_results(one, folder / name / "results.json")
    return folder


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_raw_texts_come_first(raw: Results, tmp_path: Path, order: tuple[str, str]) -> None:
    write(tmp_path, **dict(zip(order, (raw, normalised(raw)), strict=True)))
    found = collect_with_control([tmp_path])
    assert [one.run for one in found.runs] == list(raw.runs)
    assert {one.provenance.normalisation for one in found.control} == {"pre_caption"}
    assert len(found.control) == len(raw.runs)


def test_one_corpus_has_no_control(raw: Results, tmp_path: Path) -> None:
    found = collect_with_control([write(tmp_path, a=raw)])
    assert (len(found.runs), found.control) == (len(raw.runs), ())


def fewer_captions(results: Results) -> Results:
    sets = tuple(
        one.model_copy(update={"rows": one.rows - (one.modality == "captions")})
        for one in results.provenance.sets
    )
    return normalised(results, sets=sets)


def other_images(results: Results) -> Results:
    sets = tuple(
        one.model_copy(update={"content_key": "f" * 64}) if one.modality == "images" else one
        for one in results.provenance.sets
    )
    return normalised(results, sets=sets)


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda one: normalised(one, corpus_name="another"), r"several corpora: toy .*another \(pre_caption"),
        (lambda one: normalised(one, normalisation="raw"), "several corpora"),
        (lambda one: normalised(one, checkpoint="two"), "several corpora"),
        (fewer_captions, "several corpora"),
        (other_images, "several corpora"),
        (lambda one: normalised(one, encoder_fingerprint="f"), "two checkpoints have the name 'one'"),
    ],
)
def test_other_corpora_are_still_an_error(
    raw: Results, tmp_path: Path, alter: Callable[[Results], Results], message: str
) -> None:
    write(tmp_path, a=raw, b=alter(raw))
    with pytest.raises(InputError, match=message) as caught:
        collect_with_control([tmp_path])
    assert "\n" not in str(caught.value)


def test_a_third_corpus_is_an_error(raw: Results, tmp_path: Path) -> None:
    third = normalised(raw, normalisation="other", corpus_fingerprint="e" * 64)
    write(tmp_path, a=raw, b=normalised(raw), c=third)
    with pytest.raises(InputError, match="several corpora"):
        collect_with_control([tmp_path])


def test_compare_shows_the_change(raw: Results, tmp_path: Path, capsys: Any) -> None:
    write(tmp_path, a=raw, b=normalised(raw))
    assert run(["compare", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    head, _, control = shown.partition("i2t: texts raw -> pre_caption")
    assert "pre_caption" not in head
    first = raw.find("swap:seed=7", "i2t")
    assert first is not None
    recall, drop = first.metrics["recall@1"], first.metrics["drop_rate"]
    assert recall is not None
    assert drop is not None
    row = next(line.split() for line in control.splitlines() if line.startswith("swap"))
    assert row[2:6] == [f"{recall:.1f}->{recall - 2:.1f}", "-2.0", f"{drop:.1f}->{drop - 5:.1f}", "-5.0"]
    assert "t2i: texts raw -> pre_caption" in control
    assert "partly won by punctuation" in control


def test_data_formats_say_the_normalisation(raw: Results, tmp_path: Path, capsys: Any) -> None:
    write(tmp_path, a=raw, b=normalised(raw))
    assert run(["compare", str(tmp_path), "--format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [one["normalisation"] for one in records] == (
        ["raw"] * len(raw.runs) + ["pre_caption"] * len(raw.runs)
    )
    assert records[0]["recall@1"] - records[len(raw.runs)]["recall@1"] == pytest.approx(2)
    assert records[len(raw.runs)][RSUM_BOTH] is not None


def test_published_figures_are_put_beside_one_corpus(raw: Results, tmp_path: Path, capsys: Any) -> None:
    write(tmp_path, a=raw, b=normalised(raw))
    assert run(["compare", str(tmp_path), "--against", "rococo", "--as", "one=ALBEF"]) == 2
    assert "several corpora" in capsys.readouterr().err
