"""What reranking needs beside a store: a model, the images, how long shortlists are, a file of scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.decoding import decoding_threads
from engine.corpus.images import check_image_folder
from engine.corpus.shape import shorten
from engine.encoders.scorer import Reranker
from engine.errors import InputError, unknown_name
from engine.evaluate.stages.pair_scores import PairScores
from engine.progress import Progress, Silent
from engine.store.image_source import reads_of
from engine.store.kept_states import STATES_IN_MEMORY, KeptStates
from engine.store.pair_file import PairFile
from engine.store.reader import Store
from engine.store.stored_images import StoredImages
from engine.whole_numbers import parse_whole_number
from indexes.memory import MemoryLimit

DEFAULT_K_TEST = "coco"
STATES_SHARE = 4  # a limit is divided by it
MOST_SHORTLISTED = 1 << 62  # fits 64 bits; a longer list than the gallery is the gallery


@dataclass(frozen=True)
class Reranking:
    """An open second stage: what scores, and how many of a query."""

    scores: PairScores
    k_test: int

    def line(self) -> str:
        """What was scored, for people."""
        scores = self.scores
        return (
            f"reranked the best {self.k_test:,} by {scores.reranker.spec}: {scores.scored:,} pairs scored, "
            f"{scores.reused:,} reused; kept in {scores.file.path}"
        )


@contextmanager
def open_reranking(
    store: Store,
    reranker: Reranker,
    images: Path,
    *,
    k_test: str = DEFAULT_K_TEST,
    pair_file: Path | None = None,
    batch_size: int,
    limit: MemoryLimit | None = None,
    progress: Progress | None = None,
) -> Iterator[Reranking]:
    """A second stage for a store whose images are in the folder `images`.

    `k_test` is a number or the name of a published shortlist. Scores are kept in `pair_file` (default: beside
    the store, named after the reranker), states in memory as far as a share of `limit` goes.
    `progress` is told of damage in the file, and of a store that cannot tell images apart. Raises
    `InputError` for what cannot be used.
    """
    if reads_of(reranker) != "images":
        raise InputError(f"{reranker.spec}: reranks region features, and only images can be given here")
    folder = check_image_folder(images)
    length = parse_k_test(k_test, reranker.shortlist)
    path = pair_file or default_pair_file(store.path, reranker)
    in_memory = STATES_IN_MEMORY if limit is None else limit.total // STATES_SHARE
    with PairFile(path, reranker.fingerprint) as file, KeptStates(in_memory, path.parent) as states:
        watched, stored = progress or Silent(), StoredImages(store, folder)
        if file.loss is not None:
            watched.note(file.loss)
        if not stored.verified:
            watched.note(f"{store.path} keeps no digests of its images: those of {folder} are taken by name")
        scores = PairScores(
            reranker,
            stored,
            file,
            states,
            batch_size,
            workers=decoding_threads(),
        )
        yield Reranking(scores, length)


def default_pair_file(store: Path, reranker: Reranker) -> Path:
    """Beside the store, named after it and the reranker."""
    return store.with_name(f"{store.stem}.{reranker.fingerprint[:12]}.pairs")


def parse_k_test(text: str, published: Mapping[str, int]) -> int:
    """The length of a shortlist. Raises `InputError` for what is neither a number nor a published name."""
    if text in published:
        return published[text]
    if text.lstrip("-").isdecimal():
        try:
            return parse_whole_number(text, 1, MOST_SHORTLISTED)
        except ValueError as error:
            raise InputError(f"a shortlist of {shorten(text)}: {error}") from None
    raise unknown_name("length of a shortlist", text, [*published, "a number"])


def reranking_key(fingerprint: str, k_test: int) -> dict[str, str]:
    """What a second stage adds to the key of a run: the scorer, and the length of the shortlist."""
    return {"reranker": fingerprint, "k_test": str(k_test)}
