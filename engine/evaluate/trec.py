"""TREC run and qrels files of a run, so that other tools can check the numbers.

A run line is ``query Q0 document rank score tag``, a qrels line ``query 0 document 1`` for every positive.
Queries, originals and adversarial items are three name spaces (``image:ID``, ``caption:ID``,
``adversarial:ID``), what TREC files cannot hold in an id (white space, control characters, %) is
percent-encoded. The tag names the program, and the fixed index where one was searched. Scores are exact
float32 values. Tools that break ties their own way keep the listed order when scores are minus the rank
instead (`by_rank`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from engine.evaluate.direction import DirectionSearch
from engine.evaluate.gallery import Relation
from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.names import run_name
from engine.evaluate.ranking import Listed, Ranker
from engine.outputs.place import not_writable
from engine.variants.variant import Modality

NAME_SPACE: dict[Modality, str] = {"images": "image", "captions": "caption"}
ADVERSARIAL = "adversarial"
UNRESERVED = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
TAG = "itrstress"


def trec_id(space: str, item: str) -> str:
    """An id for TREC files: one word, different for different items."""
    return f"{space}:{quote(item, safe=UNRESERVED)}"


def tag_of(store: AnySets) -> str:
    """The tag of a run: one word."""
    return quote(store.use.label(TAG) if isinstance(store, IndexedSets) else TAG, safe=UNRESERVED)


def write_trec(
    search: DirectionSearch, variant: str | None, folder: Path, depth: int | None, *, by_rank: bool = False
) -> tuple[Path, Path]:
    """Write ``NAME.run`` and ``NAME.qrels`` of one run into an existing folder; the paths.

    `depth` rows a query are listed (None: all). Raises `InputError` as `DirectionSearch.run` does.
    """
    ranker = Ranker.of(search, variant)
    queries = [
        trec_id(NAME_SPACE[ranker.queries.items.modality], search.original_ids[row])
        for row in ranker.queries.source.tolist()
    ]
    gallery = [trec_id(NAME_SPACE[ranker.gallery.modality], item) for item in ranker.gallery.ids]
    fakes = [] if ranker.fakes is None else [trec_id(ADVERSARIAL, item) for item in ranker.fakes.ids]
    documents = [*gallery, *fakes]
    tag = tag_of(search.store)
    name = run_name(variant, search.direction)
    run_file, qrels_file = folder / f"{name}.run", folder / f"{name}.qrels"
    with search.watched(f"{variant or 'original'} lists", len(queries)) as advance:
        write_lines(run_file, run_lines(ranker, queries, documents, depth, by_rank, tag, advance))
    write_lines(qrels_file, qrels_lines(ranker, queries, gallery))
    return run_file, qrels_file


def run_lines(
    ranker: Ranker,
    queries: Sequence[str],
    documents: Sequence[str],
    depth: int | None,
    by_rank: bool,
    tag: str,
    advance: Callable[[int], None],
) -> Iterator[str]:
    """The lines of a run file, query by query."""
    for listed in ranker.lists(ranker.size if depth is None else depth):
        yield from block_lines(listed, queries, documents, by_rank, tag)
        advance(listed.stop - listed.start)


def block_lines(
    listed: Listed, queries: Sequence[str], documents: Sequence[str], by_rank: bool, tag: str
) -> Iterator[str]:
    """The lines of a block of queries."""
    for query, scores, rows in zip(
        queries[listed.start : listed.stop], listed.scores, listed.rows.tolist(), strict=True
    ):
        for rank, (row, score) in enumerate(zip(rows, scores, strict=True), start=1):
            value = str(-rank) if by_rank else np.format_float_positional(score, unique=True, trim="0")
            yield f"{query} Q0 {documents[row]} {rank} {value} {tag}\n"


def qrels_lines(ranker: Ranker, queries: Sequence[str], gallery: Sequence[str]) -> Iterator[str]:
    """The lines of a qrels file: every positive of every query."""
    relation = Relation.by_image(ranker.queries.image, ranker.gallery.image)
    query, row = relation.pairs(0, len(queries))
    for number, document in zip(query.tolist(), row.tolist(), strict=True):
        yield f"{queries[number]} 0 {gallery[document]} 1\n"


def write_lines(path: Path, lines: Iterator[str]) -> None:
    """Write lines to a new file. Raises `InputError` when the system does not let it be written."""
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    except OSError as error:
        raise not_writable(path, error) from error
