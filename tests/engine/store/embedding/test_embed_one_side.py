"""One side of a corpus alone: only that is encoded, captions need no images, the other side can be added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.store.embedding.embed import embed
from engine.store.embedding.fill import fill_store
from engine.store.image_source import NoImages
from engine.store.reader import open_store
from engine.store.schema import MODALITIES
from engine.variants.registry import make_variant

IMAGES = 5
CORPUS = Corpus(
    "small",
    tuple(ImageItem(f"i{row}", f"{row}.png") for row in range(IMAGES)),
    tuple(Caption(f"c{row}", f"caption number {row}", row // 2) for row in range(2 * IMAGES)),
)


class Counting:
    """Rows from the length of a text and the mean of an image; counts what it encodes."""

    spec, dim, fingerprint = "fake:encoder", 3, "f" * 64

    def __init__(self) -> None:
        self.texts = self.images = 0

    def prepare_image(self, image: Image.Image) -> float:
        return float(np.asarray(image, dtype=np.float64).mean())

    def encode_images(self, images: Sequence[float]) -> NDArray[np.float32]:
        self.images += len(images)
        return unit(images)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return unit([float(sum(text.encode())) for text in texts])


def unit(values: Sequence[float]) -> NDArray[np.float32]:
    rows = np.array([[value, 100.0, 7.0] for value in values])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for row, image in enumerate(CORPUS.images):
        Image.new("RGB", (4, 4), (40 * row, 9, 9)).save(folder / image.file)
    return folder


def go(images: Any, out: Path, variants: Sequence[str] = (), **options: Any) -> Counting:
    encoder = Counting()
    made = [make_variant(spec) for spec in variants]
    embed(encoder, CORPUS, images, made, out, batch_size=2, workers=1, **options)
    return encoder


def labels(path: Path) -> list[str]:
    with open_store(path) as store:
        assert not any(info.pending for info in store.sets)
        return [info.label for info in store.sets]


def test_captions_alone_need_no_images(tmp_path: Path) -> None:
    options = {"modalities": ("captions",), "space": "b32"}
    encoder = go(NoImages(), tmp_path / "q.h5", ["char_swap:seed=1"], **options)
    assert (encoder.texts, encoder.images) == (1 + 2 * 2 * IMAGES, 0)  # one to try the encoder
    assert labels(tmp_path / "q.h5") == ["captions/original", "captions/char_swap:seed=1"]
    with open_store(tmp_path / "q.h5") as store:
        assert store.header.space == "b32"


def test_images_alone_encode_no_captions(pictures: Path, tmp_path: Path) -> None:
    encoder = go(pictures, tmp_path / "q.h5", modalities=("images",))
    assert (encoder.texts, encoder.images) == (1, 1 + IMAGES)
    assert labels(tmp_path / "q.h5") == ["images/original"]


@pytest.mark.parametrize("first", MODALITIES)
def test_the_other_side_can_be_added_and_all_is_as_if_done_at_once(
    pictures: Path, tmp_path: Path, first: str
) -> None:
    go(pictures, tmp_path / "parts.h5", modalities=(first,))
    encoder = go(pictures, tmp_path / "parts.h5")
    assert (encoder.texts == 0, encoder.images == 0) == (first == "captions", first == "images")
    go(pictures, tmp_path / "whole.h5")
    with open_store(tmp_path / "parts.h5") as parts, open_store(tmp_path / "whole.h5") as whole:
        assert [one.label for one in parts.sets] == ["images/original", "captions/original"]
        for modality in MODALITIES:
            one, other = (store.load(modality, "original") for store in (parts, whole))
            size = one.rows.shape[0]
            np.testing.assert_array_equal(one.rows.read(0, size), other.rows.read(0, size))
            keys = [store.stored(modality, "original").content_key for store in (parts, whole)]
            assert keys[0] == keys[1]


def test_captions_of_a_whole_store_are_there_already(pictures: Path, tmp_path: Path) -> None:
    go(pictures, tmp_path / "s.h5")
    before = (tmp_path / "s.h5").read_bytes()
    encoder = go(NoImages(), tmp_path / "s.h5", modalities=("captions",))
    assert (encoder.texts, encoder.images) == (0, 0)
    assert (tmp_path / "s.h5").read_bytes() == before


@pytest.mark.parametrize(("variant", "side"), [("mix:0.9", "captions"), ("char_swap", "images")])
def test_a_variant_of_the_other_side_is_named(
    pictures: Path, tmp_path: Path, variant: str, side: str
) -> None:
    with pytest.raises(InputError, match=rf"variant {variant}:seed=0: .* only {side} are embedded"):
        go(pictures, tmp_path / "q.h5", [variant], modalities=(side,))
    assert not (tmp_path / "q.h5").exists()


@pytest.mark.parametrize("options", [{"modalities": ("captions",)}, {"space": "b32"}])
def test_a_pair_scorer_has_no_sides_and_no_space(tmp_path: Path, options: dict[str, Any]) -> None:
    class Scorer:
        spec, fingerprint = "fake:scorer", "b" * 64

        def prepare_image(self, image: Any) -> Any: ...
        def image_states(self, images: Any) -> Any: ...
        def text_states(self, texts: Any) -> Any: ...
        def score_block(self, images: Any, texts: Any) -> Any: ...

    with pytest.raises(InputError, match="fake:scorer: scores captions with images and makes no vectors"):
        fill_store(Scorer(), CORPUS, NoImages(), [], tmp_path / "s.h5", **options)  # type: ignore[arg-type]


def test_the_command_embeds_captions_without_an_image_folder(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'{{"image": "{row}.png", "caption": "words {row}"}}\n' for row in range(3)]
    (tmp_path / "corpus.jsonl").write_text("".join(lines))
    out = tmp_path / "q.h5"
    words = ["embed", "--model", f"open_clip:local-dir:{tiny_model}", "--out", str(out)]
    words += ["--corpus", str(tmp_path / "corpus.jsonl")]
    assert run(words) == 2  # nobody said that images are not wanted
    assert not out.exists()
    assert run([*words, "--only", "captions", "--space", "tiny"]) == 0
    assert f"next: itrstress evaluate {out} --index DIR" in capsys.readouterr().out
    assert labels(out) == ["captions/original"]
    assert run(["store", "inspect", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "space       tiny" in shown
    assert "note: there is no images/original; evaluate needs it, or an index that has it" in shown
    assert run(["evaluate", str(out), "--direction", "t2i"]) == 2
    assert "has no set images/original; it has: captions/original" in capsys.readouterr().err
