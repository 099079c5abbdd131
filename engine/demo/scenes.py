"""What a scene says: nouns, colours, sizes, numbers, places and a background, sampled from a seed.

A scene knows nothing of pixels (see `render`) or of wordings (see `captions`). Every scene belongs to one of
two splits by the digest of what it says, so that no description can be in both, whatever the seeds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

Split: TypeAlias = Literal["train", "test"]
Layout: TypeAlias = Literal["single", "row", "depth", "on", "above", "three", "row_above"]
Size: TypeAlias = Literal["small", "large"]

NOUNS: dict[str, str] = {
    "dog": "animal", "cat": "animal", "bird": "animal", "horse": "animal",
    "elephant": "animal", "rabbit": "animal", "duck": "animal", "butterfly": "animal",
    "car": "vehicle", "bus": "vehicle", "bicycle": "vehicle", "boat": "vehicle", "airplane": "vehicle",
    "apple": "food", "banana": "food", "cake": "food", "pumpkin": "food",
    "man": "person", "woman": "person", "boy": "person",
    "chair": "furniture", "table": "furniture", "bed": "furniture", "sofa": "furniture", "lamp": "furniture",
    "umbrella": "thing", "clock": "thing", "cup": "thing", "balloon": "thing",
    "kite": "thing", "guitar": "thing", "ball": "thing", "hat": "thing",
    "tree": "plant", "flower": "plant", "cactus": "plant", "mushroom": "plant",
    "house": "building", "tent": "building", "tower": "building",
}  # fmt: skip
"""Every drawn noun and its concept."""

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
SIZES: tuple[Size, ...] = ("small", "large")
BACKGROUNDS = (
    "beach", "meadow", "street", "room", "snow", "night", "lake", "desert", "forest", "mountains",
)  # fmt: skip
FLYERS = ("bird", "butterfly", "airplane", "balloon", "kite")
SUPPORTS = ("table", "bed", "sofa", "chair")
LAYOUTS: dict[Layout, float] = {
    "single": 0.07, "row": 0.31, "depth": 0.16, "on": 0.10, "above": 0.12, "three": 0.14, "row_above": 0.10,
}  # fmt: skip
"""Every layout and its share of the scenes."""

TEST_SHARE = 8
"""One description in so many is kept for testing."""

_CARRIED = tuple(n for n, c in NOUNS.items() if c not in ("vehicle", "furniture", "building", "person"))
_GROUNDED = tuple(n for n in NOUNS if n not in ("balloon", "kite", "airplane"))
_STREAMS = {"train": 1, "test": 2}
_PURPOSES = {"scene": 1, "picture": 2, "captions": 3}


@dataclass(frozen=True)
class Group:
    """`number` (1 to 3) equal objects of one noun, colour and size."""

    noun: str
    colour: str
    size: Size
    number: int


@dataclass(frozen=True)
class Scene:
    """One to three groups on a background; `layout` says how the groups lie to each other.

    single: one group. row: 0 left of 1. depth: 0 in front of 1. on: 0 on top of 1.
    above: 0 in the air over 1. three: 0 left of 1 left of 2.
    row_above: 0 left of 1, and 2 in the air above both.
    """

    background: str
    layout: Layout
    groups: tuple[Group, ...]

    @property
    def split(self) -> Split:
        """The only split this description may appear in."""
        digest = hashlib.sha256(repr((self.background, self.layout, self.groups)).encode()).digest()
        return "test" if digest[0] % TEST_SHARE == 0 else "train"


def generator(split: Split, seed: int, index: int, purpose: str) -> np.random.Generator:
    """The random generator of one scene for one purpose ("scene", "picture", "captions").

    Raises ValueError for a negative seed or index (numpy seeds are not negative).
    """
    return np.random.default_rng([_STREAMS[split], seed, index, _PURPOSES[purpose]])


def sample_scene(split: Split, seed: int, index: int) -> Scene:
    """Scene `index` of a split: a pure function of its arguments."""
    rng = generator(split, seed, index, "scene")
    while True:
        scene = _draw(rng)
        if scene.split == split:
            return scene


def _pick(rng: np.random.Generator, options: tuple[str, ...], taken: tuple[str, ...] = ()) -> str:
    left = [option for option in options if option not in taken]
    return left[int(rng.integers(len(left)))]


def _group(
    rng: np.random.Generator, nouns: tuple[str, ...], others: tuple[Group, ...], most: int = 3
) -> Group:
    size: Size = "small" if rng.random() < 0.5 else "large"
    return Group(
        noun=_pick(rng, nouns, tuple(group.noun for group in others)),
        colour=_pick(rng, COLOURS),
        size=size,
        number=1 + int(rng.choice(most, p=((1.0,), (0.6, 0.4), (0.5, 0.3, 0.2))[most - 1])),
    )


def _draw(rng: np.random.Generator) -> Scene:
    background = _pick(rng, BACKGROUNDS)
    names = tuple(LAYOUTS)
    layout = names[int(rng.choice(len(names), p=tuple(LAYOUTS.values())))]
    everything = tuple(NOUNS)
    groups: tuple[Group, ...]
    if layout == "single":
        groups = (_group(rng, everything, ()),)
    elif layout == "on":
        support = _group(rng, SUPPORTS, (), most=1)
        groups = (_group(rng, _CARRIED, (support,), most=2), support)
    elif layout in ("above", "row_above"):
        flyer = _group(rng, FLYERS, ())
        first = _group(rng, _GROUNDED, (flyer,), most=3 if layout == "above" else 2)
        if layout == "above":
            groups = (flyer, first)
        else:
            groups = (first, _group(rng, _GROUNDED, (flyer, first), most=2), flyer)
    else:
        count, most = (3, 2) if layout == "three" else (2, 3)
        groups = ()
        for _ in range(count):
            groups = (*groups, _group(rng, everything, groups, most))
    return Scene(background, layout, groups)
