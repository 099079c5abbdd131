"""The attribution of failures: what wins against originals, and which originals no checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.errors import InputError, naming, unknown_name
from engine.evaluate.attribution import (
    Agreement,
    Tally,
    Trials,
    agree,
    join_trials,
    lost_queries,
    overall,
    read_trials,
    tally,
    what_loses,
    what_wins,
)
from engine.evaluate.changes import DIMENSIONS, NUMERIC
from engine.evaluate.collection import FoundRun
from engine.evaluate.indexed import AnySets
from engine.evaluate.results import Direction
from engine.evaluate.sample import Values
from engine.evaluate.sets import variant_sets
from engine.progress import Progress
from engine.report.grid import Record, Section
from engine.store.reader import Store
from engine.variants.concepts import default_concepts

ORIGINAL_QUERY = "original"
AGREEMENT = "checkpoints it is lost to"
IDS_SHOWN = 5
IF_INDEPENDENT = (
    "if independent: queries expected if each checkpoint lost its share of them regardless of the others; "
    "more than that at both ends means that they agree on what is hard."
)


@dataclass(frozen=True)
class VariantAttribution:
    """One variant over all checkpoints: tallies by dimension, and the agreement where there are several.

    `won` and `lost` say in a sentence each what the tallies and the agreement count.
    """

    direction: Direction
    variant: str
    checkpoints: tuple[str, ...]
    everything: Tally
    tallies: Mapping[str, tuple[Tally, ...]]
    agreement: Agreement | None
    won: str
    lost: str


@dataclass(frozen=True)
class Attribution:
    """An `engine.report.grid.Report`; `top`: names a dimension, `originals`: records of every query."""

    variants: tuple[VariantAttribution, ...]
    top: int
    originals: bool

    @classmethod
    def of(
        cls,
        found: Sequence[FoundRun],
        store: Store,
        *,
        variants: Sequence[str],
        dimensions: Sequence[str],
        top: int,
        least: int,
        originals: bool,
        progress: Progress,
    ) -> Attribution:
        """Attribute the runs whose variants the store holds.

        `variants` and `dimensions` choose some (empty: all); labels of fewer than `least` trials are left
        out. Raises `InputError` for unknown ones, a store of another corpus, and missing outcomes.
        """
        check_store(found, store)
        for dimension in dimensions:
            if dimension not in DIMENSIONS:
                raise unknown_name("dimension", dimension, DIMENSIONS)
        groups = by_variant(found)
        for variant in variants:
            if variant not in {name for _, name in groups}:
                raise unknown_name("variant", variant, {name for _, name in groups})
        chosen = {key: runs for key, runs in groups.items() if not variants or key[1] in variants}
        held = {key: runs for key, runs in chosen.items() if key[1] in variant_sets(store, key[0])}
        for _, variant in chosen.keys() - held.keys():
            progress.note(f"passed over: {store.path} does not hold the variant {variant}")
        if not held:
            raise InputError(f"{store.path}: holds none of the variants of these results; name their store")
        with progress.task("attributing", len(held), "variants") as advance:
            parts = []
            for runs in held.values():
                parts.append(attribute(runs, store, dimensions or DIMENSIONS, least))
                advance(1)
        return cls(tuple(parts), top, originals)

    def sections(self) -> Sequence[Section]:
        """A table a variant and dimension, then the agreement."""
        return [section for one in self.variants for section in self.variant_sections(one)]

    def variant_sections(self, one: VariantAttribution) -> Iterator[Section]:
        """The tables of a variant."""
        name = f"{one.direction} {one.variant}"
        for number, (dimension, tallies) in enumerate(one.tallies.items()):
            shown = order(dimension, tallies, self.top)
            more = "" if len(shown) == len(tallies) else f", {len(shown)} of {len(tallies)}"
            rows = tuple(tally_row(each) for each in (one.everything, *shown))
            headers = (dimension, "won", "of", "images", "%", "95%")
            notes = (one.won,) if number == 0 else ()
            yield Section(f"{name}: {dimension}{more}", 1, headers, rows, notes)
        if one.agreement is not None:
            yield agreement_section(name, one.agreement, one.lost)

    def records(self) -> Sequence[Record]:
        """One record a label of a dimension; the agreement and (on request) every original as dimensions."""
        return [record for one in self.variants for record in self.variant_records(one)]

    def variant_records(self, one: VariantAttribution) -> Iterator[Record]:
        """The records of a variant."""
        place: Record = {
            "direction": one.direction,
            "variant": one.variant,
            "checkpoints": len(one.checkpoints),
        }
        for tallies in ((one.everything,), *one.tallies.values()):
            for each in tallies:
                yield {
                    **place,
                    "dimension": each.dimension,
                    "label": each.label,
                    "won": each.wins,
                    "trials": each.trials,
                    "images": each.images,
                    "percent": each.rate,
                    "low": each.low,
                    "high": each.high,
                    "expected": None,
                }
        if one.agreement is not None:
            yield from agreement_records(place, one.agreement, self.originals)


def check_store(found: Sequence[FoundRun], store: Store) -> None:
    """Raise `InputError` when the store is of another corpus than the results."""
    ours, theirs = store.header.corpus_fingerprint, found[0].provenance.corpus_fingerprint
    if ours != theirs:
        raise InputError(
            f"{store.path}: of the corpus {store.header.corpus_name!r} ({ours[:8]}), the results are of "
            f"{found[0].provenance.corpus_name!r} ({theirs[:8]}); name the store that was evaluated"
        )


def by_variant(found: Sequence[FoundRun]) -> dict[tuple[Direction, str], list[FoundRun]]:
    """The runs of all checkpoints under each variant, without distractors, in order of first appearance."""
    groups: dict[tuple[Direction, str], list[FoundRun]] = {}
    for one in found:
        if one.run.variant is not None and not one.run.gallery.get("distractor"):
            groups.setdefault((one.run.direction, one.run.variant), []).append(one)
    return groups


def attribute(
    runs: Sequence[FoundRun], store: AnySets, dimensions: Sequence[str], least: int
) -> VariantAttribution:
    """All checkpoints' runs of one variant."""
    trials: list[Trials] = []
    lost: dict[str, tuple[tuple[str, ...], Values]] = {}
    for one in runs:
        table = one.table()
        with naming(one.outcomes):
            trials.append(read_trials(store, one.run, table, default_concepts()))
        lost[one.checkpoint] = tuple(table["query_id"].to_pylist()), lost_queries(table, one.run)
    joined = join_trials(trials)
    tallies = {
        dimension: tuple(each for each in tally(joined, dimension) if each.trials >= least)
        for dimension in dimensions
    }
    first = runs[0].run
    assert first.variant is not None
    return VariantAttribution(
        first.direction,
        first.variant,
        tuple(lost),
        overall(joined),
        {name: some for name, some in tallies.items() if some},
        agree(lost) if len(lost) > 1 else None,
        what_wins(first),
        what_loses(first),
    )


