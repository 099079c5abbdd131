"""Metrics against more positives than the corpus knows: ECCV Caption's way of correcting false negatives.

A corpus says that a caption belongs to one image, yet it may fit others as well. A file of verified
positives (``{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}``, or one of the two
mappings alone) takes the place of the corpus' relevance. Definitions (Chun et al., ECCV Caption, ECCV 2022),
with R the number of a query's positives:

- R-Precision: the share of positives among the first R.
- mAP@R: the mean over queries of ``1/R sum_{i=1..R} P(i) rel(i)``, P(i) the share of positives in the first
  i.
- extended R@1: the share of queries whose first row is a positive.

Equal scores are taken in the order listed: originals before a variant's items, then by row. A variant's items
are no positives. Queries that the file does not have are left out, and counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.corpus.document import JSONFault, parse_json
from engine.errors import InputError
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.ranking import Ranker
from engine.evaluate.results import DIRECTIONS, Direction
from engine.evaluate.sample import ASKED, AVERAGE_PRECISION, FIRST_FITS, R_PRECISE, Values
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
            for listed in ranker.lists(int(sizes.max())):
                for query, rows in enumerate(listed.rows, start=listed.start):
                    fits = np.isin(rows[: sizes[query]], wanted[query])
                    if sizes[query]:
                        values[R_PRECISE][query] = fits.mean()
                        values[AVERAGE_PRECISION][query] = average_precision(fits)
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


def average_precision(fits: NDArray[np.bool_]) -> float:
    """``1/R sum_i P(i) rel(i)`` of the first R rows, bool [R]."""
    precision = np.cumsum(fits) / np.arange(1, len(fits) + 1)
    return float((precision * fits).sum() / len(fits))


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
