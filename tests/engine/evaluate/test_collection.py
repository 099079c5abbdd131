"""What lies under results folders: found at any depth, once, and only if it can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from engine.evaluate.collection import collect_runs, seed_of, seedless
from engine.evaluate.results import Results, write_results
from engine.evaluate.run import evaluate_store


@pytest.fixture
def results(world_parts: Any, make_world: Any, tmp_path: Path) -> Results:
    folder = tmp_path / "a" / "deep"
    folder.mkdir(parents=True)
    found = evaluate_store(world_parts[2](make_world()), outcomes=folder, checkpoint="one")
    write_results(found, folder / "results.json")
    return found


def changed(results: Results, **provenance: str) -> Results:
    return results.model_copy(update={"provenance": results.provenance.model_copy(update=provenance)})


def test_runs_are_found_at_any_depth_beside_other_files(results: Results, tmp_path: Path) -> None:
    (tmp_path / "a" / "corpus.json").write_text('[{"image": "x.jpg"}]')
    hidden = tmp_path / "a" / ".x.partial"
    hidden.mkdir()
    (hidden / "results.json").write_text('{"schema_version": 9')
    found = collect_runs([tmp_path])
    assert [one.run for one in found] == list(results.runs)
    assert {one.checkpoint for one in found} == {"one"}
    assert collect_runs([tmp_path / "a" / "deep" / "results.json"]) == found
    assert found[1].sample().estimate()["recall@1"] == pytest.approx(results.runs[1].metrics["recall@1"])


def test_a_run_found_twice_counts_once_and_the_newest_speaks(results: Results, tmp_path: Path) -> None:
    write_results(changed(results, created="2999-01-01T00:00:00+00:00"), tmp_path / "b" / "again.json")
    found = collect_runs([tmp_path])
    assert len(found) == len(results.runs)
    assert {one.file.name for one in found} == {"again.json"}


def other_key(results: Results) -> Results:
    run = results.runs[0].model_copy(update={"key": {"encoder": "other"}})
    return results.model_copy(update={"runs": (run,)})


def other_ties(results: Results) -> Results:
    return results.model_copy(
        update={"runs": tuple(r.model_copy(update={"ties": "optimistic"}) for r in results.runs)}
    )


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (
            lambda r: changed(r, corpus_fingerprint="d" * 64, checkpoint="two"),
            r"several corpora: toy \(raw, cccccccc\) in .*results.json, toy \(raw, dddddddd\) in .*x.json",
        ),
        (other_ties, "several tie policies: expected in .*, optimistic in .*x.json"),
        (lambda r: changed(r, encoder_fingerprint="f"), "two checkpoints have the name 'one'"),
        (other_key, "hold different results of the run one, no variant, i2t; remove the one that"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    results: Results, tmp_path: Path, alter: Callable[[Results], Results], message: str
) -> None:
    write_results(alter(results), tmp_path / "b" / "x.json")
    with pytest.raises(InputError, match=message) as caught:
        collect_runs([tmp_path / "a", tmp_path / "b"])
    assert "\n" not in str(caught.value)


def test_two_schema_versions_are_named_with_their_files(results: Results, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps({"schema_version": 0, "runs": []}))
    with pytest.raises(InputError, match=r"several schema versions: 2 in .*results.json, 0 in .*old.json"):
        collect_runs([tmp_path])
    with pytest.raises(InputError, match=r"old.json: results of schema version 0, expected 2"):
        collect_runs([tmp_path / "old.json"])


def test_nothing_there_and_damaged_files_are_named(results: Results, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no results under .*empty; make some"):
        collect_runs([tmp_path / "empty"])
    with pytest.raises(InputError, match="nowhere is not there"):
        collect_runs([tmp_path / "nowhere"])
    file = tmp_path / "a" / "deep" / "results.json"
    file.write_text(file.read_text()[:2000])
    with pytest.raises(InputError, match=r"results.json: not JSON, or cut off"):
        collect_runs([tmp_path])
    file.write_text("")
    with pytest.raises(InputError, match=r"results.json: not JSON, or cut off"):
        collect_runs([tmp_path])


def test_outcomes_lie_beside_the_results_or_are_an_error(results: Results, tmp_path: Path) -> None:
    for name, message in (("../x.parquet", "expected the name of a file beside it"), (None, "no per-query")):
        run = results.runs[0].model_copy(update={"outcomes": name})
        write_results(results.model_copy(update={"runs": (run,)}), tmp_path / "c" / "x.json")
        (found,) = collect_runs([tmp_path / "c"])
        with pytest.raises(InputError, match=message):
            found.sample()


def test_seeds_are_taken_off_names() -> None:
    assert seedless("mix:0.9:seed=10") == "mix:0.9"
    assert seedless("a:seed=1:mode=paper") == "a:mode=paper"
    assert (seedless(None), seedless("rococo:seed")) == (None, "rococo:seed")
    assert (seed_of("mix:0.9:seed=10"), seed_of("rococo:seed"), seed_of(None)) == (10, None, None)
