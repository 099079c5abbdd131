"""Metrics against more positives than the corpus knows: ECCV Caption's way of correcting false negatives.

A corpus says that a caption belongs to one image, yet it may fit others as well. A file of verified
positives (``{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}``, or one of the two
mappings alone) takes the place of the corpus' relevance. Definitions (Chun et al., ECCV Caption, ECCV 2022),
with R the number of a query's positives:

- R-Precision: the share of positives among the first R.
- mAP@R: the mean over queries of ``1/R sum_{i=1..R} P(i) rel(i)``, P(i) the share of positives in the first
  i.
- extended R@1: the share of queries whose first row is a positive.

Rows of equal scores are valued by the run's tie policy: as the expectation over their random order, or with
the positives among them first or last. A variant's items are no positives. Queries that the file does not
have are left out, and counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.document import JSONFault, parse_json
from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.ranking import Listed, Ranker
from engine.evaluate.results import DIRECTIONS, Direction
from engine.evaluate.sample import ASKED, AVERAGE_PRECISION, FIRST_FITS, R_PRECISE, Values
from engine.evaluate.ties import TiePolicyName
from engine.inputs import check_regular_file

LARGEST_FILE = 1 << 28
Positives = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ExtraPositives:
    """The positives of a file: query id -> ids of the gallery's originals, by direction.

    `plain` holds a file of one mapping that does not say its direction; `directed` finds it.
    """

    path: Path
    digest: str
    by_direction: Mapping[Direction, Positives]
    plain: Positives | None = None

    @property
    def source(self) -> str:
        """How results record it: the file's name and the beginning of its SHA-256."""
        return f"{self.path.name} ({self.digest[:12]})"

    def directed(self, query_ids: Mapping[Direction, Sequence[str]]) -> ExtraPositives:
        """The same with its direction known: the one whose queries' ids it has.

        Raises `InputError` when it fits both directions, or none.
        """
        if self.plain is None:
            return self
        fitting = [one for one, ids in query_ids.items() if set(ids) >= set(self.plain)]
        if len(fitting) != 1:
            fits = "both directions" if fitting else "no direction"
            raise InputError(
                f'{self.path}: fits {fits} by its query ids; say which it is of: {{"i2t": {{...}}}} or '
                '{"t2i": {...}}'
            )
        return replace(self, by_direction={fitting[0]: self.plain}, plain=None)

    def columns(self, search: DirectionSearch, variant: str | None) -> dict[str, Values]:
        """Per-query values float64 [queries] in the run's order; none where the file has none of the
        direction.

        Raises `InputError` for an id that the gallery or the queries do not have.
        """
        ranker = Ranker.of(search, variant)
        asked_ids = [search.original_ids[row] for row in ranker.queries.source.tolist()]
        positives = self.by_direction.get(search.direction)
        if positives is None:
            return {}
        self.check_queries(positives, search.original_ids, search.direction)
        wanted = self.rows_of(positives, asked_ids, ranker)
        sizes = np.array([len(rows) for rows in wanted])
        if not sizes.any():
            raise InputError(f"{self.path}: has no positives for any query of {search.direction}")
        values = {name: np.zeros(len(sizes)) for name in (ASKED, R_PRECISE, AVERAGE_PRECISION, FIRST_FITS)}
        values[ASKED][:] = sizes > 0
        with search.watched(f"{variant or 'original'} extra positives", len(sizes)) as advance:
            for listed in ranker.lists(int(sizes.max()) + 1):  # one more shows most ties across the end
                for query, places in places_of(ranker, listed, wanted):
                    fits, found = places.dealt(DEALT[search.policy.name])
                    values[R_PRECISE][query] = fits.mean()
                    values[AVERAGE_PRECISION][query] = (found / np.arange(1, len(found) + 1)).mean()
                    values[FIRST_FITS][query] = fits[0]
                advance(listed.stop - listed.start)
        return values

    def check_queries(self, positives: Positives, query_ids: Sequence[str], direction: str) -> None:
        """Raise `InputError` for an entry of a query that the store does not have."""
        unknown = sorted(set(positives) - set(query_ids))
        if unknown:
            raise InputError(
                f"{self.path}: {direction}: {len(unknown):,} of {len(positives):,} queries are not in the "
                f"store, such as {unknown[0]!r}; leave them out, or embed the corpus the file is of"
            )

    def rows_of(
        self, positives: Positives, query_ids: Sequence[str], ranker: Ranker
    ) -> list[NDArray[np.int64]]:
        """For every query the rows of the gallery's originals that fit it; none for one the file lacks."""
        row_of = {item: row for row, item in enumerate(ranker.gallery.ids)}
        rows = []
        for query in query_ids:
            ids = positives.get(query, ())
            unknown = next((one for one in ids if one not in row_of), None)
            if unknown is not None:
                raise InputError(
                    f"{self.path}: query {query!r} has the positive {unknown!r}, which is not in the "
                    "gallery; leave it out, or embed the corpus the file is of"
                )
            rows.append(np.array([row_of[one] for one in ids], dtype=np.int64))
        return rows


Dealt = Callable[[Values, Values, Values], tuple[Values, Values]]


