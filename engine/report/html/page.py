"""The page: everything that results folders hold, put together for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.evaluate import metrics
from engine.evaluate.attribution import Tally
from engine.evaluate.changes import DIMENSIONS
from engine.evaluate.collection import FoundRun
from engine.progress import Advance, Progress, Silent
from engine.report.attribution import VariantAttribution, attribute, by_variant, order
from engine.report.entries import Entry, entries_of
from engine.report.html.benchmark import Benchmark
from engine.report.html.controls import Controls, is_control
from engine.report.html.failures import Failures, find_failures
from engine.report.html.figures import (
    Change,
    Figure,
    Value,
    before_of,
    figures_of,
    least_crowded,
    ordered_checkpoints,
    ordered_variants,
    value_of,
)
from engine.report.html.headlines import Headline, headline, verdict
from engine.report.html.sources import NO_STORE, Sources
from engine.report.html.thumbnails import Thumbnails, make_thumbnails

DEFAULT_WORST = 8
NAMES_SHOWN = 10  # labels of an attribution table
LEAST_TRIALS = 5  # of a label that is attributed

COLUMNS: Mapping[str, str] = {
    metrics.RECALL[1]: "R@1 after",
    metrics.DROP_RATE: "drop rate",
    metrics.INCORRECT_RECALL: "IR@1",
    metrics.INCORRECT_RECALL_OWN: "IR@1, own",
    metrics.INCORRECT_RECALL_OTHER: "IR@1, other",
    metrics.RECALL[5]: "R@5",
    metrics.RECALL[10]: "R@10",
    metrics.MEDIAN_RANK: "median rank",
    metrics.QUERIES_DOWN: "queries down",
    metrics.QUERIES_UP: "queries up",
    metrics.FOOLED_BLIND: "fake first, no query",
    metrics.SET_RECALL[1]: "set R@1",
    metrics.DCG: "DCG@10",
    metrics.MAP_AT_R: "mAP@R",
    metrics.R_PRECISION: "R-Precision",
    metrics.CHANGED_RATE: "changed",
    metrics.TIED_QUERIES: "ties",
}


@dataclass(frozen=True)
class Row:
    """A line of the table of all results; `cells` by metric, None where it is not there or undefined."""

    entry: Entry
    before: Value | None
    cells: Mapping[str, Value | None]


@dataclass(frozen=True)
class Page:
    """What the page shows; `missing` are lines on what it cannot."""

    found: tuple[FoundRun, ...]
    entries: tuple[Entry, ...]
    figures: tuple[Figure, ...]
    attributions: tuple[VariantAttribution, ...]
    failures: Failures
    thumbnails: Thumbnails
    controls: Controls
    benchmarks: tuple[Benchmark, ...]
    missing: tuple[str, ...]
    worst: int

    @classmethod
    def of(
        cls,
        found: Sequence[FoundRun],
        sources: Sources,
        *,
        control: Sequence[FoundRun] = (),
        benchmarks: Sequence[Benchmark] = (),
        worst: int = DEFAULT_WORST,
        progress: Progress | None = None,
    ) -> Page:
        """Gather a page from runs (one corpus, one tie policy) and what lies beside them.

        `control` are the runs of the same corpus in another normalisation of its texts, `worst` is how many
        lost queries of every run are shown.
        """
        progress = progress or Silent()
        entries = entries_of(found)
        with progress.task("attributing", len(by_variant(found)), "variants") as advance:
            attributions, unattributed = attribute_all(found, sources, advance)
        sizes = {(one.direction, one.distractors) for one in least_crowded(entries)}
        quiet = [one for one in found if (one.run.direction, one.run.distractors) in sizes]
        failures = find_failures(quiet, sources, worst)
        return cls(
            found=tuple(found),
            entries=entries,
            figures=figures_of(entries),
            attributions=attributions,
            failures=failures,
            thumbnails=make_thumbnails(failures.shown, sources, progress),
            controls=Controls.of(entries, entries_of(control)),
            benchmarks=tuple(benchmarks),
            missing=tuple(dict.fromkeys((*sources.missing, *failures.missing, *unattributed))),
            worst=worst,
        )

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The names of the checkpoints in natural order."""
        return ordered_checkpoints(self.entries)

    @property
    def names(self) -> Mapping[str, str]:
        """Checkpoint -> how the page calls it: without folders of a path, where that tells them apart."""
        short = {name: short_spec(name) for name in self.checkpoints}
        return short if len(set(short.values())) == len(short) else {name: name for name in short}

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the variants without their seeds."""
        return ordered_variants(self.entries)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Those of the variants that are no controls."""
        return tuple(name for name in self.variants if not is_control(name))

    @property
    def newest(self) -> str:
        """When the newest of the results was made: ISO 8601, UTC."""
        return max(one.provenance.created for one in self.found)

    @property
    def figure(self) -> Mapping[str, Figure]:
        """The figures by key."""
        return {one.key: one for one in self.figures}

    @property
    def has_distractors(self) -> bool:
        """Whether any gallery holds some."""
        return any(one.distractors for one in self.entries)

    @property
    def has_seeds(self) -> bool:
        """Whether anything is a mean over seeds."""
        return any(one.runs > 1 for one in self.entries)

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """One a checkpoint."""
        return tuple(headline(name, self.entries) for name in self.checkpoints)

    @property
    def verdict(self) -> Change | None:
        """The attack that takes most of R@1 from the last checkpoint."""
        return verdict(self.checkpoints[-1], self.entries)[0]

    @property
    def verdict_caveats(self) -> tuple[str, ...]:
        """Sentences on what the verdict does not show."""
        return verdict(self.checkpoints[-1], self.entries)[1]

    @property
    def columns(self) -> Mapping[str, str]:
        """Metric -> heading, of those that any result has."""
        return {
            name: heading
            for name, heading in COLUMNS.items()
            if any(one.values.get(name) is not None for one in self.entries)
        }

    @property
    def rows(self) -> tuple[Row, ...]:
        """The table of all results."""
        return tuple(
            Row(one, before_of(one, self.entries), {name: value_of(one, name) for name in self.columns})
            for one in self.entries
        )

    @property
    def sizes(self) -> Mapping[str, str]:
        """Direction -> how many queries asked, in which galleries."""
        found: dict[str, set[tuple[int, int]]] = {}
        for one in self.entries:
            found.setdefault(one.direction, set()).add((one.queries, one.originals))
        return {
            direction: "; ".join(
                f"{queries:,} queries, {rows:,} originals" for queries, rows in sorted(sizes)
            )
            for direction, sizes in found.items()
        }

    @property
    def bootstraps(self) -> tuple[str, ...]:
        """How the intervals were drawn, a line each."""
        made = {
            f"{one.resamples:,} resamples of {one.images:,} images, seed {one.seed}"
            for one in (found.run.bootstrap for found in self.found)
            if one is not None
        }
        return tuple(sorted(made))

    @property
    def has_all_intervals(self) -> bool:
        """Whether every run has intervals."""
        return all(one.run.intervals for one in self.found)

    @property
    def origins(self) -> tuple[Mapping[str, str], ...]:
        """Where the results of every checkpoint come from."""
        return tuple(origin_of(name, self.found) for name in self.checkpoints)

    @property
    def versions(self) -> Mapping[str, str]:
        """Package -> the versions that took part."""
        found: dict[str, set[str]] = {}
        for one in self.found:
            for name, version in one.provenance.versions.items():
                found.setdefault(name, set()).add(version)
        return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

    @property
    def tables(self) -> tuple[Mapping[str, Any], ...]:
        """The attribution of every variant: its tables, the names ranked by the lower bound of their rate."""
        return tuple(
            {
                "variant": one.variant,
                "direction": one.direction,
                "everything": one.everything,
                "checkpoints": one.checkpoints,
                "dimensions": [dimension(name, tallies) for name, tallies in one.tallies.items()],
                "agreement": one.agreement,
                "won": one.won,
                "lost": one.lost,
            }
            for one in self.attributions
        )


