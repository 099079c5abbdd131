"""Variants that choose words by embedding influence, and the encoders that they need for it.

Such a variant says so with ``by_influence`` and has a field ``influence`` (`engine.variants.caption_policy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from engine.errors import InputError
from engine.variants.influence import Influence
from engine.variants.variant import Variant

_Variant = TypeVar("_Variant", bound=Variant)


def chooses_by_influence(variant: Variant) -> bool:
    """Whether a variant needs encoders before it can be applied."""
    return bool(getattr(variant, "by_influence", False))


def bind_influence(variants: Sequence[_Variant], influence: Influence | None) -> list[_Variant]:
    """The variants, those that choose words by influence with the encoders to do it.

    Raises `InputError` when one needs encoders and there are none, or when there are and none needs them.
    """
    needy = [variant.name for variant in variants if chooses_by_influence(variant)]
    if needy and influence is None:
        raise InputError(
            f"variant {needy[0]!r} chooses words by embedding influence, and no encoder is given; name one "
            "or several with --influence MODEL[,MODEL...] (`influence: [MODEL, ...]` in a run file)"
        )
    if influence is not None and not needy:
        raise InputError(
            f"influence of {', '.join(influence.models)} is asked for, and no variant chooses words by it; "
            "leave it out, or take a variant such as same_concept:choice=low_ei"
        )
    return [
        replace(variant, influence=influence) if chooses_by_influence(variant) else variant  # type: ignore[type-var]
        for variant in variants
    ]
