"""What half precision changes, as a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.evaluate.metrics import RANK_METRICS
from engine.evaluate.precision import REFERENCE, PrecisionChange
from engine.report.grid import Record, Section


@dataclass(frozen=True)
class PrecisionReport:
    """The changes of one model, with the seconds that its encoder took in each precision."""

    model: str
    changes: Sequence[PrecisionChange]
    seconds: dict[str, float]

    def sections(self) -> Sequence[Section]:
        """One table: the first item, the embeddings, then every metric with its difference."""
        headers = ("direction", "precision", "other top 1", "largest diff", "encode s", *RANK_METRICS)
        notes = (
            "other top 1: queries whose first item is not that of fp32; largest diff: of a component of an "
            "embedding; in brackets: the difference to fp32",
        )
        return (Section(self.model, 2, headers, tuple(map(self._cells, self.changes)), notes),)

    def records(self) -> Sequence[Record]:
        """One record a direction and precision."""
        return [
            {
                "model": self.model,
                "direction": one.direction,
                "precision": one.precision,
                "queries": one.queries,
                "changed_top1": one.changed,
                "largest_difference": one.largest,
                "encode_seconds": self.seconds[one.precision],
                **{name: one.metrics.get(name) for name in RANK_METRICS},
                **{f"{name}/difference": one.differences.get(name) for name in RANK_METRICS},
            }
            for one in self.changes
        ]

    def _cells(self, one: PrecisionChange) -> tuple[str, ...]:
        found = (
            ("-", "-")
            if one.precision == REFERENCE
            else (f"{one.changed:,} of {one.queries:,}", f"{one.largest:.1e}")
        )
        metrics = (_metric(one, name) for name in RANK_METRICS)
        return (one.direction, one.precision, *found, f"{self.seconds[one.precision]:.1f}", *metrics)


def _metric(one: PrecisionChange, name: str) -> str:
    if name not in one.metrics:
        return "-"
    value = f"{one.metrics[name]:.2f}"
    return value if one.precision == REFERENCE else f"{value} ({one.differences[name]:+.2f})"
