"""The page: everything that results folders hold, put together and rendered into one file of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from engine.errors import InputError
from engine.evaluate import metrics
from engine.evaluate.attribution import Tally
from engine.evaluate.changes import DIMENSIONS
from engine.evaluate.collection import FoundRun, corpus_label, seedless
from engine.evaluate.results import DIRECTIONS
from engine.progress import Advance, Progress, Silent
from engine.report.attribution import VariantAttribution, attribute, by_variant, order
from engine.report.entries import Entry, entries_of
from engine.report.html.benchmark import Benchmark
from engine.report.html.controls import Controls, is_control
from engine.report.html.failures import Failure, Failures, Item, find_failures
from engine.report.html.figures import (
    Change,
    Figure,
    Value,
    before_of,
    change_of,
    figures_of,
    least_crowded,
    ordered_checkpoints,
    ordered_variants,
    value_of,
)
from engine.report.html.inline import content_policy, packed, plotting_library, script_data
from engine.report.html.sources import NO_STORE, Sources
from engine.report.html.thumbnails import Thumbnails, make_thumbnails
from engine.report.table import ASKS, NO_VARIANT
from engine.version import VERSION

TEMPLATES = "engine.report.html"
CARDS = 12  # headlines shown at once
DEFAULT_WORST = 8
NAMES_SHOWN = 10  # labels of an attribution table
LEAST_TRIALS = 5  # of a label that is attributed
LEAST_RIGHT = 30  # queries right without the attack, below which the page has no headline of what it takes
MARGIN_DIGITS = 4
TEXT_SHOWN = 600  # characters of a caption
NOTHING = "\u2013"  # a dash stands for no value

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
class Blow:
    """One direction of a headline: R@1 without a variant, and the variant with the highest drop rate.

    `caveats` are sentences on what the numbers do not show.
    """

    direction: str
    asks: str
    clean: Value | None
    variant: str | None
    after: Value | None
    drop: Value | None
    fooled: Value | None
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Headline:
    """A checkpoint and its worst."""

    checkpoint: str
    spec: str
    blows: tuple[Blow, ...]


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

    def render(self) -> bytes:
        """The file: UTF-8, the same bytes for the same page."""
        script = template_text("report.js")
        environment = Environment(
            loader=PackageLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "number": number,
            "short": short_spec,
            "interval": interval,
            "mib": mib,
            "milliseconds": milliseconds,
        }
        text = environment.get_template("report.html").render(
            page=self,
            controls=self.controls,
            policy=content_policy((script, plotting_library())),
            style=environment.get_template("report.css").render(),
            script=script,
            plotting_library=packed(plotting_library()),
            data=script_data(self.data()),
            columns=self.columns,
            no_variant=NO_VARIANT,
            cards=CARDS,
            version=VERSION,
            corpus=corpus_label(self.found[0].provenance),
        )
        return f"{text}\n".encode()

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
        """The attack that takes most of R@1 from the last checkpoint.

        None where nothing is taken, and where too few queries were right without an attack to say.
        """
        attacks = self.verdict_attacks
        return change_of(attacks[0], least_crowded(self.entries)) if attacks else None

    @property
    def verdict_caveats(self) -> tuple[str, ...]:
        """Sentences on what the verdict does not show."""
        return tuple(caveats(self.verdict_attacks))

    @property
    def verdict_attacks(self) -> list[Entry]:
        """The attacks that take from the last checkpoint and had enough to take, the worst first."""
        last = [one for one in least_crowded(self.entries) if one.checkpoint == self.checkpoints[-1]]
        return [one for one in worst_first(last) if drop_of(one) > 0 and right_before(one) >= LEAST_RIGHT]

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

    def data(self) -> Mapping[str, Any]:
        """What the script needs."""
        images = {image: number for number, image in enumerate(self.thumbnails.uris)}
        reasons = {reason: number for number, reason in enumerate(self.thumbnails.reasons)}

        def item(one: Item | None) -> Mapping[str, Any] | None:
            if one is None:
                return None
            shown: dict[str, Any] = {"id": one.id}
            if one.text is not None:
                shown["text"] = cut(one.text)
            if one.image in images:
                shown["image"] = images[one.image]
            elif one.image is not None:
                shown["missing"] = reasons[self.thumbnails.missing[one.image]]
            return shown

        def failure(one: Failure) -> Mapping[str, Any]:
            return {
                "checkpoint": self.checkpoints.index(one.checkpoint),
                "variant": self.variants.index(seedless(one.variant) or ""),
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
            "checkpoints": self.checkpoints,
            "names": [self.names[name] for name in self.checkpoints],
            "variants": self.variants,
            "figures": [asdict(one) for one in self.figures if not one.missing],
            "failures": [failure(one) for one in self.failures.shown],
            "thumbnails": list(self.thumbnails.uris.values()),
            "reasons": list(reasons),
            "benchmarks": [one.model_dump(mode="json") for one in self.benchmarks],
        }


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


def headline(checkpoint: str, entries: Sequence[Entry]) -> Headline:
    """What hurts a checkpoint most."""
    own = [one for one in least_crowded(entries) if one.checkpoint == checkpoint]
    blows = [blow(direction, own) for direction in DIRECTIONS if any(e.direction == direction for e in own)]
    spec = next(one.spec for one in entries if one.checkpoint == checkpoint)
    return Headline(checkpoint, spec, tuple(blows))


def blow(direction: Any, own: Sequence[Entry]) -> Blow:
    """The worst of a direction: by drop rate, the first of equals."""
    there = [one for one in own if one.direction == direction]
    attacked = worst_first(there)
    clean = next((value_of(one, metrics.RECALL[1]) for one in there if one.variant is None), None)
    if not attacked:
        return Blow(direction, ASKS[direction], clean, None, None, None, None)
    worst = attacked[0]
    change = change_of(worst, own)
    clean = clean if clean is not None else change.before
    return Blow(
        direction,
        ASKS[direction],
        clean,
        worst.variant,
        change.after,
        change.drop,
        change.fooled,
        tuple(caveats(attacked)),
    )


def worst_first(entries: Sequence[Entry]) -> list[Entry]:
    """Those with an attack, the highest drop rate first; equal ones keep their order."""
    attacks = (one for one in entries if one.variant is not None and not is_control(one.variant))
    return sorted(attacks, key=drop_of, reverse=True)


def caveats(attacked: Sequence[Entry]) -> Iterator[str]:
    """What the worst drop rate (the first) does not show: few queries to lose, others as bad."""
    if not attacked:
        return
    worst, *others = attacked
    right = right_before(worst)
    if right < LEAST_RIGHT:
        yield f"Right without it: {right:,.0f} of {worst.queries:,} queries, too few to say."
    rivals = [one for one in others if overlap(one, worst)]
    if rivals:
        first = rivals[0]
        name = first.variant if first.direction == worst.direction else f"{first.direction} {first.variant}"
        more = f" and {len(rivals) - 1:,} more" if len(rivals) > 1 else ""
        yield f"Not told apart from {name}{more}: the intervals of the drop rates overlap."


def overlap(one: Entry, other: Entry) -> bool:
    """Whether the intervals of the drop rates do; no where one has none."""
    first, second = (value_of(each, metrics.DROP_RATE) for each in (one, other))
    if first is None or second is None:
        return False
    (_, low, high), (_, other_low, other_high) = first, second
    if low is None or high is None or other_low is None or other_high is None:
        return False
    return low <= other_high and other_low <= high


def right_before(entry: Entry) -> float:
    """How many of its queries were right without the variant."""
    return entry.base.get(metrics.RECALL[1], 0.0) / 100 * entry.queries


def drop_of(entry: Entry) -> float:
    """The drop rate; 0 where there is nothing to lose."""
    return entry.values.get(metrics.DROP_RATE) or 0.0


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


def template_text(name: str) -> str:
    """A template as it is."""
    return (resources.files(TEMPLATES) / "templates" / name).read_text(encoding="utf-8")


def cut(text: str) -> str:
    """The text, or its beginning where it is longer than any caption."""
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}\u2026"


def short_spec(spec: str) -> str:
    """An encoder's spec without the folders of its path."""
    family, colon, path = spec.rpartition(":")
    folders, _, name = path.rpartition("/")
    return f"{family}{colon}\u2026/{name}" if colon and "/" in folders else spec


def number(value: float | None, digits: int = 1) -> str:
    """The number with so many digits after its point, a dash for none."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def interval(value: Value | None) -> str:
    """``[59.2, 62.7]``; nothing where there is none."""
    return "" if value is None or value[1] is None else f"[{value[1]:.1f}, {value[2]:.1f}]"


def mib(value: int | None) -> str:
    """Bytes as MiB."""
    return NOTHING if value is None else f"{value / 2**20:,.0f}"


def milliseconds(value: float | None) -> str:
    """Seconds as milliseconds."""
    return NOTHING if value is None else f"{1e3 * value:,.2f}"
