"""The options of a second stage: which model scores shortlists once more, how long they are, with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.cli.paths import PATH
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.evaluate.stages.reranking import Reranking
    from engine.store.reader import Store
    from indexes.memory import MemoryLimit

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_BATCH_SIZE = 64

OPTIONS = (
    click.option(
        "--rerank",
        metavar="MODEL",
        help="Score the best of every query once more by this model's matching head: blip:PATH, albef:PATH.",
    ),
    click.option(
        "--k-test",
        metavar="N",
        help="With --rerank: how many of a query; a number, coco (256) or flickr30k (128). Default: coco.",
    ),
    click.option(
        "--images",
        type=PATH,
        metavar="DIR",
        help="With --rerank: the folder of the images that were embedded.",
    ),
    click.option(
        "--pair-scores",
        type=PATH,
        metavar="FILE",
        help="With --rerank: where scores are kept, none computed twice. Default: beside STORE.h5.",
    ),
    click.option(
        "--device", metavar="NAME", help="With --rerank: auto, cpu, cuda, cuda:N or mps. Default: auto."
    ),
    click.option("--precision", metavar="NAME", help="With --rerank: fp32, bf16 or fp16. Default: fp32."),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"With --rerank: pairs through the model at once. Default: {DEFAULT_BATCH_SIZE}.",
    ),
)


def rerank_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class RerankOptions:
    """What the options say; all None where no second stage is asked for."""

    rerank: str | None
    k_test: str | None
    images: Path | None
    pair_scores: Path | None
    device: str | None
    precision: str | None
    batch_size: int | None

    def check(self) -> None:
        """Raise `InputError` for options of a second stage without one, and for one without images."""
        given = [
            field.name.replace("_", "-") for field in fields(self) if getattr(self, field.name) is not None
        ]
        if self.rerank is None and given:
            raise InputError(f"--{given[0]} belongs to --rerank; add it or leave it out")
        if self.rerank is not None and self.images is None:
            raise InputError("--rerank reads the images again; give their folder with --images")

    @contextmanager
    def open(self, store: Store, limit: MemoryLimit | None) -> Iterator[Reranking | None]:
        """The second stage, open; None where none is asked for."""
        self.check()
        if self.rerank is None or self.images is None:
            yield None
            return
        from engine.encoders.scorer_registry import open_reranker
        from engine.evaluate.stages.reranking import DEFAULT_K_TEST, open_reranking
        from engine.store.reader import check_embeddings

        check_embeddings(store)
        batch_size = self.batch_size or DEFAULT_BATCH_SIZE
        reranker = open_reranker(
            self.rerank,
            device=self.device or "auto",
            precision=self.precision or "fp32",
            batch_size=batch_size,
        )
        with open_reranking(
            store,
            reranker,
            self.images,
            k_test=self.k_test or DEFAULT_K_TEST,
            pair_file=self.pair_scores,
            batch_size=batch_size,
            limit=limit,
        ) as opened:
            yield opened
