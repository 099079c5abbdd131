"""What every variant owes its user before it hands out items."""

from __future__ import annotations

from collections import Counter

from engine.corpus.wording import same_form
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


def contradiction(changed: bool, original: str, text: str) -> str | None:
    """Why a text cannot be a `changed` (or unchanged) item of its original; None when it can.

    Equal texts are unchanged, texts that say something else (`same_form`) are changed. Where only capitals or
    full stops moved, families differ, and either holds. White space never counts: rules of paper mode join
    tokens.
    """
    if changed and text == original:
        return "the text is that of its original"
    if not changed and wording(text) != wording(original):
        return "the text says something else than its original"
    return None


def wording(text: str) -> str:
    """The form of a text, also of one that is nothing but punctuation, without white space."""
    return same_form("".join(text.split()))
