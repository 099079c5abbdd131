"""What an audit says of a variant of any modality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from engine.variants.variant import Side, Variant, VariantItems


@dataclass(frozen=True)
class Audit:
    """How many items a variant has of how many originals.

    `left_out` maps reasons to originals without an item, the commonest first; `changed_rate` is the share of
    the items that differ from their originals.
    """

    name: str
    side: Side
    originals: int
    items: int
    left_out: Mapping[str, int]
    changed_rate: float


def audit_items(variant: Variant, items: VariantItems, originals: int) -> Audit:
    """The items of a variant of so many originals."""
    return Audit(
        name=variant.name,
        side=variant.side,
        originals=originals,
        items=len(items.items),
        left_out=dict(Counter(items.left_out.values()).most_common()),
        changed_rate=items.changed_rate,
    )
