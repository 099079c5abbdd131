"""Per-query outcomes of a run as a Parquet table: what intervals, attribution and failures are read from.

One row a query. Ids are those of the store's sets; ids of images and of captions are two name spaces, told
apart by the direction and the column. Columns that a run does not have (no variant, no fake of the own image)
are null.

===========================================  ================================================================
columns                                      meaning
===========================================  ================================================================
direction, variant                           of the run; variant is null without one
query_id, query_row                          the original that asks: its id and its row in the store
query_image_id                               the image of the query: the cluster of a bootstrap
above, tied, tied_positives                  where the best positive stands (`Standing` in `ties`)
rank                                         of the best positive, under the run's tie policy
base_above, base_tied, base_tied_positives,  the same for the query's original form, without the
base_rank                                    variant's items
positive_id, positive_score                  the best positive (lowest row of equals), its exact score;
                                             -inf where a reranker scored none of them
top_id, top_score                            the first row listed (originals first among equals), its score
top_origin, top_image_id                     "original", "adversarial" or "distractor"; the image it belongs
                                             to, null for a distractor (its id is set:row)
top_is_own_fake                              whether it is a fake made from the query's image
top_genuine, top_adversarial, top_own_fakes  rows that share the top score; distractors are genuine, own
                                             fakes are adversarial too
fooled, fooled_by_own                        share of IR@1 in [0, 1] and its part from own fakes (tie policy)
fake_id, fake_score                          the best adversarial row (lowest row of equals), its score
own_fake_id, own_fake_score                  the same among fakes of the query's image; of reranked
                                             fakes only those that were scored
===========================================  ================================================================

Behind them, float64, stand the columns of metrics that not every run has (`engine.evaluate.sample.FURTHER`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import InputError
from engine.evaluate.gallery import Items, Queries
from engine.evaluate.joined import ORIGINS, JoinedSearch
from engine.evaluate.metrics import Outcome
from engine.evaluate.results import Direction
from engine.evaluate.sample import FURTHER
from engine.evaluate.search import BaseSearch, Best
from engine.evaluate.ties import Standing, Top
from indexes.protocol import NO_ROW, Counts

LABEL = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        ("direction", LABEL),
        ("variant", LABEL),
        ("query_id", pa.string()),
        ("query_row", pa.int64()),
        ("query_image_id", pa.string()),
        ("above", pa.int64()),
        ("tied", pa.int64()),
        ("tied_positives", pa.int64()),
        ("rank", pa.float64()),
        ("base_above", pa.int64()),
        ("base_tied", pa.int64()),
        ("base_tied_positives", pa.int64()),
        ("base_rank", pa.float64()),
        ("positive_id", pa.string()),
        ("positive_score", pa.float32()),
        ("top_id", pa.string()),
        ("top_score", pa.float32()),
        ("top_origin", LABEL),
        ("top_image_id", pa.string()),
        ("top_is_own_fake", pa.bool_()),
        ("top_genuine", pa.int64()),
        ("top_adversarial", pa.int64()),
        ("top_own_fakes", pa.int64()),
        ("fooled", pa.float64()),
        ("fooled_by_own", pa.float64()),
        ("fake_id", pa.string()),
        ("fake_score", pa.float32()),
        ("own_fake_id", pa.string()),
        ("own_fake_score", pa.float32()),
    ],
    metadata={"itrstress.outcomes": "2"},
)


@dataclass(frozen=True)
class Asked:
    """Who asks in a run: its queries, the ids of the originals they stand for, the ids of all image rows."""

    direction: Direction
    variant: str | None
    queries: Queries
    original_ids: Sequence[str]
    image_ids: Sequence[str]


@dataclass(frozen=True)
class Answered:
    """What a run found for its queries, with the items that its row numbers count.

    `standing`, `top` and `outcome` are of the run's gallery, `base_standing` and `base_ranks` of the same
    without the variant's items. `fakes` are those of a gallery variant, `distractors` the name of their set.
    """

    gallery: Items
    joined: JoinedSearch
    standing: Standing
    top: Top
    outcome: Outcome
    base_standing: Standing
    base_ranks: NDArray[np.float64]
    fakes: Items | None = None
    distractors: str = ""


def outcomes_table(asked: Asked, answered: Answered) -> pa.Table:
    """The table of a run, in the order of its queries."""
    columns = {**query_columns(asked), **rank_columns(answered), **top_columns(asked, answered)}
    columns |= fake_columns(answered, len(asked.queries))
    arrays = [pa.array(columns[field.name], type=field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def with_columns(table: pa.Table, columns: Mapping[str, NDArray[np.float64]]) -> pa.Table:
    """The table with further columns, float64 [queries], behind its own."""
    for name, values in columns.items():
        table = table.append_column(pa.field(name, pa.float64()), pa.array(values, type=pa.float64()))
    return table


def differing_columns(schema: pa.Schema) -> str | None:
    """In what columns are not those of outcomes, in words; None when they are."""
    own, further = list(schema)[: len(SCHEMA)], list(schema)[len(SCHEMA) :]
    fitting = all(field.name in FURTHER and field.type == pa.float64() for field in further)
    if fitting and own == list(SCHEMA):
        return None
    differing = sorted(set(SCHEMA.names) ^ (set(schema.names) - set(FURTHER)))
    return f"columns that differ: {', '.join(differing)}" if differing else "columns of other types"


def query_columns(asked: Asked) -> dict[str, object]:
    """Who asks."""
    count, source = len(asked.queries), asked.queries.source
    return {
        "direction": [asked.direction] * count,
        "variant": [asked.variant] * count,
        "query_id": pick(asked.original_ids, source),
        "query_row": source,
        "query_image_id": pick(asked.image_ids, asked.queries.image),
    }


def rank_columns(answered: Answered) -> dict[str, object]:
    """Where the best positive stands, with and without the variant."""
    standing, base = answered.standing, answered.base_standing
    return {
        "above": standing.above,
        "tied": standing.tied,
        "tied_positives": standing.tied_positives,
        "rank": answered.outcome.ranks,
        "base_above": base.above,
        "base_tied": base.tied,
        "base_tied_positives": base.tied_positives,
        "base_rank": answered.base_ranks,
        "positive_id": pick(answered.gallery.ids, answered.joined.base.positive.row),
        "positive_score": answered.joined.base.positive.score,
    }


def top_columns(asked: Asked, answered: Answered) -> dict[str, object]:
    """The first row listed, and who shares its score."""
    joined, top = answered.joined, answered.top
    origin = joined.first_origin()
    ids, image = first_listed(answered, origin)
    is_fake = origin == ORIGINS.index("adversarial")
    return {
        "top_id": ids,
        "top_score": joined.top_score,
        "top_origin": [ORIGINS[place] for place in origin.tolist()],
        "top_image_id": pick(asked.image_ids, image),
        "top_is_own_fake": is_fake & (image == asked.queries.image),
        "top_genuine": top.genuine,
        "top_adversarial": top.adversarial,
        "top_own_fakes": top.own,
        "fooled": answered.outcome.fooled,
        "fooled_by_own": answered.outcome.fooled_by_own,
    }


def first_listed(answered: Answered, origin: NDArray[np.int64]) -> tuple[list[str | None], NDArray[np.int64]]:
    """Ids of the first rows listed, and the rows of their images: int64 [queries], `NO_ROW` for distractors.

    `origin` int64 [queries] are places in `ORIGINS`.
    """
    ids: list[str | None] = [None] * len(origin)
    image = np.full(len(origin), NO_ROW)
    for place, (top, items) in enumerate(
        zip(answered.joined.tops, (answered.gallery, answered.fakes, None), strict=True)
    ):
        number = np.flatnonzero(origin == place)
        if top is None or not len(number):
            continue
        rows = top.row[number]
        if items is None:
            names: list[str | None] = [f"{answered.distractors}:{row}" for row in rows.tolist()]
        else:
            names, image[number] = pick(items.ids, rows), items.image[rows]
        for query, name in zip(number.tolist(), names, strict=True):
            ids[query] = name
    return ids, image


def fake_columns(answered: Answered, count: int) -> dict[str, object]:
    """The best fake of all and the best of the query's own image."""
    variant = answered.joined.variant
    if answered.fakes is None or variant is None:
        return dict.fromkeys(("fake_id", "fake_score", "own_fake_id", "own_fake_score"), [None] * count)
    ids, top, own = answered.fakes.ids, variant.top, variant.own
    return {
        "fake_id": pick(ids, top.row),
        "fake_score": pa.array(top.score, type=pa.float32(), mask=top.row == NO_ROW),
        "own_fake_id": pick(ids, own.row),
        "own_fake_score": pa.array(own.score, type=pa.float32(), mask=own.row == NO_ROW),
    }