def expected_deal(place: Values, rows: Values, positives: Values) -> tuple[Values, Values]:
    """Every order of the tied rows is as likely: each is as often at a place, the rest as often before it."""
    return positives / rows, (place - 1) * (positives - 1) / np.maximum(rows - 1, 1)


def optimistic_deal(place: Values, rows: Values, positives: Values) -> tuple[Values, Values]:
    """Tied positives are listed before other tied rows."""
    return (place <= positives).astype(np.float64), place - 1


def pessimistic_deal(place: Values, rows: Values, positives: Values) -> tuple[Values, Values]:
    """Tied positives are listed after other tied rows."""
    others = rows - positives
    return (place > others).astype(np.float64), place - others - 1


# policy -> the chance that a place among tied rows holds a positive, and how many of the tied positives are
# then before it; from the place among them (from 1), their number, and the positives among them
DEALT: Mapping[TiePolicyName, Dealt] = {
    "expected": expected_deal,
    "optimistic": optimistic_deal,
    "pessimistic": pessimistic_deal,
}


@dataclass(frozen=True)
class Places:
    """The first R places of a query's list; float64 [R].

    Of the rows that share a place's score, `before` counts those listed above them, `tied` is how many they
    are, `tied_positives` the positives among them, and `positives_above` those with a better score.
    """

    before: Values
    tied: Values
    tied_positives: Values
    positives_above: Values

    @classmethod
    def of(cls, scores: NDArray[np.float32], positives: NDArray[np.float32], tied_at_end: int) -> Places:
        """From the first R scores, in order, the positives' scores, and all rows that share the R-th."""
        before = np.searchsorted(-scores, -scores, side="left")
        tied = np.searchsorted(-scores, -scores, side="right") - before
        tied[scores == scores[-1]] = tied_at_end
        ordered = np.sort(-positives)
        above, through = (np.searchsorted(ordered, -scores, side=one) for one in ("left", "right"))
        parts = (before, tied, through - above, above)
        return cls(*(one.astype(np.float64) for one in parts))

    def dealt(self, deal: Dealt) -> tuple[Values, Values]:
        """For every place the chance that it holds a positive, and that chance times the positives through
        it: both as expectations where the order is random."""
        place = np.arange(1, len(self.before) + 1) - self.before
        fits, tied_before = deal(place, self.tied, self.tied_positives)
        return fits, fits * (self.positives_above + tied_before + 1)


def places_of(
    ranker: Ranker, listed: Listed, wanted: Sequence[NDArray[np.int64]]
) -> Iterator[tuple[int, Places]]:
    """Query and its first R places, for those of a block that have positives (`wanted`: rows, by query)."""
    rows = wanted[listed.start : listed.stop]
    sizes = np.array([len(one) for one in rows])
    query = np.repeat(np.arange(len(rows)), sizes)
    scores = np.split(ranker.pair_scores(listed, query, np.concatenate(rows)), np.cumsum(sizes)[:-1])
    ends = np.ascontiguousarray(listed.scores[np.arange(len(rows)), np.maximum(sizes - 1, 0)])
    tied = ranker.counts(listed, ends).tied
    for number in np.flatnonzero(sizes).tolist():
        first = listed.scores[number, : sizes[number]]
        yield listed.start + number, Places.of(first, scores[number], int(tied[number]))


def read_positives(path: Path) -> ExtraPositives:
    """The file of extra positives. Raises `InputError` naming file, direction and entry."""
    size = check_regular_file(path, "a JSON file of positives").st_size
    if size > LARGEST_FILE:
        raise InputError(f"{path}: {size:,} bytes, a file of positives has at most {LARGEST_FILE:,}")
    try:
        data = path.read_bytes()
        value = parse_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); expected JSON") from error
    except JSONFault as fault:
        raise InputError(f"{path}: not valid JSON: {fault}") from fault
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not isinstance(value, dict) or not value:
        raise InputError(
            f'{path}: expected {{"i2t": {{image id: [caption ids]}}, "t2i": {{...}}}}, or one of the mappings'
        )
    digest = hashlib.sha256(data).hexdigest()
    if set(value) <= set(DIRECTIONS):
        known = {one: positives_of(value[one], f"{path}: {one}") for one in DIRECTIONS if one in value}
        return ExtraPositives(path, digest, known)
    return ExtraPositives(path, digest, {}, positives_of(value, str(path)))


def positives_of(value: Any, place: str) -> Positives:
    """One mapping; ids may be texts or whole numbers. Raises `InputError`."""
    if not isinstance(value, dict):
        raise InputError(f"{place}: found {type(value).__name__}, expected a mapping of query ids to lists")
    found = {}
    for query, ids in value.items():
        if not isinstance(ids, list) or not ids:
            raise InputError(f"{place}: query {query!r}: expected a list of at least one id")
        wrong = next((one for one in ids if isinstance(one, bool) or not isinstance(one, int | str)), None)
        if wrong is not None:
            raise InputError(
                f"{place}: query {query!r}: found {wrong!r}, expected ids (texts or whole numbers)"
            )
        texts = tuple(str(one) for one in ids)
        if len(set(texts)) < len(texts):
            raise InputError(f"{place}: query {query!r}: an id stands twice in its list; keep one")
        found[query] = texts
    return found
