"""The controls of a page: what fakes win that say nothing, beside what the attacks take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.evaluate import metrics
from engine.report.entries import Entry
from engine.report.html.figures import least_crowded
from engine.report.normalisation import Pair, pairs_of

REENCODED = "reencode"
IMAGE_ATTACKS = ("mix", "patch")


@dataclass(frozen=True)
class AttackControl:
    """Of one attack on the gallery, over all checkpoints: the least and the most, in percent.

    `unchanged` are items that do not differ from their originals (None: not recorded), `blind` queries whose
    own fake beats their own originals without the query (None: not evaluated).
    """

    direction: str
    variant: str
    unchanged: tuple[float, float] | None
    blind: tuple[float, float] | None


@dataclass(frozen=True)
class Controls:
    """`pairs` are the texts in two normalisations, `normalisation` that of all other results on the page,
    `reencoded` the runs of re-encoded originals, `misses_reencoded` whether image attacks stand without."""

    pairs: tuple[Pair, ...]
    normalisation: str
    reencoded: tuple[Entry, ...]
    misses_reencoded: bool
    attacks: tuple[AttackControl, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry], control: Sequence[Entry]) -> Controls:
        """Of a page's entries, and those of the same corpus in another normalisation."""
        quiet = least_crowded(entries)
        reencoded = tuple(one for one in quiet if is_control(one.variant))
        families = {(one.variant or "").partition(":")[0] for one in quiet}
        return cls(
            pairs=pairs_of(quiet, control),
            normalisation=entries[0].normalisation,
            reencoded=reencoded,
            misses_reencoded=not reencoded and bool(families & set(IMAGE_ATTACKS)),
            attacks=attack_controls(quiet),
        )


def is_control(variant: str | None) -> bool:
    """Whether a variant is no attack: its items are the originals themselves."""
    return (variant or "").partition(":")[0] == REENCODED


def attack_controls(entries: Sequence[Entry]) -> tuple[AttackControl, ...]:
    """One an attack on the gallery, in the order of the entries."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for one in entries:
        if one.variant is not None and metrics.INCORRECT_RECALL in one.values and not is_control(one.variant):
            groups.setdefault((one.direction, one.variant), []).append(one)
    return tuple(
        AttackControl(direction, variant, unchanged_of(some), extent_of(some, metrics.FOOLED_BLIND))
        for (direction, variant), some in groups.items()
    )


def unchanged_of(entries: Sequence[Entry]) -> tuple[float, float] | None:
    """The least and the most share of items that do not differ from their originals, in percent."""
    changed = extent_of(entries, metrics.CHANGED_RATE)
    return None if changed is None else (100.0 - changed[1], 100.0 - changed[0])


def extent_of(entries: Sequence[Entry], metric: str) -> tuple[float, float] | None:
    """The lowest and the highest value of a metric; None where no entry has one."""
    values = [value for one in entries if (value := one.values.get(metric)) is not None]
    return (min(values), max(values)) if values else None
