from __future__ import annotations

import numpy as np
import pytest

from engine.demo import scenes
from engine.demo.backgrounds import PAINTERS
from engine.demo.drawings import DRAWINGS, sprite
from engine.demo.render import SIDE, render
from engine.demo.scenes import BACKGROUNDS, COLOURS, LAYOUTS, NOUNS, Group, Scene, generator, sample_scene

SAMPLE = range(400)


def picture(index: int, seed: int = 0) -> bytes:
    return render(sample_scene("test", seed, index), generator("test", seed, index, "picture")).tobytes()


def test_a_scene_is_a_function_of_split_seed_and_index() -> None:
    forwards = [sample_scene("test", 3, index) for index in SAMPLE]
    backwards = [sample_scene("test", 3, index) for index in reversed(SAMPLE)]
    assert forwards == backwards[::-1]
    assert forwards != [sample_scene("test", 4, index) for index in SAMPLE]
    assert forwards != [sample_scene("train", 3, index) for index in SAMPLE]


def test_a_picture_does_not_depend_on_what_was_drawn_before() -> None:
    first = picture(7)
    sprite.cache_clear()
    picture(8)
    assert picture(7) == first
    assert picture(7, seed=1) != first


def test_no_description_is_in_both_splits() -> None:
    train = {sample_scene("train", seed, index) for seed in (0, 1) for index in range(4000)}
    test = {sample_scene("test", seed, index) for seed in (0, 1) for index in range(1000)}
    assert not train & test
    assert all(scene.split == "test" for scene in test)


def test_one_description_in_eight_is_kept_for_testing() -> None:
    splits = [
        Scene(background, "row", (Group(noun, colour, "small", 1), Group("cake", "blue", "large", 2))).split
        for background in BACKGROUNDS
        for noun in NOUNS
        for colour in COLOURS
    ]
    assert splits.count("test") / len(splits) == pytest.approx(1 / 8, abs=0.02)


def test_scenes_use_the_whole_vocabulary() -> None:
    found = [sample_scene("train", 0, index) for index in range(3000)]
    groups = [group for scene in found for group in scene.groups]
    assert {group.noun for group in groups} == set(NOUNS)
    assert {group.colour for group in groups} == set(COLOURS)
    assert {group.number for group in groups} == {1, 2, 3}
    assert {group.size for group in groups} == {"small", "large"}
    assert {scene.background for scene in found} == set(BACKGROUNDS)
    assert {scene.layout for scene in found} == set(LAYOUTS)
    assert {len(scene.groups) for scene in found} == {1, 2, 3}


def test_nouns_of_a_scene_differ() -> None:
    for index in SAMPLE:
        nouns = [group.noun for group in sample_scene("test", 0, index).groups]
        assert len(set(nouns)) == len(nouns)


def test_about_thirty_nouns_over_several_concepts() -> None:
    assert len(NOUNS) >= 30
    assert len(set(NOUNS.values())) >= 6
    assert sum(LAYOUTS.values()) == pytest.approx(1)


def test_every_noun_and_background_has_a_drawing() -> None:
    assert set(DRAWINGS) == set(NOUNS)
    assert set(PAINTERS) == set(BACKGROUNDS)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_shows_its_colour_and_stands_on_its_lower_edge(noun: str) -> None:
    red, blue = (np.asarray(sprite(noun, colour)).astype(int) for colour in ("red", "blue"))
    assert (red[..., 3] > 128).mean() > 0.1
    assert (np.abs(red - blue).sum(axis=2) > 100).mean() > 0.03
    assert (red[-9:, :, 3] > 128).any() or noun in ("airplane", "butterfly", "banana", "car")


def test_nouns_differ_from_each_other() -> None:
    flat = np.stack([np.asarray(sprite(noun, "red").resize((24, 24))).astype(int).ravel() for noun in NOUNS])
    apart = np.abs(flat[:, None] - flat[None]).mean(axis=2) + 1000 * np.eye(len(flat))
    assert apart.min() > 12


def test_left_is_left_and_above_is_above() -> None:
    groups = (Group("kite", "red", "large", 1), Group("bus", "blue", "large", 1))
    for layout, axis in (("row", 1), ("above", 0)):
        for index in range(10):
            scene = Scene("snow", layout, groups)  # type: ignore[arg-type]
            pixels = np.asarray(render(scene, np.random.default_rng(index))).astype(int)
            red = (pixels[..., 0] > 190) & (pixels[..., 2] < 90)
            blue = (pixels[..., 2] > 190) & (pixels[..., 0] < 90)
            assert np.nonzero(red)[axis].mean() < np.nonzero(blue)[axis].mean() - SIDE / 5


def test_the_front_hides_the_back() -> None:
    groups = (Group("ball", "red", "large", 3), Group("bus", "blue", "large", 3))
    scene = Scene("snow", "depth", groups)
    pixels = np.asarray(render(scene, np.random.default_rng(0))).astype(int)
    red = (pixels[..., 0] > 190) & (pixels[..., 2] < 90)
    blue = (pixels[..., 2] > 190) & (pixels[..., 0] < 90)
    assert np.nonzero(red)[0].mean() > np.nonzero(blue)[0].mean() + SIDE / 10


def test_size_and_number_show() -> None:
    def painted(size: str, number: int) -> int:
        group = Group("bus", "red", size, number)  # type: ignore[arg-type]
        pixels = np.asarray(render(Scene("snow", "single", (group,)), np.random.default_rng(5))).astype(int)
        return int(((pixels[..., 0] > 190) & (pixels[..., 2] < 90)).sum())

    assert painted("large", 1) > 2 * painted("small", 1)
    assert painted("small", 3) > 2.5 * painted("small", 1)


def test_negative_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        scenes.generator("test", -1, 0, "scene")
