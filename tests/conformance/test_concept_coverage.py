"""How much of the published source words our concept groups cover, weighted by use."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import inflect
import pytest

from engine.variants.concepts import default_concepts

REQUIRED = 0.95


@pytest.mark.published
def test_the_groups_cover_the_published_source_words(published_data: Path) -> None:
    derived = json.loads(
        (published_data / "rococo" / "derived_replacements.json").read_text(encoding="utf-8")
    )
    uses = Counter(pair[0] for pairs in derived.values() for pair in pairs if pair and pair[0])
    singular = inflect.engine().singular_noun
    groups_of = default_concepts().groups_of
    missing = {
        word: count
        for word, count in uses.items()
        if not groups_of(word) and not groups_of(str(singular(word) or word))
    }
    covered = 1 - sum(missing.values()) / uses.total()
    commonest = Counter(missing).most_common(20)
    assert covered >= REQUIRED, f"{covered:.2%} of {uses.total()} uses; commonest missing: {commonest}"
