"""What the page's script draws: figures, failures and their pictures, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.evaluate.collection import seedless
from engine.report.html.failures import Failure, Item
from engine.report.html.page import Page

MARGIN_DIGITS = 4
TEXT_SHOWN = 600  # characters of a caption


def data_of(page: Page) -> Mapping[str, Any]:
    """What the script needs."""
    images = {image: number for number, image in enumerate(page.thumbnails.uris)}
    reasons = {reason: number for number, reason in enumerate(page.thumbnails.reasons)}

    def item(one: Item | None) -> Mapping[str, Any] | None:
        if one is None:
            return None
        shown: dict[str, Any] = {"id": one.id}
        if one.text is not None:
            shown["text"] = cut(one.text)
        if one.image in images:
            shown["image"] = images[one.image]
        elif one.image is not None:
            shown["missing"] = reasons[page.thumbnails.missing[one.image]]
        return shown

    def failure(one: Failure) -> Mapping[str, Any]:
        return {
            "checkpoint": page.checkpoints.index(one.checkpoint),
            "variant": page.variants.index(seedless(one.variant) or ""),
            "name": one.variant,
            "direction": one.direction,
            "distractors": one.distractors,
            "place": one.place,
            "margin": None if one.margin is None else round(one.margin, MARGIN_DIGITS),
            "rank": one.rank,
            "before": one.base_rank,
            "kind": one.kind,
            "asked": item(one.asked),
            "original": item(one.original),
            "truth": item(one.truth),
            "winner": item(one.winner),
            "words": one.words,
        }

    return {
        "checkpoints": page.checkpoints,
        "names": [page.names[name] for name in page.checkpoints],
        "variants": page.variants,
        "figures": [asdict(one) for one in page.figures if not one.missing],
        "failures": [failure(one) for one in page.failures.shown],
        "thumbnails": list(page.thumbnails.uris.values()),
        "reasons": list(reasons),
        "benchmarks": [one.model_dump(mode="json") for one in page.benchmarks],
    }


def cut(text: str) -> str:
    """The text, or its beginning where it is longer than any caption."""
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}\u2026"
