"""Mix and patch in paper mode against the published script's steps, done here by torch and torchvision."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.corpus.corpus import Corpus, ImageItem
from engine.errors import InputError
from engine.variants.published_images import (
    BATCH,
    SIDE,
    PublishedPatchRecipe,
    blends_in_float32,
    half_side,
    published_batches,
    published_box,
)
from engine.variants.recipes import DescribedRecipe, recipe_from_json
from engine.variants.registry import make_variant
from engine.variants.variant import VariantItems

LEVELS = ("0.9", "0.8", "0.7", "0.6")
BOX = {"top": 0, "left": 0, "bottom": 9, "right": 9}


def image_corpus(count: int) -> Corpus:
    return Corpus("test", tuple(ImageItem(f"image {n}", f"{n}.png") for n in range(count)), ())


def noise(size: tuple[int, int], seed: int) -> Image.Image:
    width, height = size
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def recipes_of(items: VariantItems) -> list[DescribedRecipe]:
    return [item.content for item in items.items]  # type: ignore[misc]


# ---------------------------------------------------------------- an oracle: the published script's steps


def published_script(pictures: list[Image.Image], method: str, level: float, seed: int, out: Path) -> None:
    """Load, shuffle, permute, paste or blend, and save, as the script says; files are numbered."""
    import torch
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.transforms.functional import InterpolationMode
    from torchvision.utils import save_image

    prepare = transforms.Compose(
        [transforms.Resize((384, 384), interpolation=InterpolationMode.BICUBIC), transforms.ToTensor()]
    )
    dataset = [(prepare(picture), number) for number, picture in enumerate(pictures)]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        state = np.random.RandomState(seed)
        for images, numbers in DataLoader(dataset, batch_size=64, shuffle=True):  # type: ignore[arg-type]
            order = torch.randperm(len(images))
            if method == "patch":
                cut = int(384 * np.sqrt(1.0 - level))
                row, column = state.randint(384), state.randint(384)
                top, left = (np.clip(centre - cut // 2, 0, 384) for centre in (row, column))
                bottom, right = (np.clip(centre + cut // 2, 0, 384) for centre in (row, column))
                images[:, :, top:bottom, left:right] = images[order, :, top:bottom, left:right]
            else:
                images = level * images + (1 - level) * images[order, :]
            for image, number in zip(images, numbers.tolist(), strict=True):
                save_image(image, out / f"{number}.jpg")


@pytest.mark.parametrize("method", ["mix", "patch"])
@pytest.mark.parametrize(("count", "level", "seed"), [(5, "0.9", 1), (67, "0.6", 100)])
def test_every_picture_is_the_published_scripts_to_the_byte(
    method: str, count: int, level: str, seed: int, tmp_path: Path
) -> None:
    pictures = [noise((90 + n % 7, 60 + n % 5), n) for n in range(count)]
    published_script(pictures, method, float(level), seed, tmp_path)
    items = make_variant(f"{method}:{level}:mode=paper:seed={seed}").apply(image_corpus(count))
    for number, recipe in enumerate(recipes_of(items)):
        ours = recipe.draw([pictures[row] for row in recipe.sources])
        with Image.open(tmp_path / f"{number}.jpg") as theirs:
            assert ours.tobytes() == theirs.convert("RGB").tobytes(), number


@pytest.mark.parametrize("seed", [0, 1, 10, 100, 2**32 - 1])
@pytest.mark.parametrize("count", [1, 2, 64, 65, 5000])
def test_the_batches_are_those_of_torchs_loader(count: int, seed: int) -> None:
    import torch
    from torch.utils.data import DataLoader

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        expected = []
        for batch in DataLoader(list(range(count)), batch_size=BATCH, shuffle=True):  # type: ignore[arg-type]
            expected.append((batch.tolist(), batch[torch.randperm(len(batch))].tolist()))
    found = [(list(batch.rows), list(batch.fakes)) for batch in published_batches(count, seed)]
    assert found == expected


@pytest.mark.parametrize("level", LEVELS)
def test_blending_rounds_as_the_script_for_every_pair_of_values(level: str) -> None:
    import torch

    original, fake = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    one, other = (torch.from_numpy(values.copy()).to(torch.float32).div(255) for values in (original, fake))
    blend = float(level) * one + (1 - float(level)) * other
    expected = blend.mul(255).add_(0.5).clamp_(0, 255).to(torch.uint8).numpy()
    assert np.array_equal(blends_in_float32(Decimal(level)).reshape(256, 256).T, expected)


# ---------------------------------------------------------------- what the spec says of it


@pytest.mark.parametrize(
    ("level", "side", "share"),
    [("0.9", 121, 8.3), ("0.8", 171, 15.5), ("0.7", 210, 22.3), ("0.6", 242, 28.2)],
)
def test_a_box_replaces_the_published_share_on_average(level: str, side: int, share: float) -> None:
    half = half_side(Decimal(level))
    assert half == side // 2
    length = np.array([min(centre + half, SIDE) - max(centre - half, 0) for centre in range(SIDE)])
    boxes = [published_box(half, row, column) for row, column in ((0, 0), (SIDE - 1, 200), (200, 5))]
    assert [box.pixels for box in boxes] == [
        length[0] ** 2,
        length[-1] * length[200],
        length[200] * length[5],
    ]
    assert round(100 * (length.mean() / SIDE) ** 2, 1) == share


@pytest.mark.parametrize("spec", ["mix:0.9:mode=paper:seed=1", "patch:0.8:mode=paper:seed=1"])
def test_an_image_that_is_its_own_fake_is_unchanged_and_no_other(spec: str) -> None:
    items = make_variant(spec).apply(image_corpus(5000))
    own = [recipe.references[0] == recipe.references[1] for recipe in recipes_of(items)]
    assert [not item.changed for item in items.items] == own
    assert 50 < sum(own) < 110  # 79 expected: one of every batch
    assert [item.source for item in items.items] == list(range(5000))


def test_all_images_of_a_batch_have_one_box_and_change_fakes_among_themselves() -> None:
    items = make_variant("patch:0.7:mode=paper:seed=10").apply(image_corpus(200))
    recipes = recipes_of(items)
    for batch in published_batches(200, 10):
        assert len({recipes[row].box for row in batch.rows}) == 1
        assert sorted(batch.rows) == sorted(batch.fakes)
        assert [recipes[row].sources for row in batch.rows] == list(zip(batch.rows, batch.fakes, strict=True))
    assert len({recipe.box for recipe in recipes}) == 4  # type: ignore[attr-defined]


@settings(max_examples=25, deadline=None)
@given(
    level=st.integers(20_000, 999_900).map(lambda n: (Decimal(n) / 1_000_000).normalize()),
    seed=st.integers(0, 2**32 - 1),
)
@example(level=Decimal("0.9"), seed=0)
def test_the_same_region_of_the_fake_is_pasted_and_nothing_else_changes(level: Decimal, seed: int) -> None:
    recipe = recipes_of(make_variant(f"patch:{level}:mode=paper:seed={seed}").apply(image_corpus(64)))[0]
    assert isinstance(recipe, PublishedPatchRecipe)
    drawn = np.asarray(recipe.draw([Image.new("RGB", (50, 40), "white"), Image.new("RGB", (40, 50))]))
    box = recipe.box
    pasted = drawn[box.top : box.bottom, box.left : box.right]
    assert drawn.shape == (SIDE, SIDE, 3)
    # a JPEG smears an edge over its block of 16
    inner = pasted[16:-16, 16:-16]
    assert not inner.size or inner.max() < 16
    outside = np.ones((SIDE, SIDE), dtype=bool)
    outside[max(0, box.top - 16) : box.bottom + 16, max(0, box.left - 16) : box.right + 16] = False
    assert (drawn[outside] > 239).all()


# ---------------------------------------------------------------- recipes and the two controls


@pytest.mark.parametrize(
    "spec", ["mix:0.6:mode=paper:seed=4", "patch:0.6:mode=paper:seed=4", "reencode", "occlude:3:5"]
)
def test_an_item_is_drawn_again_alone_from_its_json(spec: str) -> None:
    pictures = [noise((20 + 3 * n, 31 - 2 * n), n) for n in range(6)]
    for item in make_variant(spec).apply(image_corpus(6)).items:
        again = recipe_from_json(json.loads(json.dumps(item.change)))
        assert again == item.content
        sources = [pictures[row] for row in again.sources]
        assert again.draw(sources).tobytes() == item.content.draw(sources).tobytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "CMYK", "1"])
@pytest.mark.parametrize(
    "spec", ["mix:0.7:mode=paper:seed=2", "patch:0.7:mode=paper:seed=2", "reencode", "occlude:4:6"]
)
def test_other_modes_are_drawn_as_their_rgb(mode: str, spec: str) -> None:
    recipe = recipes_of(make_variant(spec).apply(image_corpus(6)))[0]
    sources = [noise((30, 20), row).convert(mode) for row in recipe.sources]
    drawn = recipe.draw(sources)
    assert drawn.mode == "RGB"
    assert drawn.tobytes() == recipe.draw([image.convert("RGB") for image in sources]).tobytes()


def test_reencoding_is_the_published_resize_and_jpeg_of_the_image_alone(tmp_path: Path) -> None:
    picture = noise((90, 60), 1)
    (recipe,) = recipes_of(make_variant("reencode").apply(image_corpus(1)))
    picture.resize((384, 384), Image.Resampling.BICUBIC).save(tmp_path / "saved.jpg")
    with Image.open(tmp_path / "saved.jpg") as saved:
        assert recipe.draw([picture]).tobytes() == saved.convert("RGB").tobytes()


@settings(max_examples=60, deadline=None)
@given(size=st.tuples(st.integers(2, 40), st.integers(2, 40)), data=st.data())
def test_the_cells_of_a_grid_cover_every_pixel_exactly_once(
    size: tuple[int, int], data: st.DataObject
) -> None:
    grid = data.draw(st.integers(2, min(size)))
    picture, counts = Image.new("RGB", size, "white"), Counter[int]()
    for cell in range(grid**2):
        (recipe,) = recipes_of(make_variant(f"occlude:{grid}:{cell}").apply(image_corpus(1)))
        black = (np.asarray(recipe.draw([picture])) == 0).all(axis=-1)
        assert black.any()
        rows, columns = np.nonzero(black)
        assert black.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
        counts.update(np.flatnonzero(black).tolist())
    assert len(counts) == size[0] * size[1]
    assert set(counts.values()) == {1}


def test_the_cells_are_numbered_row_by_row() -> None:
    picture = Image.new("RGB", (40, 20), "white")
    (recipe,) = recipes_of(make_variant("occlude:2:1").apply(image_corpus(1)))
    black = (np.asarray(recipe.draw([picture])) == 0).all(axis=-1)
    assert black[:10, 20:].all()
    assert black.sum() == 200


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mix:0.9:mode=papers", "mode is 'papers'; expected default or paper"),
        ("mix:1.0:mode=paper", "level is '1.0'"),
        ("patch:0:mode=paper", "level is '0'"),
        ("occlude:4", "'cell' is missing"),
        ("occlude:1:0", "grid is '1'; expected the cells a side, a whole number from 2 to 64"),
        ("occlude:4:16", "cell is 16; expected 0 to 15"),
        ("occlude:4:x", "cell is 'x'"),
        ("reencode:1", "one value too many"),
        ("reencod", "did you mean 'reencode'"),
    ],
)
def test_a_wrong_spec_says_what_is_right(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_variant(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "count", "message"),
    [
        (f"mix:0.9:mode=paper:seed={2**32}", 70, f"takes seeds up to {2**32 - 1}"),
        (f"patch:0.9:mode=paper:seed={2**32}", 70, f"takes seeds up to {2**32 - 1}"),
        ("patch:0.99999:mode=paper", 70, "the box would be empty"),
        ("mix:0.9999:mode=paper", 70, "changes no pixel"),
        ("mix:0.9:mode=paper", 1, "changed rate 0"),
        ("mix:0.9:mode=paper", 0, "makes no item"),
        ("reencode", 0, "makes no item"),
    ],
)
def test_what_cannot_be_made_is_refused(spec: str, count: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_variant(spec).apply(image_corpus(count))
    assert message in str(caught.value)


def test_an_image_smaller_than_the_grid_is_named() -> None:
    (recipe,) = recipes_of(make_variant("occlude:4:15").apply(image_corpus(1)))
    with pytest.raises(InputError, match=r"image 'image 0' has 9 x 3 pixels; expected at least 4 a side"):
        recipe.draw([Image.new("RGB", (9, 3))])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"box": 3}, "field 'box' is 3"),
        ({"box": {**BOX, "right": 385}}, "field 'right' is 385"),
        ({"box": {**BOX, "bottom": 0}}, "field 'bottom' is 0; expected a whole number from 1"),
        ({"box": {"top": 0}}, "'left' is missing"),
        ({"fake": "x" * 999}, "...; expected"),
    ],
)
def test_a_wrong_description_names_its_field(change: dict[str, object], message: str) -> None:
    item = make_variant("patch:0.9:mode=paper:seed=1").apply(image_corpus(70)).items[0]
    with pytest.raises(InputError) as caught:
        recipe_from_json({**item.change, **change})
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300
