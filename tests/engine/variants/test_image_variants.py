"""Mix and patch against oracles in Python integers, and that any item can be drawn again alone."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.corpus.corpus import Corpus, ImageItem
from engine.errors import InputError
from engine.variants.fakes import cover, pair_with_fakes
from engine.variants.families.mix import MixRecipe
from engine.variants.families.patch import POSITION_STEPS, PatchRecipe, fit_box
from engine.variants.recipes import ImageReference, recipe_from_json
from engine.variants.registry import make_variant

LEVELS = st.integers(1, 999_999).map(lambda n: (Decimal(n) / 1_000_000).normalize())
SIZES = st.tuples(st.integers(1, 60), st.integers(1, 60))
STEPS = st.integers(0, POSITION_STEPS - 1)
IDS = st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=9, unique=True)


def image_corpus(ids: list[str]) -> Corpus:
    return Corpus("test", tuple(ImageItem(name, f"{n}.png") for n, name in enumerate(ids)), ())


def noise(size: tuple[int, int], seed: int) -> Image.Image:
    width, height = size
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def mix_recipe(level: str) -> MixRecipe:
    return MixRecipe(ImageReference(0, "a"), ImageReference(1, "b"), Decimal(level))


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


@settings(max_examples=60, deadline=None)
@given(size=SIZES, level=LEVELS, seed=st.integers(0, 99))
@example(size=(1, 1), level=Decimal("0.5"), seed=0)
def test_mix_is_the_exact_weighted_mean_rounded_half_up(
    size: tuple[int, int], level: Decimal, seed: int
) -> None:
    original, fake = noise(size, seed), noise(size, seed + 1000)
    drawn = np.asarray(mix_recipe(str(level)).draw([original, fake]))
    share = Fraction(level)
    expected = [
        half_up(share * int(o) + (1 - share) * int(f))
        for o, f in zip(np.asarray(original).flat, np.asarray(fake).flat, strict=True)
    ]
    assert drawn.dtype == np.uint8
    assert drawn.flatten().tolist() == expected


@settings(max_examples=300, deadline=None)
@given(size=SIZES, level=LEVELS, across=STEPS, down=STEPS)
@example(size=(1, 1), level=Decimal("0.9"), across=0, down=POSITION_STEPS - 1)
@example(size=(2, 60), level=Decimal("0.45"), across=0, down=POSITION_STEPS - 1)
@example(size=(60, 1), level=Decimal("0.999999"), across=POSITION_STEPS - 1, down=0)
def test_a_box_has_its_exact_share_and_lies_inside(
    size: tuple[int, int], level: Decimal, across: int, down: int
) -> None:
    width, height = size
    box = fit_box(size, level, across, down)
    assert box.pixels == max(1, half_up((1 - Fraction(level)) * width * height))
    assert box.left >= 0
    assert box.left + box.width <= width
    assert box.top >= 0
    assert box.top + box.height <= height
    assert 0 <= box.rest < box.width


@pytest.mark.parametrize("size", [(640, 480), (480, 640), (384, 384), (500, 333), (256, 64)])
@pytest.mark.parametrize("level", ["0.9", "0.8", "0.7", "0.6"])
def test_a_box_has_the_proportions_of_the_image(size: tuple[int, int], level: str) -> None:
    box = fit_box(size, Decimal(level), 0, 0)
    side = math.sqrt(1 - float(level))
    assert abs(box.width - side * size[0]) <= 0.5
    assert abs(box.height - side * size[1]) <= 1 + size[1] / size[0]


def test_every_place_of_a_box_is_as_likely_to_within_a_step() -> None:
    size, level = (20, 10), Decimal("0.9")
    lefts = {fit_box(size, level, n * POSITION_STEPS // 1500, 0).left for n in range(1500)}
    room = size[0] - fit_box(size, level, 0, 0).width
    assert lefts == set(range(room + 1))
    edges = [n * POSITION_STEPS // (room + 1) for n in range(room + 1)]
    assert [fit_box(size, level, edge + 1, 0).left for edge in edges] == list(range(room + 1))


@settings(max_examples=60, deadline=None)
@given(size=SIZES, level=LEVELS, across=STEPS, down=STEPS)
def test_patch_changes_the_pixels_of_its_box_and_no_other(
    size: tuple[int, int], level: Decimal, across: int, down: int
) -> None:
    recipe = PatchRecipe(ImageReference(0, "a"), ImageReference(1, "b"), level, across, down)
    original, fake = Image.new("RGB", size, (10, 20, 30)), Image.new("RGB", (7, 5), (200, 210, 220))
    drawn = np.asarray(recipe.draw([original, fake]))
    replaced = (drawn == (200, 210, 220)).all(axis=-1)
    kept = (drawn == (10, 20, 30)).all(axis=-1)
    assert (replaced ^ kept).all()
    assert replaced.sum() == max(1, half_up((1 - Fraction(level)) * size[0] * size[1]))
    rows, columns = np.nonzero(replaced)
    box = recipe.box(size)
    assert (rows.min(), columns.min(), columns.max()) == (
        box.top, box.left, box.left + (box.width if box.rows else box.rest) - 1,
    )  # fmt: skip


def test_patch_takes_the_same_region_of_the_fake() -> None:
    original, fake = Image.new("RGB", (40, 30)), noise((40, 30), 1)
    recipe = PatchRecipe(ImageReference(0, "a"), ImageReference(1, "b"), Decimal("0.7"), 2**31, 2**30)
    drawn, box = np.asarray(recipe.draw([original, fake])), recipe.box((40, 30))
    region = np.s_[box.top : box.top + box.rows, box.left : box.left + box.width]
    assert np.array_equal(drawn[region], np.asarray(fake)[region])


@settings(max_examples=60, deadline=None)
@given(source=SIZES, target=SIZES)
@example(source=(1, 60), target=(60, 1))
@example(source=(60, 1), target=(1, 60))
def test_cover_gives_the_size_for_any_aspect(source: tuple[int, int], target: tuple[int, int]) -> None:
    assert cover(Image.new("RGB", source, (9, 9, 9)), target).size == target
    assert cover(Image.new("RGB", source, (9, 9, 9)), target).getcolors() == [
        (target[0] * target[1], (9, 9, 9))
    ]


def test_cover_keeps_the_aspect_and_the_middle() -> None:
    wide = Image.new("RGB", (300, 100), (255, 0, 0))
    wide.paste((0, 0, 255), (100, 0, 200, 100))
    assert cover(wide, (50, 50)).getcolors() == [(2500, (0, 0, 255))]


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "CMYK"])
@pytest.mark.parametrize("spec", ["mix:0.7:seed=2", "patch:0.7:seed=2"])
def test_other_modes_are_drawn_as_their_rgb(mode: str, spec: str) -> None:
    item = make_variant(spec).apply(image_corpus(["a", "b"])).items[0]
    pair = [noise((30, 20), 1).convert(mode), noise((25, 25), 2).convert(mode)]
    drawn = item.content.draw(pair)  # type: ignore[union-attr]
    assert (drawn.mode, drawn.size) == ("RGB", (30, 20))
    assert drawn.tobytes() == item.content.draw([i.convert("RGB") for i in pair]).tobytes()  # type: ignore[union-attr]


@given(ids=IDS, seed=st.integers(0, 5), data=st.data())
@pytest.mark.parametrize("family", ["mix:0.9", "patch:0.8"])
def test_items_depend_on_seed_and_id_but_not_on_the_order(
    family: str, ids: list[str], seed: int, data: st.DataObject
) -> None:
    variant = make_variant(f"{family}:seed={seed}")
    shuffled = data.draw(st.permutations(ids))

    def by_id(order: list[str]) -> dict[str, object]:
        items = variant.apply(image_corpus(order)).items
        assert [item.source for item in items] == list(range(len(order)))
        found = {}
        for item in items:
            assert item.content.sources[0] == item.source  # type: ignore[union-attr]
            record = json.loads(json.dumps(item.change))
            assert record["original"]["id"] != record["fake"]["id"]
            assert order[record["fake"].pop("row")] == record["fake"]["id"]
            assert order[record["original"].pop("row")] == record["original"]["id"]
            found[item.id] = record
        return found

    first = by_id(ids)
    assert len(first) == len(ids)
    assert by_id(list(shuffled)) == first


@pytest.mark.parametrize("spec", ["mix:0.6:seed=4", "patch:0.6:seed=4"])
def test_an_item_is_drawn_again_alone_from_its_json(spec: str) -> None:
    pictures = [noise((20 + 3 * n, 31 - 2 * n), n) for n in range(6)]
    drawn = set()
    for item in make_variant(spec).apply(image_corpus(list("abcdef"))).items:
        again = recipe_from_json(json.loads(json.dumps(item.change)))
        assert again == item.content
        sources = [pictures[row] for row in again.sources]
        assert again.draw(sources).tobytes() == item.content.draw(sources).tobytes()  # type: ignore[union-attr]
        assert again.draw(sources).tobytes() != sources[0].tobytes()
        drawn.add(again.draw(sources).tobytes())
    assert len(drawn) == 6


def test_the_fake_is_even_over_the_other_images_and_the_same_at_every_level() -> None:
    ids = ["a", "b", "c", "d"]
    counts = dict.fromkeys("bcd", 0)
    for seed in range(600):
        original, fake = next(pair_with_fakes(image_corpus(ids), seed, "test"))
        assert original == ImageReference(0, "a")
        counts[fake.id] += 1
    assert all(150 < count < 250 for count in counts.values())
    sources = [
        [item.content.sources for item in make_variant(spec).apply(image_corpus(ids)).items]  # type: ignore[union-attr]
        for spec in ("mix:0.9:seed=3", "mix:0.6:seed=3", "patch:0.8:seed=3")
    ]
    assert sources[0] == sources[1] == sources[2]


@pytest.mark.parametrize("ids", [[], ["only"]])
@pytest.mark.parametrize("spec", ["mix:0.9", "patch:0.9"])
def test_a_corpus_with_no_other_image_has_nothing_to_mix_with(spec: str, ids: list[str]) -> None:
    with pytest.raises(InputError, match=rf"has {len(ids)} image\(s\); expected at least 2"):
        make_variant(spec).apply(image_corpus(ids))


def test_a_recipe_wants_as_many_images_as_it_has_sources() -> None:
    with pytest.raises(ValueError, match="1 images for a recipe of 2"):
        mix_recipe("0.5").draw([noise((3, 3), 0)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "mixx"}, "did you mean 'mix'"),
        ({"kind": None}, "unknown image recipe"),
        ({"level": "1.0"}, "field 'level' is '1.0'"),
        ({"level": 0.9}, "field 'level' is 0.9; expected a text"),
        ({"fake": {"row": -1, "id": "b"}}, "field 'row' is -1"),
        ({"fake": {"row": True, "id": "b"}}, "field 'row' is True"),
        ({"fake": {"row": 1}}, "'id' is missing"),
        ({"fake": 3}, "field 'fake' is 3"),
    ],
)
def test_a_wrong_description_names_its_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        recipe_from_json({**mix_recipe("0.9").describe(), **change})
    assert message in str(caught.value)


@pytest.mark.parametrize(("level", "changes"), [("0.998", True), ("0.9981", False), ("0.9999", False)])
def test_a_mix_that_can_change_no_pixel_is_refused(level: str, changes: bool) -> None:
    pair = image_corpus(["a", "b"])
    if not changes:
        with pytest.raises(InputError, match="changes no pixel"):
            make_variant(f"mix:{level}").apply(pair)
        return
    black, white = Image.new("RGB", (4, 4), 0), Image.new("RGB", (4, 4), (255, 255, 255))
    recipe = make_variant(f"mix:{level}").apply(pair).items[0].content
    assert not isinstance(recipe, str)
    assert np.any(np.asarray(recipe.draw([black, white])))
