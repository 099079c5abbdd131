"""``mode=paper`` against RoCOCO's published captions: the same bytes for the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.variants.published_captions import replace_as_published, tokenised

REQUIRED = 0.983


def original_captions(published_data: Path) -> list[str]:
    """The captions that adversarials were made from: all but a sixth one."""
    entries = json.loads((published_data / "rococo" / "coco_karpathy_test.json").read_text(encoding="utf-8"))
    return [caption for entry in entries for caption in entry["caption"][:5]]


@pytest.mark.published
@pytest.mark.parametrize("policy", ["same_concept", "diff_concept", "rand_voca"])
def test_the_published_fakes_come_out_of_their_words(policy: str, published_data: Path) -> None:
    folder = published_data / "rococo"
    entries = json.loads((folder / f"{policy}.json").read_text(encoding="utf-8"))
    fakes = [caption for entry in entries for caption in entry["caption"][-5:]]
    words = json.loads((folder / "derived_replacements.json").read_text(encoding="utf-8"))[policy]
    originals = original_captions(published_data)
    assert len(fakes) == len(originals) == len(words) == 25_000
    known = [
        (text, pair, fake)
        for text, pair, fake in zip(originals, words, fakes, strict=True)
        if pair and all(pair)
    ]
    equal = sum(replace_as_published(text, pair[0], pair[1].lower()) == fake for text, pair, fake in known)
    assert equal / len(known) >= REQUIRED, f"{equal} of {len(known)}"


@pytest.mark.published
def test_the_tokens_are_those_of_scan(published_data: Path) -> None:
    lines = (published_data / "scan" / "coco_testall_caps.txt").read_text(encoding="utf-8").splitlines()
    equal = sum(
        tokenised(text) == line.strip()
        for text, line in zip(original_captions(published_data), lines, strict=True)
    )
    assert equal >= 24_999, f"{equal} of {len(lines)}"
