"""Rankings by the published evaluation code, from the fixtures that hold any: matrices and shortlists."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.evaluate.direction import DirectionSearch
from engine.evaluate.stages.pair_scores import PairScores
from engine.evaluate.stages.reranking import Reranking
from engine.stopwatch import Stopwatch
from engine.store.kept_states import KeptStates
from engine.store.pair_file import PairFile, content_key
from engine.store.plans import original_plans
from engine.store.reader import open_store
from engine.store.schema import StoreHeader
from engine.store.similarities import import_similarities, open_similarities
from engine.store.writer import open_writer

REST = -100.0  # what the published code gives to pairs outside of the shortlist
JOINS = {"albef": "replace", "blip": "add"}

pytestmark = pytest.mark.published


def fixtures(needed: str) -> list[Path]:
    """The fixtures that have an array whose name matches."""
    default = Path(__file__).parents[2] / "../shared/data"
    root = Path(os.environ.get("ITRSTRESS_DATA", default)) / "parity"
    found = sorted(root.glob("*/*.npz"))
    return [path for path in found if any(re.fullmatch(needed, name) for name in np.load(path).files)]


def corpus_of(shape: tuple[int, int]) -> Corpus:
    images, captions = shape
    texts = tuple(Caption(str(i), f"text {i}", i * images // captions) for i in range(captions))
    return Corpus("fixture", tuple(ImageItem(str(i), str(i)) for i in range(images)), texts)


def ranks(store: Any, direction: Any, rerank: Reranking | None = None) -> Any:
    return DirectionSearch(store, direction, backend="numpy", rerank=rerank).run(None, Stopwatch())[1]


@pytest.mark.parametrize("path", fixtures("i2t_ranks"), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_imported_matrix_ranks_as_the_published_code(path: Path, tmp_path: Path) -> None:
    arrays = np.load(path)
    corpus = corpus_of(arrays["sims"].shape)
    with open_similarities(corpus, path, [], tmp_path) as matrices:
        import_similarities(tmp_path / "s.h5", "published", corpus, matrices)
    with open_store(tmp_path / "s.h5") as store:
        for direction in ("i2t", "t2i"):
            found = ranks(store, direction)["rank"].to_numpy()
            np.testing.assert_array_equal(found - 1, arrays[f"{direction}_ranks"])


class TabledReranker:
    """The fixture's own logits; the state of an image or a text is its number."""

    shortlist: dict[str, int] = {}  # noqa: RUF012
    spec, fingerprint = "fixture", "f" * 64

    def __init__(self, join: str, logits: NDArray[np.float32]) -> None:
        self.join, self._logits = join, logits

    def prepare_image(self, image: int) -> int:
        return image

    def image_states(self, images: Sequence[int]) -> list[NDArray[np.float32]]:
        return [np.array([[image]], dtype=np.float32) for image in images]

    def text_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.array([[int(text.split()[1])]], dtype=np.float32) for text in texts]

    def score_pairs(
        self, state: NDArray[np.float32], words: Sequence[NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        return self._logits[int(state[0, 0])][[int(word[0, 0]) for word in words]]


class Numbers:
    """Stands for the images of the store."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def keys(self, name: str, rows: Sequence[int]) -> NDArray[np.uint64]:
        return np.array([content_key(str(row)) for row in rows], dtype=np.uint64)

    def draw(self, name: str, row: int) -> int:
        return row


@pytest.mark.parametrize(
    "path", fixtures(r"score_i2t_k\d+"), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_shortlist_ranks_as_the_published_code(path: Path, tmp_path: Path) -> None:
    arrays = np.load(path)
    corpus = corpus_of(arrays["sims"].shape)
    store_file = write_embeddings(tmp_path / "s.h5", corpus, arrays["image_embeds"], arrays["text_embeds"])
    for name in (name for name in arrays.files if re.fullmatch(r"score_i2t_k\d+", name)):
        k_test = int(name.rpartition("k")[2])
        reranker = TabledReranker(JOINS[path.parent.name], arrays["itm_logits"][:, :, 1])
        with (
            open_store(store_file) as store,
            PairFile(tmp_path / f"{k_test}.pairs", "f") as file,
            KeptStates(1 << 20, tmp_path) as states,
        ):
            images: Any = Numbers(store)
            rerank = Reranking(PairScores(reranker, images, file, states, 2, 1), k_test)
            for direction in ("i2t", "t2i"):
                table = ranks(store, direction, rerank)
                expected = arrays[f"score_{direction}_k{k_test}"]
                check_standing(table, np.where(expected == REST, -np.inf, expected), corpus, direction)


def write_embeddings(path: Path, corpus: Corpus, images: Any, captions: Any) -> Path:
    plans = original_plans(corpus)
    header = StoreHeader("fixture", "f" * 64, images.shape[1], corpus.name, corpus.fingerprint, "raw")
    with open_writer(path, header, plans) as writer:
        for plan, rows in zip(plans, (images, captions), strict=True):
            writer.write(plan.modality, plan.name, np.arange(plan.rows), rows)
    return path


def check_standing(table: Any, scores: NDArray[Any], corpus: Corpus, direction: str) -> None:
    """Where the best positive of every query stands in the published matrix [queries, gallery]."""
    owner = np.asarray(corpus.image_of_caption)
    related = np.arange(len(corpus.images))[:, None] == owner[None]
    related = related if direction == "i2t" else related.T
    best = np.where(related, scores, -np.inf).max(axis=1)
    np.testing.assert_array_equal(table["above"].to_numpy(), (scores > best[:, None]).sum(axis=1))
    np.testing.assert_array_equal(table["tied"].to_numpy(), (scores == best[:, None]).sum(axis=1))
    np.testing.assert_allclose(table["positive_score"].to_numpy(), best, atol=1e-5)
