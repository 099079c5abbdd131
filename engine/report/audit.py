"""The table of an audit: variants side by side, one measure a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from engine.corpus.corpus import Corpus
from engine.packages import package_versions
from engine.report.grid import Scalar, Section
from engine.variants.agreement import Agreement
from engine.variants.audit.audit import Audit
from engine.variants.audit.captions import CaptionAudit
from engine.variants.audit.images import ImageAudit
from engine.variants.audit.surface import CUES

MISSING = "-"
SIDE_BY_SIDE = 4
"""Variants in one table; more go into another below."""
REASONS_SHOWN, TARGETS_SHOWN = 3, 8

_Kind = TypeVar("_Kind", bound=Audit)


@dataclass(frozen=True)
class Measure(Generic[_Kind]):
    """One row: its label, and the cell of an audit."""

    label: str
    cell: Callable[[_Kind], str]


def count(value: int) -> str:
    """A number of items; nothing worth a look is a dash."""
    return f"{value:,}" if value else MISSING


def share(value: float | None) -> str:
    """A share in [0, 1] in percent."""
    return MISSING if value is None else f"{100 * value:.1f}%"


def of(part: int, whole: int) -> str:
    """A count with its share of a whole."""
    return f"{part:,} ({share(part / whole)})" if part and whole else count(part)


def left_out(audit: Audit) -> str:
    """Originals without an item."""
    return of(sum(audit.left_out.values()), audit.originals)


def of_any() -> tuple[Measure[_Kind], ...]:
    """The rows of every audit."""
    return (
        Measure("items", lambda audit: f"{audit.items:,}"),
        Measure("originals left out", left_out),
        Measure("changed rate", lambda audit: share(audit.changed_rate)),
    )


CHANGES: tuple[Measure[CaptionAudit], ...] = (
    *of_any(),
    Measure("no-ops (same wording)", lambda audit: count(audit.no_ops)),
    Measure("  identical to the letter", lambda audit: count(audit.identical)),
    Measure("words changed, on average", lambda audit: f"{audit.words.mean_changed:.2f}"),
    Measure("  one word", lambda audit: words_changed(audit, 1, 1)),
    Measure("  two words", lambda audit: words_changed(audit, 2, 2)),
    Measure("  three or more", lambda audit: words_changed(audit, 3, None)),
    Measure("different words replaced", lambda audit: count(audit.words.sources)),
    Measure("different words put in", lambda audit: count(audit.words.targets)),
)
REPEATS: tuple[Measure[CaptionAudit], ...] = (
    Measure("a fake of its image", lambda audit: count(audit.repeats.within_image)),
    Measure("a fake of another image", lambda audit: count(audit.repeats.across_images)),
    Measure("an original of its image", lambda audit: count(audit.repeats.of_own_image)),
    Measure("an original of another image", lambda audit: count(audit.repeats.of_other_image)),
)
IMAGES: tuple[Measure[ImageAudit], ...] = (
    *of_any(),
    Measure("no-ops (its own fake)", lambda audit: of(audit.no_ops, audit.items)),
    Measure("repeats (drawn alike)", lambda audit: count(audit.repeats)),
    Measure("different fakes", lambda audit: count(audit.fakes)),
    Measure("uses of the commonest fake", lambda audit: count(audit.most_used)),
    Measure("pixels replaced, on average", lambda audit: replaced(audit, 0)),
    Measure("  least", lambda audit: replaced(audit, 1)),
    Measure("  most", lambda audit: replaced(audit, 2)),
)


def words_changed(audit: CaptionAudit, least: int, most: int | None) -> str:
    """Share of the items in which so many words differ."""
    found = sum(
        number
        for words, number in audit.words.changed.items()
        if words >= least and (most is None or words <= most)
    )
    return share(found / audit.items) if found else MISSING


def replaced(audit: ImageAudit, number: int) -> str:
    """One of the shares of replaced pixels."""
    return MISSING if audit.replaced is None else f"{100 * audit.replaced[number]:.2f}%"


@dataclass(frozen=True)
class AuditReport:
    """The audits of variants of one corpus.

    `no_wordnet` says why meanings are missing, where they are. `agreement` is that of encoders on the noun of
    lowest influence in every caption of the corpus, where there are encoders.
    """

    corpus: Corpus
    captions: Sequence[CaptionAudit]
    images: Sequence[ImageAudit]
    no_wordnet: str | None = None
    agreement: Agreement | None = None

    def sections(self) -> Sequence[Section]:
        """For people: what changed, repeats, surface, meaning, encoders; then the images."""
        found: list[Section] = []
        for audits in blocks(self.captions):
            found += self._caption_sections(audits)
        for pictures in blocks(self.images):
            found.append(table("images", pictures, IMAGES, notes=tuple(reasons(pictures))))
        if self.agreement is not None:
            found.append(consensus(self.agreement))
        return found

    def _caption_sections(self, audits: Sequence[CaptionAudit]) -> Iterator[Section]:
        title = f"captions ({self.corpus.name}, texts {self.corpus.normalisation})"
        yield table(title, audits, CHANGES, notes=(*most_used(audits), *reasons(audits)))
        yield table("fakes that repeat, letter by letter", audits, REPEATS)
        yield surface(audits)
        if self.no_wordnet is not None:
            yield Section("meaning", 1, ("by WordNet",), ((f"not looked up: {self.no_wordnet}",),))
        else:
            yield table("meaning, by WordNet", audits, meanings(), notes=tuple(alike(audits)))
        if any(audit.agreement is not None for audit in audits):
            yield table("encoders that vote for the chosen word", audits, agreements(audits))

    def records(self) -> Sequence[Mapping[str, Scalar]]:
        """One record a variant and measure, as the tables show it."""
        return [
            {"variant": name, "section": section.title, "measure": row[0].strip(), "value": cell}
            for section in self.sections()
            for row in section.rows
            for name, cell in zip(section.headers[1:], row[1:], strict=True)
        ]


def blocks(audits: Sequence[_Kind]) -> Iterator[Sequence[_Kind]]:
    """At most `SIDE_BY_SIDE` audits at once."""
    for start in range(0, len(audits), SIDE_BY_SIDE):
        yield audits[start : start + SIDE_BY_SIDE]


def table(
    title: str, audits: Sequence[_Kind], measures: Sequence[Measure[_Kind]], notes: tuple[str, ...] = ()
) -> Section:
    """One row a measure, one column a variant."""
    rows = tuple((one.label, *(one.cell(audit) for audit in audits)) for one in measures)
    return Section(title, 1, ("", *(audit.name for audit in audits)), rows, notes)


def surface(audits: Sequence[CaptionAudit]) -> Section:
    """The cues, first of the originals, and how well they tell fakes apart."""
    rows = [
        (
            cue,
            share(audits[0].surface.shares[cue][0]),
            *(share(audit.surface.shares[cue][1]) for audit in audits),
        )
        for cue in CUES
    ]
    told = [MISSING if audit.surface.auc is None else f"{audit.surface.auc:.3f}" for audit in audits]
    return Section(
        "surface",
        1,
        ("texts with", "originals", *(audit.name for audit in audits)),
        (*rows, ("told apart by these (AUC)", "", *told)),
        ("AUC of a logistic regression on these cues, cross-validated by images; 0.5 is chance.",),
    )


def meanings() -> tuple[Measure[CaptionAudit], ...]:
    """The rows on what WordNet says of the replaced words."""
    return (
        Measure("pairs of nouns", lambda audit: count(audit.meaning.pairs) if audit.meaning else MISSING),
        Measure(
            "near-synonyms",
            lambda audit: of(audit.meaning.near_synonyms, audit.meaning.pairs) if audit.meaning else MISSING,
        ),
        Measure(
            "a wider word",
            lambda audit: of(audit.meaning.wider, audit.meaning.pairs) if audit.meaning else MISSING,
        ),
        Measure(
            "not nouns there",
            lambda audit: count(audit.meaning.unknown) if audit.meaning else MISSING,
        ),
    )


def agreements(audits: Sequence[CaptionAudit]) -> tuple[Measure[CaptionAudit], ...]:
    """The rows on how many encoders agree, up to the most that voted anywhere."""
    most = max(audit.agreement.encoders for audit in audits if audit.agreement is not None)

    def cell(number: int) -> Callable[[CaptionAudit], str]:
        def text(audit: CaptionAudit) -> str:
            found = audit.agreement
            known = found is not None and number <= found.encoders
            return share(found.shares[number - 1]) if known and found is not None else MISSING

        return text

    return tuple(Measure(f"{number} of the encoders agree", cell(number)) for number in range(1, most + 1))


def consensus(agreement: Agreement) -> Section:
    """How many encoders have one noun as that of lowest influence, caption by caption."""
    rows = tuple(
        (f"{number} of {agreement.encoders} agree", f"{found:,}", share(part))
        for number, (found, part) in enumerate(zip(agreement.counts, agreement.shares, strict=True), 1)
    )
    single = f"{agreement.single:,} of the {agreement.captions:,} captions have one noun alone"
    title = "encoders on the noun of lowest influence"
    return Section(title, 1, ("", "captions", "share"), rows, (single,))


def most_used(audits: Sequence[CaptionAudit]) -> Iterator[str]:
    """A note a variant: the words that it puts in most."""
    for audit in audits:
        if audit.words.most_used:
            words = ", ".join(f"{word} {uses:,}" for word, uses in audit.words.most_used[:TARGETS_SHOWN])
            yield f"{audit.name} puts in most: {words}"


def reasons(audits: Sequence[Audit]) -> Iterator[str]:
    """A note a variant: why originals have no item."""
    for audit in audits:
        if audit.left_out:
            found = "; ".join(
                f"{reason} {number:,}" for reason, number in list(audit.left_out.items())[:REASONS_SHOWN]
            )
            yield f"{audit.name} leaves out: {found}"


def alike(audits: Sequence[CaptionAudit]) -> Iterator[str]:
    """A note a variant: examples of words that may leave the caption true."""
    for audit in audits:
        if audit.meaning is not None and audit.meaning.examples:
            shown = ", ".join(f"{old} > {new}" for old, new in audit.meaning.examples[:TARGETS_SHOWN])
            yield f"{audit.name}: {shown}"


def as_record(report: AuditReport) -> dict[str, Any]:
    """Everything, for a JSON file."""
    return {
        "corpus": {
            "name": report.corpus.name,
            "fingerprint": report.corpus.fingerprint,
            "normalisation": report.corpus.normalisation,
        },
        "captions": [caption_record(audit) for audit in report.captions],
        "images": [asdict(audit) for audit in report.images],
        "agreement": None if report.agreement is None else agreement_record(report.agreement),
        "versions": package_versions(),
        **({} if report.no_wordnet is None else {"no_wordnet": report.no_wordnet}),
    }


def caption_record(audit: CaptionAudit) -> dict[str, Any]:
    """One audit with what is computed from it."""
    record = asdict(audit)
    record["words"]["mean_changed"] = audit.words.mean_changed
    if audit.agreement is not None:
        record["agreement"] = agreement_record(audit.agreement)
    return record


def agreement_record(agreement: Agreement) -> dict[str, Any]:
    """The counts and shares by how many encoders agree."""
    return {**asdict(agreement), "shares": list(agreement.shares)}
