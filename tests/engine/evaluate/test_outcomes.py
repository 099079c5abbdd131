"""Per-query outcomes: they agree with the metrics, name the winners, and can stand for the base search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.outcome_files import read_outcomes, write_outcomes
from engine.evaluate.run import evaluate_store
from engine.evaluate.ties import Standing, Top, tie_policy
from engine.stopwatch import Stopwatch


@pytest.fixture
def world(make_world: Any) -> Any:
    return make_world(images=200)


@pytest.fixture
def tables(world_parts: Any, world: Any, tmp_path: Path) -> dict[tuple[str | None, str], Any]:
    results = evaluate_store(world_parts[2](world), outcomes=tmp_path)
    found = {}
    for run in results.runs:
        assert run.outcomes is not None
        found[run.variant, run.direction] = (run, read_outcomes(tmp_path / run.outcomes, run).to_pydict())
    return found


def test_metrics_can_be_computed_from_the_table_alone(tables: dict[Any, Any]) -> None:
    policy = tie_policy("expected")
    assert len(tables) == 5
    for run, table in tables.values():
        array = {name: np.array(values) for name, values in table.items()}
        standing = Standing(array["above"], array["tied"], array["tied_positives"])
        base = Standing(array["base_above"], array["base_tied"], array["base_tied_positives"])
        top = Top(array["top_genuine"], array["top_adversarial"], array["top_own_fakes"])
        recall = 100 * policy.hits(standing, 1).mean()
        assert run.metrics["recall@1"] == pytest.approx(recall)
        assert run.metrics["mean_rank"] == pytest.approx(array["rank"].mean())
        if run.variant is not None:
            before = 100 * policy.hits(base, 1).mean()
            assert run.metrics["drop_rate"] == pytest.approx(100 * (before - recall) / before)
        if run.side == "gallery":
            assert run.metrics["incorrect_recall@1"] == pytest.approx(100 * array["fooled"].mean())
            assert np.array_equal(array["fooled"], policy.fooled(top))


def test_rows_name_the_winner_and_the_best_positive(tables: dict[Any, Any], world: Any) -> None:
    run, table = tables["swap:seed=7", "i2t"]
    part = world.variants[0]
    scores = (
        world.images.astype(np.float64) @ np.concatenate([world.captions, part.vectors]).astype(np.float64).T
    )
    scores = scores.astype(np.float32)
    owner = np.array(world.image_of_caption)
    originals = len(owner)
    winners = {
        origin for origin, own in zip(table["top_origin"], table["top_is_own_fake"], strict=True) if not own
    }
    assert winners == {"original", "adversarial"}  # fakes of another image win too
    for query in range(run.queries):
        best = int(np.argmax(scores[query]))  # the lowest row among equals: originals come first
        fake = best >= originals
        assert table["query_id"][query] == table["query_image_id"][query] == f"image {query}"
        assert table["top_id"][query] == (f"swap:seed=7 {best - originals}" if fake else f"caption {best}")
        assert table["top_origin"][query] == ("adversarial" if fake else "original")
        assert table["top_image_id"][query] == f"image {owner[best % originals]}"
        assert table["top_is_own_fake"][query] == (fake and owner[best % originals] == query)
        own = np.flatnonzero(owner == query)
        positive = own[np.argmax(scores[query, own])]
        own_fake = own[np.argmax(scores[query, originals + own])]
        assert table["positive_id"][query] == f"caption {positive}"
        assert table["positive_score"][query] == pytest.approx(scores[query, positive], abs=1e-6)
        assert table["own_fake_id"][query] == f"swap:seed=7 {own_fake}"
        assert table["fake_id"][query] == f"swap:seed=7 {np.argmax(scores[query, originals:])}"


def test_a_query_variant_asks_for_the_originals_under_their_ids(tables: dict[Any, Any], world: Any) -> None:
    run, table = tables["typo:seed=3", "t2i"]
    assert (run.side, run.gallery) == ("query", {"original": len(world.images)})
    assert table["query_id"] == [f"caption {row}" for row in range(len(world.captions))]
    assert table["base_rank"] == tables[None, "t2i"][1]["rank"]
    scores = world.variants[2].vectors.astype(np.float64) @ world.images.astype(np.float64).T
    owner = np.array(world.image_of_caption)
    ranks = 1 + np.sum(scores > scores[np.arange(len(owner)), owner][:, None], axis=1)
    assert table["rank"] == ranks.tolist()
    assert "incorrect_recall@1" not in run.metrics
    assert set(table["fake_id"]) == {None}


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_a_base_from_its_outcomes_is_the_base_that_was_searched(
    world_parts: Any, make_world: Any, direction: Any, tmp_path: Path
) -> None:
    world = make_world()
    fields = (world.images, world.captions, world.image_of_caption, world.variants, [3])
    store = world_parts[2](world_parts[0](*fields))
    name = {"i2t": "swap:seed=7", "t2i": "mix:0.9:seed=1"}[direction]
    searched = DirectionSearch(store, direction)
    base, table = searched.run(None, Stopwatch())
    digest = write_outcomes(table, tmp_path / "base.parquet", base)
    base = base.model_copy(update={"outcomes_sha256": digest})
    adopting = DirectionSearch(store, direction)
    adopting.adopt(read_outcomes(tmp_path / "base.parquet", base))
    run, outcomes = searched.run(name, Stopwatch())
    again, same = adopting.run(name, Stopwatch())
    assert (again, same) == (run, outcomes)
    assert run.left_out["queries_skipped"] == (1 if direction == "i2t" else 0)
    assert run.left_out["queries_without_positive"] == (0 if direction == "i2t" else 2)


def test_outcomes_of_other_queries_are_refused(world_parts: Any, make_world: Any) -> None:
    _, table = DirectionSearch(world_parts[2](make_world()), "i2t").run(None, Stopwatch())
    other = DirectionSearch(world_parts[2](make_world(images=7)), "i2t")
    with pytest.raises(InputError, match="of other queries"):
        other.adopt(table)
    ids = pa.array([None] * table.num_rows, type=pa.string())
    strange = table.set_column(table.schema.get_field_index("top_id"), "top_id", ids)
    with pytest.raises(InputError, match="the gallery does not hold"):
        DirectionSearch(world_parts[2](make_world()), "i2t").adopt(strange)
