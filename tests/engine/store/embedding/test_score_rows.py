"""Scores of a pair scorer in a store: every caption with every image, once, resumed to the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.encoders.regions import check_regions
from engine.errors import InputError
from engine.progress import Silent
from engine.store.embedding import score_rows
from engine.store.embedding.fill import fill_store
from engine.store.embedding.report import EmbedReport
from engine.store.image_source import ImageFolder, RegionImages, digest_images
from engine.store.reader import open_store
from engine.variants.registry import make_variant
from engine.variants.variant import Modality, Side, VariantItem, VariantItems

IMAGES, REGIONS, DIM = 7, 3, 2


class Scorer:
    """The score of a pair: largest region value times the length of the text."""

    spec, fingerprint, reads = "fake:scorer", "b" * 64, "regions"

    def __init__(self, fail_after: int = 10**9, poison: str | None = None) -> None:
        self.left, self.poison = fail_after, poison
        self.images = 0
        self.pairs: list[tuple[float, float]] = []

    def prepare_image(self, image: Any) -> NDArray[np.float32]:
        return check_regions(image, self.spec, DIM, REGIONS)

    def image_states(self, images: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        self.images += len(images)
        return [np.array([[image.max()]], dtype=np.float32) for image in images]

    def text_states(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.array([[np.nan if text == self.poison else len(text)]], np.float32) for text in texts]

    def score_block(self, images: Sequence[Any], texts: Sequence[Any]) -> NDArray[np.float32]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        one, two = (np.array([state[0, 0] for state in states]) for states in (images, texts))
        self.pairs += [(float(a), float(b)) for a in one for b in two]
        return one[:, None] * two[None]


class Longer:
    """A caption variant that lengthens every other caption."""

    name = "longer"
    side: Side = "gallery"
    modality: Modality = "captions"

    def apply(self, corpus: Corpus) -> VariantItems:
        texts = [c.text + "!" * 30 if i % 2 else c.text for i, c in enumerate(corpus.captions)]
        items = [VariantItem(f"{i}-l", i, text, bool(i % 2)) for i, text in enumerate(texts)]
        return VariantItems(tuple(items))


def make_corpus() -> Corpus:
    images = tuple(ImageItem(f"{i}", f"{i}.jpg") for i in range(IMAGES))
    captions = tuple(Caption(f"c{i}", "a" * (i % 11 + 1), i // 2) for i in range(2 * IMAGES))
    return Corpus("pairs", images, captions)


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Features of all images, in small blocks."""
    monkeypatch.setattr(score_rows, "IMAGES_A_BLOCK", 4)
    values = np.random.default_rng(0).random((IMAGES, REGIONS, DIM), dtype=np.float32)
    np.save(tmp_path / "f.npy", values)
    return tmp_path / "f.npy"


def go(scorer: Any, features: Path, out: Path, variants: Sequence[Any] = (), **options: Any) -> EmbedReport:
    corpus = make_corpus()
    options = {"batch_size": 3, "workers": 2, **options}
    return fill_store(scorer, corpus, RegionImages(corpus, features), variants, out, **options)


def scores_of(path: Path, name: str) -> NDArray[np.float32]:
    with open_store(path) as store:
        found = store.load("captions", name)
        return found.rows.read(0, len(found.ids))


def test_a_captions_row_holds_its_scores_with_all_images(features: Path, tmp_path: Path) -> None:
    scorer = Scorer()
    report = go(scorer, features, tmp_path / "s.h5", [Longer()])
    largest = np.load(features).max(axis=(1, 2))
    corpus = make_corpus()
    lengths = np.array([len(caption.text) for caption in corpus.captions], dtype=np.float32)
    np.testing.assert_array_equal(scores_of(tmp_path / "s.h5", "original"), lengths[:, None] * largest[None])
    longer = np.array([len(item.content) for item in Longer().apply(corpus).items], dtype=np.float32)
    np.testing.assert_array_equal(scores_of(tmp_path / "s.h5", "longer"), longer[:, None] * largest[None])
    assert report.pending == 0
    assert scorer.images == IMAGES  # each state once
    texts = {c.text for c in corpus.captions} | {str(i.content) for i in Longer().apply(corpus).items}
    assert len(scorer.pairs) == len(texts) * IMAGES  # each distinct text once


