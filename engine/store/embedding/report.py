"""What became of every set of a store while it was filled, and of the images that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InputError

NAMES_SHOWN = 10


@dataclass
class SetCount:
    """What became of the `rows` of one set.

    Before the run, `there` were complete and `left_out` skipped as unreadable. In it, `encoded` went through
    the model, `copied` have the embedding of an equal text, and `skipped` cannot be read.
    """

    rows: int
    there: int
    left_out: int
    encoded: int = 0
    copied: int = 0
    skipped: int = 0

    @property
    def pending(self) -> int:
        """Rows that still have no embedding."""
        return self.rows - self.there - self.left_out - self.encoded - self.copied - self.skipped


@dataclass(frozen=True)
class EmbedReport:
    """What a run did.

    `sets` maps ``<modality>/<name>`` to its counts, `unreadable` files to reasons. `seconds` are wall seconds
    by stage: "plan" (variants, file digests, layout), "decode" (waiting for the decoders), "encode", "write",
    "untracked" and "total". `decoder_seconds` is what all decoder threads together worked, mostly while the
    model did. `forwarded` counts what went through the model by kind ("images", "texts"), `images_per_second`
    is over the image part of the run. `damaged` maps sets to rows that had lost their checksum and were
    encoded again, `gone` are the files of the store that are missing or cut off now. `cut_texts` maps caption
    sets to texts longer than the model reads, where the encoder says so.
    """

    path: Path
    sets: Mapping[str, SetCount]
    unreadable: Mapping[str, str]
    gone: Sequence[str]
    forwarded: Mapping[str, int]
    seconds: Mapping[str, float]
    decoder_seconds: float
    images_per_second: float
    damaged: Mapping[str, int]
    cut_texts: Mapping[str, int]

    @property
    def pending(self) -> int:
        """Rows of all sets that still have no embedding."""
        return sum(count.pending for count in self.sets.values())


class UnreadableImagesError(InputError):
    """Images that could not be read; everything else is complete. `report` says what was done."""

    def __init__(self, report: EmbedReport) -> None:
        reasons = report.unreadable
        shown = "; ".join(f"{file} ({reason})" for file, reason in list(reasons.items())[:NAMES_SHOWN])
        rest = f"; and {len(reasons) - NAMES_SHOWN:,} more" if len(reasons) > NAMES_SHOWN else ""
        super().__init__(
            f"{len(reasons):,} image(s) cannot be read: {shown}{rest}; everything else is in {report.path}; "
            "put whole files there and run the same command again, or leave them out with --skip-unreadable"
        )
        self.report = report
