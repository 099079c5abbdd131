"""What every variant owes its user before it hands out items."""

from __future__ import annotations

from collections import Counter

from engine.errors import InputError
from engine.variants.variant import VariantItems


def require_change(variant: str, items: VariantItems) -> VariantItems:
    """`items` as they are; `InputError` when not one differs from its original, with the commonest reason."""
    if items.changed_rate > 0:
        return items
    if items.items:
        found = f"all {len(items.items)} items equal their originals"
    else:
        reasons = Counter(items.left_out.values()).most_common(1)
        found = "it makes no item" + (f" ({reasons[0][0]}: {reasons[0][1]} captions)" if reasons else "")
    raise InputError(
        f"variant {variant!r}: changed rate 0: {found}; expected at least one change; "
        "use another corpus or variant"
    )
