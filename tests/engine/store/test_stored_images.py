"""Images of a store drawn again: only from the files that were embedded, each read once."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.images import MissingImage, UnreadableImage
from engine.errors import InputError
from engine.store.image_source import ImageFolder, digest_images
from engine.store.plans import original_plans, variant_plan
from engine.store.reader import open_store
from engine.store.schema import SetPlan, StoreHeader
from engine.store.stored_images import OtherImage, StoredImages
from engine.store.writer import open_writer
from engine.variants.registry import make_variant

COUNT = 4
CORPUS = Corpus(
    "drawn",
    tuple(ImageItem(f"{i}", f"{i}.png") for i in range(COUNT)),
    tuple(Caption(f"c{i}", f"text {i}", i) for i in range(COUNT)),
)
MIX = make_variant("mix:0.5:seed=1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of one colour each; 3 has the bytes of 2."""
    (tmp_path / "images").mkdir()
    for i in range(COUNT):
        picture(min(i, 2)).save(tmp_path / f"images/{i}.png")
    return tmp_path / "images"


def picture(number: int) -> Image.Image:
    return Image.new("RGB", (4, 4), (50 * number, 0, 0))


def write(folder: Path, *, digests: bool = True, recipe: str | None = None) -> Path:
    """A store of the images; `recipe` in the place of the first one."""
    told = digest_images(ImageFolder(CORPUS, folder), 1) if digests else None
    images, captions = original_plans(CORPUS, told)
    mix = variant_plan(CORPUS, MIX, MIX.apply(CORPUS), told)
    if recipe is not None:
        mix = replace(mix, content=(recipe, *mix.content[1:]))
    plans: list[SetPlan] = [images, captions, mix]
    path = folder.parent / "s.h5"
    header = StoreHeader("fake:e", "e" * 64, 2, CORPUS.name, CORPUS.fingerprint, "raw")
    with open_writer(path, header, plans) as writer:
        for plan in plans:
            rows = np.tile(np.array([[1, 0]], dtype=np.float32), (plan.rows, 1))
            writer.write(plan.modality, plan.name, np.arange(plan.rows), rows)
    return path


@pytest.mark.parametrize("digests", [True, False])
def test_images_and_variants_are_drawn_and_known_by_their_content(folder: Path, digests: bool) -> None:
    with open_store(write(folder, digests=digests)) as store:
        images = StoredImages(store, folder)
        assert images.verified == digests
        for row in range(COUNT):
            assert images.draw("original", row).tobytes() == picture(min(row, 2)).tobytes()
        for row, item in enumerate(MIX.apply(CORPUS).items):
            assert not isinstance(item.content, str)
            wanted = item.content.draw([picture(min(source, 2)) for source in item.content.sources])
            assert images.draw(MIX.name, row).tobytes() == wanted.tobytes()
        keys = images.keys("original", range(COUNT)).tolist()
        assert keys[2] == keys[3]
        assert len(set(keys)) == COUNT - 1
        assert not set(keys) & set(images.keys(MIX.name, range(COUNT)).tolist())


def test_the_keys_do_not_tell_whether_the_store_or_the_folder_told_the_digests(folder: Path) -> None:
    found = []
    for digests in (True, False):
        path = write(folder, digests=digests)
        with open_store(path) as store:
            found.append(StoredImages(store, folder).keys(MIX.name, range(COUNT)).tolist())
        path.unlink()
    assert found[0] == found[1]


def test_drawing_an_image_reads_its_file_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    as_it_was = Path.read_bytes

    def counted(path: Path) -> bytes:
        read.append(path.name)
        return as_it_was(path)

    with open_store(write(folder)) as store:
        monkeypatch.setattr(Path, "read_bytes", counted)
        monkeypatch.setattr("builtins.open", None)  # nothing else opens a file
        images = StoredImages(store, folder)
        images.draw("original", 1)
        images.keys("original", range(COUNT))
    assert read == ["1.png"]


@pytest.mark.parametrize("name", ["original", MIX.name])
@pytest.mark.parametrize("digests", [True, False])
def test_another_a_cut_off_and_a_missing_file_are_told_apart(folder: Path, name: str, digests: bool) -> None:
    with open_store(write(folder, digests=digests)) as store:
        images = StoredImages(store, folder)
        images.keys("original", range(COUNT))
        picture(5).save(folder / "0.png")
        with pytest.raises(OtherImage, match=r"0\.png: .* another one than was embedded; give the folder"):
            images.draw(name, 0)
        whole = io.BytesIO()
        picture(0).save(whole, "PNG")
        (folder / "0.png").write_bytes(whole.getvalue()[:-12])
        with pytest.raises(UnreadableImage, match=r"0\.png: is cut off"):
            images.draw(name, 0)
        (folder / "0.png").unlink()
        with pytest.raises(MissingImage, match=r"0\.png: .* holds no such file; give the folder"):
            images.draw(name, 0)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("{", "a recipe that cannot be read"),
        ("[]", "a recipe that cannot be read"),
        (json.dumps({"kind": "mix"}), "s.h5: images/mix:0.5:seed=1: "),
    ],
)
def test_a_recipe_that_is_none_is_named(folder: Path, recipe: str, said: str) -> None:
    with open_store(write(folder, recipe=recipe)) as store, pytest.raises(InputError, match=said):
        StoredImages(store, folder).draw(MIX.name, 0)


@pytest.mark.parametrize("row", [-1, COUNT])
def test_a_recipe_of_images_that_are_not_there_is_named(folder: Path, row: int) -> None:
    described = json.loads(original_recipe())
    described["original"]["row"] = row
    path = write(folder, recipe=json.dumps(described))
    with open_store(path) as store, pytest.raises(InputError, match=r"images/mix:0\.5:seed=1: "):
        StoredImages(store, folder).draw(MIX.name, 0)


def original_recipe() -> str:
    """The first item's recipe, JSON."""
    return variant_plan(CORPUS, MIX, MIX.apply(CORPUS)).content[0]
