"""A control: the same corpus with its texts in another normalisation, beside the texts as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.evaluate import metrics
from engine.report.entries import Entry
from engine.report.grid import Section
from engine.report.table import NO_VARIANT, NOTHING

METRICS: Mapping[str, str] = {
    metrics.RECALL[1]: "R@1",
    metrics.DROP_RATE: "drop",
    metrics.INCORRECT_RECALL: "IR@1",
}
CHANGE = "+/-"
HOW_TO_READ = (
    "A control: the same file, checkpoint and attack; only the texts, fakes too, are normalised. Without an "
    "attack the change of R@1 is what normalisation does by itself; a drop or IR@1 that falls with it was "
    "partly won by punctuation and case."
)


@dataclass(frozen=True)
class Pair:
    """A checkpoint under a variant with the texts in two normalisations."""

    first: Entry
    second: Entry

    def values(self, metric: str) -> tuple[float | None, float | None]:
        """A metric of both."""
        return self.first.values.get(metric), self.second.values.get(metric)

    def change(self, metric: str) -> float | None:
        """Second minus first; None where one of them is undefined."""
        first, second = self.values(metric)
        return None if first is None or second is None else second - first


def pairs_of(entries: Sequence[Entry], control: Sequence[Entry]) -> tuple[Pair, ...]:
    """The entries that are in both, in the order of the first."""
    others = {place_of(one): one for one in control}
    return tuple(Pair(one, others[place_of(one)]) for one in entries if place_of(one) in others)


def place_of(entry: Entry) -> tuple[str, str, str | None, int]:
    """What entries of one checkpoint in one setting share."""
    return entry.checkpoint, entry.direction, entry.variant, entry.distractors


def normalisation_sections(pairs: Sequence[Pair]) -> list[Section]:
    """One table a direction and number of distractors."""
    tables: dict[tuple[str, int], list[Pair]] = {}
    for one in pairs:
        tables.setdefault((one.first.direction, one.first.distractors), []).append(one)
    return [section(direction, size, some) for (direction, size), some in tables.items()]


def section(direction: str, distractors: int, pairs: Sequence[Pair]) -> Section:
    """The table of a direction."""
    first, second = pairs[0].first.normalisation, pairs[0].second.normalisation
    more = f", {distractors:,} distractors" if distractors else ""
    numbers = (header for name in METRICS.values() for header in (name, CHANGE))
    return Section(
        title=f"{direction}: texts {first} -> {second}{more}",
        labels=2,
        headers=("variant", "checkpoint", *numbers),
        rows=tuple(map(row, pairs)),
        notes=(HOW_TO_READ,),
    )


def row(pair: Pair) -> tuple[str, ...]:
    """The cells of a pair."""
    cells = (cell for metric in METRICS for cell in (both_text(pair, metric), change_text(pair, metric)))
    return (NO_VARIANT if pair.first.variant is None else pair.first.variant, pair.first.checkpoint, *cells)


def both_text(pair: Pair, metric: str) -> str:
    """``31.6->29.1``."""
    values = pair.values(metric)
    if values == (None, None):
        return NOTHING
    return "->".join(NOTHING if value is None else f"{value:.1f}" for value in values)


def change_text(pair: Pair, metric: str) -> str:
    """``-2.5``."""
    change = pair.change(metric)
    return NOTHING if change is None else f"{change:+.1f}"
