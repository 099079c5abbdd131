"""The measurement of query perturbations makes them, and the rerun finds what the first run tagged."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import query_perturbations
from bench.query_perturbations import PERTURBATIONS, SYNONYMS, measure, possible
from engine.corpus.read import DEFAULT_SPLIT
from engine.variants.cache import CACHE_VARIABLE
from engine.variants.registry import variant_families
from engine.variants.tagging import CACHE_FILE


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "captions.json"
    file.write_text(json.dumps([{"image": "a.jpg", "caption": ["a red dog on a mat", "two large cats"]}]))
    return file


def test_the_thirteen_are_those_of_the_paper() -> None:
    assert len(set(PERTURBATIONS)) == 13
    assert set(PERTURBATIONS) <= set(variant_families())


def test_without_wordnet_no_synonyms_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_perturbations, "find_wordnet", lambda: None)
    assert set(PERTURBATIONS) - set(possible()) == set(SYNONYMS)


def test_the_rerun_has_the_cache_of_the_first_run(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    run = query_perturbations.timed
    tagged_before, files = [], []

    def watched(command: Sequence[str | Path]) -> tuple[float, int]:
        tagged_before.append((Path(os.environ[CACHE_VARIABLE]) / CACHE_FILE).exists())
        measured = run(command)
        files.append(sorted(file.name for file in Path(command[-1]).iterdir()))
        return measured

    monkeypatch.setattr(query_perturbations, "timed", watched)
    row = measure(corpus, DEFAULT_SPLIT, ["shuffle_nouns_and_adj", "distraction_true"], repeat=1)
    assert tagged_before == [False, True]
    assert files == [["distraction_true.jsonl", "shuffle_nouns_and_adj,seed=0.jsonl"]] * 2
    assert (row.captions, len(row.perturbations)) == (2, 2)
    assert min(row.first_seconds, row.rerun_seconds, row.peak_rss_bytes) > 0
    assert os.environ[CACHE_VARIABLE] == str(tmp_path)


def test_a_corpus_that_is_none_stops_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"missing\.json"):
        measure(tmp_path / "missing.json", DEFAULT_SPLIT, ["distraction_true"], repeat=1)
