"""The control without queries: by its definition, one query after the other."""

from __future__ import annotations

from math import fsum, sqrt
from typing import Any

import numpy as np
import pytest

from engine.evaluate.bootstrap import Resampling
from engine.evaluate.run import evaluate_store

METRIC = "incorrect_without_query"


def score(query: Any, row: Any) -> np.float32:
    return np.float32(fsum(float(a) * float(b) for a, b in zip(query, row, strict=True)))


def by_definition(
    queries: Any, images: list[int], gallery: Any, owner: list[int], fakes: Any, of: list[int]
) -> float:
    total = [fsum(float(one[c]) for one in queries) for c in range(queries.shape[1])]
    length = sqrt(fsum(value * value for value in total))
    mean = np.array([value / length for value in total], dtype=np.float32)
    wins = []
    for image in images:
        own = [score(mean, row) for row, one in zip(fakes, of, strict=True) if one == image]
        right = max(score(mean, row) for row, one in zip(gallery, owner, strict=True) if one == image)
        if own:
            wins.append((max(own) > right) + 0.5 * (max(own) == right))
    return float(100 * np.mean(wins))


@pytest.mark.parametrize("seed", range(4))
def test_the_share_is_that_of_the_definition(make_world: Any, world_parts: Any, seed: int) -> None:
    world = make_world(images=9, seed=seed)
    _, variant_type, store_type = world_parts
    some = [3, 4, 5, 8, 0]  # some images have no fake, some captions two
    fakes = world.captions[[2, 4, 6, 9, 1]]
    world.variants.append(variant_type("few", "captions", some, fakes, [True] * len(some)))
    results = evaluate_store(store_type(world), resampling=Resampling(50, 0))
    runs = {run.variant: run for run in results.runs}
    captions, images, owner = world.captions, world.images, list(world.image_of_caption)
    assert runs["few"].metrics[METRIC] == pytest.approx(
        by_definition(images, list(range(9)), captions, owner, fakes, [owner[row] for row in some])
    )
    swap, mix = world.variants[0], world.variants[1]
    assert runs[swap.name].metrics[METRIC] == pytest.approx(
        by_definition(images, list(range(9)), captions, owner, swap.vectors, owner)
    )
    assert runs[mix.name].metrics[METRIC] == pytest.approx(
        by_definition(captions, owner, images, list(range(9)), mix.vectors, list(range(9)))
    )
    assert METRIC in runs[swap.name].intervals
    assert all(METRIC not in run.metrics for run in results.runs if run.side != "gallery")


def test_queries_whose_mean_has_no_direction_have_no_control(make_world: Any, world_parts: Any) -> None:
    world = make_world(images=2)
    world.images[1] = -world.images[0]
    results = evaluate_store(world_parts[2](world), directions=["i2t"])
    assert all(METRIC not in run.metrics for run in results.runs)