def attribute_all(
    found: Sequence[FoundRun], sources: Sources, advance: Advance
) -> tuple[tuple[VariantAttribution, ...], list[str]]:
    """The attribution of every variant, and why some have none."""
    parts: list[VariantAttribution] = []
    missing: list[str] = []
    for (direction, variant), runs in by_variant(found).items():
        store = sources.store_of(runs[0])
        if store is None and sources.stores:
            missing.append(f"What fools under {variant}, {direction}: {NO_STORE}")
        elif store is not None:
            try:
                parts.append(attribute(runs, store, DIMENSIONS, LEAST_TRIALS))
            except InputError as error:
                missing.append(f"What fools under {variant}, {direction}: {error}")
        advance(1)
    return tuple(parts), missing


def dimension(name: str, tallies: Sequence[Tally]) -> Mapping[str, Any]:
    """A table of an attribution; `scale` is the percentage at which its bars end."""
    rows = order(name, tallies, NAMES_SHOWN)
    return {"name": name, "rows": rows, "all": len(tallies), "scale": max(row.high for row in rows) or 100.0}


def origin_of(checkpoint: str, found: Sequence[FoundRun]) -> Mapping[str, str]:
    """Where the results of a checkpoint come from, for people."""
    own = [one for one in found if one.checkpoint == checkpoint]
    last = max((one.provenance for one in own), key=lambda provenance: provenance.created)
    return {
        "checkpoint": checkpoint,
        "encoder": last.encoder_spec,
        "fingerprint": last.encoder_fingerprint[:12],
        "searched by": f"{last.backend}, {last.search_device}",
        "made": last.created,
        "command": " ".join(last.command),
        "runs": f"{len(own):,}",
    }


def short_spec(spec: str) -> str:
    """An encoder's spec without the folders of its path."""
    family, colon, path = spec.rpartition(":")
    folders, _, name = path.rpartition("/")
    return f"{family}{colon}\u2026/{name}" if colon and "/" in folders else spec