def test_a_variant_added_later_scores_only_its_new_texts(features: Path, tmp_path: Path) -> None:
    go(Scorer(), features, tmp_path / "s.h5")
    later = Scorer()
    go(later, features, tmp_path / "s.h5", [Longer()])
    assert {length for _, length in later.pairs} == {
        float(len(str(item.content))) for item in Longer().apply(make_corpus()).items if item.changed
    }


@pytest.mark.parametrize("calls", range(0, 9))
def test_a_run_that_was_stopped_anywhere_ends_with_the_same_bytes(
    features: Path, tmp_path: Path, calls: int
) -> None:
    go(Scorer(), features, tmp_path / "whole.h5", [Longer()])
    with pytest.raises(KeyboardInterrupt):
        go(Scorer(fail_after=calls), features, tmp_path / "cut.h5", [Longer()])
    go(Scorer(), features, tmp_path / "cut.h5", [Longer()])
    for name in ("original", "longer"):
        whole, cut = (scores_of(tmp_path / f"{one}.h5", name).tobytes() for one in ("whole", "cut"))
        assert whole == cut


def test_scores_with_other_features_are_another_store(features: Path, tmp_path: Path) -> None:
    go(Scorer(), features, tmp_path / "s.h5")
    values = np.load(features)
    values[3] += 1
    np.save(features, values)
    with pytest.raises(InputError, match=r"s\.h5 is of the checkpoint fake:scorer"):
        go(Scorer(), features, tmp_path / "s.h5", [Longer()])
    go(Scorer(), features, tmp_path / "s.h5", [Longer()], force=True)
    assert scores_of(tmp_path / "s.h5", "original")[0, 3] == values[3].max()


def test_features_replaced_after_their_digest_was_taken_are_not_scored(
    features: Path, tmp_path: Path
) -> None:
    digests = digest_images(RegionImages(make_corpus(), features), 2)
    values = np.load(features)
    values[3] += 1
    np.save(features, values)
    with pytest.raises(InputError, match="image 3 was changed while it was read"):
        go(Scorer(), features, tmp_path / "s.h5", file_digests=digests)


def test_a_score_that_is_no_number_is_named(features: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"captions/original.*score of image '0' with 'aaaa' is nan"):
        go(Scorer(poison="aaaa"), features, tmp_path / "s.h5")


def test_what_cannot_be_scored_is_said_before_any_work(features: Path, tmp_path: Path) -> None:
    corpus, out = make_corpus(), tmp_path / "s.h5"
    with pytest.raises(InputError, match=r"variant mix:0.9:seed=0: draws new images"):
        go(Scorer(), features, out, [make_variant("mix:0.9:seed=0")])
    with pytest.raises(InputError, match="none can be left out"):
        go(Scorer(), features, out, skip_unreadable=True)
    with pytest.raises(InputError, match="scores cannot be kept as float16"):
        go(Scorer(), features, out, dtype="float16")
    with pytest.raises(InputError, match="give --features instead of --images"):
        fill_store(Scorer(), corpus, ImageFolder(corpus, tmp_path), [], out, batch_size=1, workers=1)
    np.save(features, np.ones((IMAGES, REGIONS - 1, DIM), dtype=np.float32))
    with pytest.raises(InputError, match=r"^image '0': .*2 regions; the model needs 3"):
        go(Scorer(), features, out)
    assert not out.exists()


def test_progress_is_told_in_pairs(features: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, str]] = []

    class Watching(Silent):
        def task(self, label: str, total: int, unit: str) -> Any:
            told.append((label, total, unit))
            return super().task(label, total, unit)

    go(Scorer(), features, tmp_path / "s.h5", progress=Watching())
    assert told == [("scoring", 2 * IMAGES * IMAGES, "pairs")]