def pick(ids: Sequence[str], rows: NDArray[np.int64]) -> list[str | None]:
    """The ids of rows; None for `NO_ROW`."""
    return [None if row == NO_ROW else ids[row] for row in rows.tolist()]


def base_search_of(
    table: pa.Table, queries: Queries, gallery: Items, original_ids: Sequence[str]
) -> BaseSearch:
    """The search that a table of a run without variant tells of, so that it need not be done again.

    Raises `InputError` when the table is of other queries or of another gallery.
    """
    if table["query_id"].to_pylist() != pick(original_ids, queries.source):
        raise InputError("the per-query outcomes are of other queries; remove them to search again")
    row_of = {item: row for row, item in enumerate(gallery.ids)}

    def best(name: str, tied: str) -> Best:
        ids = table[f"{name}_id"].to_pylist()
        unknown = [item for item in ids if item not in row_of]
        if unknown:
            raise InputError(
                f"the per-query outcomes name {unknown[0]!r}, which the gallery does not hold; remove them"
            )
        rows = np.array([row_of[item] for item in ids], dtype=np.int64)
        return Best(table[f"{name}_score"].to_numpy(), rows, table[tied].to_numpy())

    counts = Counts(table["above"].to_numpy(), table["tied"].to_numpy())
    return BaseSearch(best("positive", "tied_positives"), counts, best("top", "top_genuine"))
