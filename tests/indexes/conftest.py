"""The slow oracle of exact search: Python integers, one pair at a time; and rows to search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def halves_to_even(numerator: int, bits: int) -> int:
    """numerator / 2**bits, rounded half to even."""
    quotient, rest = divmod(numerator, 1 << bits)
    half = 1 << (bits - 1)
    return quotient + (rest > half or (rest == half and quotient % 2 == 1))


def score_by_integers(query: NDArray[Any], row: NDArray[Any]) -> float:
    """The exact score as a Python float that is a float32 value."""
    # every float32 is a multiple of 2**-149, so these are whole numbers
    pairs = (
        (int(math.ldexp(float(q), 149)), int(math.ldexp(float(x), 149)))
        for q, x in zip(query, row, strict=True)
    )
    total = sum(halves_to_even(a * b, 2 * 149 - 62) for a, b in pairs)
    spare = max(0, abs(total).bit_length() - 24)  # a float32 has 24 significant bits
    kept = halves_to_even(abs(total), spare) if spare else abs(total)
    return math.copysign(math.ldexp(kept, spare - 62), total) if total else 0.0


def search_by_integers(queries: NDArray[Any], rows: NDArray[Any], k: int) -> tuple[list[Any], list[Any]]:
    """Scores and rows of the k best of every query, as nested lists."""
    scores, numbers = [], []
    for query in queries:
        found = sorted((-score_by_integers(query, row), number) for number, row in enumerate(rows))[:k]
        scores.append([-score for score, _ in found])
        numbers.append([number for _, number in found])
    return scores, numbers


def count_by_integers(
    queries: NDArray[Any], rows: NDArray[Any], thresholds: NDArray[Any]
) -> tuple[list[int], list[int]]:
    """Rows above and tied with the threshold of every query."""
    above, tied = [], []
    for query, threshold in zip(queries, thresholds, strict=True):
        scores = [score_by_integers(query, row) for row in rows]
        above.append(sum(score > float(threshold) for score in scores))
        tied.append(sum(score == float(threshold) for score in scores))
    return above, tied


def draw_unit_rows(
    seed: int, count: int, dim: int, dtype: str = "float32", kind: str = "plain"
) -> NDArray[Any]:
    """L2-normalised rows [count, dim].

    "plain" are normal; "tied" repeats about two thirds of them; "near" adds about 1e-7 to the repeats;
    "sparse" has few nonzero components, so many scores are zero; "tiny" goes down to subnormal components.
    """
    random = np.random.default_rng([seed, count, dim])
    rows = random.standard_normal((count, dim)) + 0.2
    if kind == "sparse":
        rows = np.where(random.random((count, dim)) < 0.2, np.sign(rows), 0.0)
        rows[np.arange(count), random.integers(0, dim, count)] = 1.0
    if kind == "tiny":
        rows *= 2.0 ** -random.integers(0, 140, (count, dim)).astype(float)
        rows[np.arange(count), random.integers(0, dim, count)] = 1.0
    if kind in ("tied", "near"):
        rows = rows[random.integers(0, max(1, count // 3), count)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if kind == "near":
        rows += random.uniform(-1e-7, 1e-7, rows.shape)
    return rows.astype(dtype)


@pytest.fixture(scope="session")
def slow_score() -> Callable[..., float]:
    return score_by_integers


@pytest.fixture(scope="session")
def slow_search() -> Callable[..., tuple[list[Any], list[Any]]]:
    return search_by_integers


@pytest.fixture(scope="session")
def slow_counts() -> Callable[..., tuple[list[int], list[int]]]:
    return count_by_integers


@pytest.fixture(scope="session")
def unit_rows() -> Callable[..., NDArray[Any]]:
    return draw_unit_rows