def order(dimension: str, tallies: Sequence[Tally], top: int) -> list[Tally]:
    """Numbers in their order; `top` names by the lower bound of their rate, the highest first."""
    if dimension in NUMERIC:
        return sorted(tallies, key=lambda one: int(one.label))
    return sorted(tallies, key=lambda one: (-one.low, -one.trials, one.label))[:top]


def tally_row(one: Tally) -> tuple[str, ...]:
    """The cells of a tally."""
    interval = f"[{one.low:.1f}, {one.high:.1f}]"
    return one.label, f"{one.wins:,.0f}", f"{one.trials:,}", f"{one.images:,}", f"{one.rate:.1f}", interval


def agreement_section(name: str, agreement: Agreement, what_is_lost: str) -> Section:
    """How many queries are lost to 0, 1, ... checkpoints."""
    rows = tuple(
        (str(number), f"{seen:,}", f"{expected:,.0f}")
        for number, (seen, expected) in enumerate(
            zip(agreement.counts.tolist(), agreement.expected.tolist(), strict=True)
        )
    )
    count = len(agreement.checkpoints)
    always = agreement.lost_to(count)
    ids = ", ".join(always[:IDS_SHOWN]) + (", ..." if len(always) > IDS_SHOWN else "")
    notes = (
        f"{len(agreement.lost_to(0)):,} queries are lost to none of {count} checkpoints, "
        f"{len(always):,} to all{f' ({ids})' if always else ''}.",
        f"{what_is_lost} {IF_INDEPENDENT}",
    )
    return Section(f"{name}: {AGREEMENT}", 1, (AGREEMENT, "queries", "if independent"), rows, notes)


def agreement_records(place: Record, agreement: Agreement, originals: bool) -> Iterator[Record]:
    """The same as records, and every original with how many checkpoints it is lost to."""
    nothing: Record = {"images": None, "low": None, "high": None}
    count = len(agreement.query_ids)
    for number, (seen, expected) in enumerate(
        zip(agreement.counts.tolist(), agreement.expected.tolist(), strict=True)
    ):
        yield {
            **place,
            "dimension": AGREEMENT,
            "label": str(number),
            "won": float(seen),
            "trials": count,
            "percent": 100 * seen / count,
            "expected": expected,
            **nothing,
        }
    if not originals:
        return
    several = len(agreement.checkpoints)
    for query, lost in zip(agreement.query_ids, agreement.lost.tolist(), strict=True):
        yield {
            **place,
            "dimension": ORIGINAL_QUERY,
            "label": query,
            "won": float(lost),
            "trials": several,
            "percent": 100 * lost / several,
            "expected": None,
            **nothing,
        }
