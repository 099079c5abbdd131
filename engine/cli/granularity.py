"""`itrstress corpus granularity`: how fine-grained the captions of several corpora are, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.corpus_options import reading_options
from engine.cli.lines import one_line
from engine.cli.paths import PATH
from engine.corpus.read import load_corpus

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.variants.wordnet import WordNet

MISSING = "-"


@dataclass(frozen=True)
class Column:
    """A corpus' name, its features, and the paper's corpus that it is, if any."""

    name: str
    measured: Mapping[str, float | None]
    published: str | None


@click.command("granularity")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@reading_options(texts=None)
def command(paths: Sequence[Path], reader: str | None, split: str) -> None:
    """Compare how fine-grained the captions of the corpora PATH... are.

    Eight features on two levels, averaged over the captions: adjectives, complement phrases, articles,
    quantifiers and concept depth of noun phrases; length, words and concept diversity of captions. A corpus
    of the paper (MS-COCO, Flickr30k, and their fine-grained forms), known by its length and words, has the
    published values beside it. The two concept features need WordNet: see `itrstress setup wordnet`.
    """
    from engine.variants.wordnet import WAYS, find_wordnet, open_wordnet

    corpora = [load_corpus(path, reader=reader, split=split).corpus for path in paths]
    wordnet = None if find_wordnet() is None else open_wordnet()
    _print_table([_measure(corpus, wordnet) for corpus in corpora])
    if wordnet is None:
        click.echo(f"the concept features are left out, because WordNet is not installed; {WAYS}", err=True)


def _measure(corpus: Corpus, wordnet: WordNet | None) -> Column:
    from engine.report.console import ConsoleProgress
    from engine.variants.granularity import measure, recognise

    with ConsoleProgress().task(corpus.name, len(corpus.captions), "captions") as advance:
        measured = measure(corpus, wordnet, advance)
    return Column(corpus.name, measured, recognise(measured))


def _print_table(columns: Sequence[Column]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from engine.report.console import table_console
    from engine.variants.granularity import FEATURES, published_table

    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    table.add_column("level")
    table.add_column("a caption's", no_wrap=True)
    for column in columns:
        table.add_column(escape(one_line(column.name)), justify="right", overflow="fold")
        if column.published is not None:
            table.add_column(f"paper: {column.published}", justify="right", style="dim", overflow="fold")
    for feature in FEATURES:
        cells = [feature.level, feature.name]
        for column in columns:
            value = column.measured[feature.name]
            cells.append(MISSING if value is None else f"{value:.2f}")
            if column.published is not None:
                cells.append(f"{published_table()[column.published][feature.name]:.2f}")
        table.add_row(*cells)
    table_console().print(table)
