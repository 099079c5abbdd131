"""A scene to a picture: where the groups of each layout stand, and the sprites set there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from engine.demo.backgrounds import paint
from engine.demo.drawings import sprite
from engine.demo.scenes import Group, Layout, Scene

SIDE = 192
"""Width and height of a picture in pixels."""

_SMALL = 0.56  # side of a small object, as a share of a large one's
_SURFACE = {"table": 0.52, "bed": 0.46, "sofa": 0.40, "chair": 0.42}  # top of a support, share of its height


@dataclass(frozen=True)
class _Place:
    """Where a group stands: the middle of its foot line and the side of a large object, in percent."""

    group: Group
    x: float
    foot: float
    large: float
    span: float

    @property
    def side(self) -> float:
        return self.large * (_SMALL if self.group.size == "small" else 1.0)


def render(scene: Scene, rng: np.random.Generator) -> Image.Image:
    """The picture of a scene, RGB [SIDE x SIDE]. The same scene and generator state give the same pixels."""
    horizon = float(rng.uniform(50, 56))
    picture = paint(scene.background, SIDE, horizon, rng)
    for place in _PLACERS[scene.layout](scene.groups, rng):
        _set(picture, place, rng)
    return picture


def _set(picture: Image.Image, place: _Place, rng: np.random.Generator) -> None:
    """Put every object of a group down, the furthest first."""
    group, side = place.group, place.side
    step = min(side * 0.86, (place.span - side) / max(1, group.number - 1))
    for x, lift in _formation(group.number, step, side):
        scale = float(rng.uniform(0.94, 1.06))
        pixels = max(8, round(side * scale * SIDE / 100))
        tile = sprite(group.noun, group.colour).resize((pixels, pixels), Image.Resampling.BILINEAR)
        if rng.random() < 0.5:
            tile = tile.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        left = round((place.x + x) * SIDE / 100 - pixels / 2)
        top = round((place.foot - lift) * SIDE / 100 - pixels)
        picture.paste(tile, (left, top), tile)


def _formation(number: int, step: float, side: float) -> tuple[tuple[float, float], ...]:
    """Offsets (right, up) of the objects of a group; three stand in a triangle when there is little room."""
    if number == 1:
        return ((0.0, 0.0),)
    if number == 2:
        return ((-step / 2, 0.0), (step / 2, 0.0))
    if step > side * 0.7:
        return ((-step, 0.0), (0.0, 0.0), (step, 0.0))
    return ((-step, side * 0.28), (step, side * 0.28), (0.0, -side * 0.28))


def _near(rng: np.random.Generator, middle: float, slack: float) -> float:
    return middle + float(rng.uniform(-slack, slack))


def _single(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    return [_Place(groups[0], _near(rng, 50, 8), _near(rng, 86, 3), 46, 96)]


def _row(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    foot = _near(rng, 84, 3)
    return [
        _Place(groups[0], _near(rng, 26, 2), foot + _near(rng, 0, 2), 35, 46),
        _Place(groups[1], _near(rng, 74, 2), foot + _near(rng, 0, 2), 35, 46),
    ]


def _depth(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    middle, side = _near(rng, 50, 8), (-1 if rng.random() < 0.5 else 1)
    front, back = groups
    spread = 4 if max(front.number, back.number) > 1 else 8
    return [
        _Place(back, middle + side * spread, _near(rng, 65, 1), 42, 84),
        _Place(front, middle - side * spread, _near(rng, 96, 1), 34, 80),
    ]


def _on(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    carried, support = groups
    x, foot = _near(rng, 50, 9), _near(rng, 95, 2)
    below = _Place(support, x, foot, 58, 58)
    surface = foot - below.side * (1 - _SURFACE[support.noun])
    return [below, _Place(carried, x, surface, 30, max(below.side * 0.86, 24))]


def _above(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    x = _near(rng, 50, 10)
    return [
        _Place(groups[1], x + _near(rng, 0, 4), _near(rng, 93, 2), 38, 80),
        _Place(groups[0], x + _near(rng, 0, 4), _near(rng, 39, 2), 31, 84),
    ]


def _three(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    foot = _near(rng, 82, 3)
    return [
        _Place(group, _near(rng, x, 1), foot + _near(rng, 0, 3), 27, 31)
        for group, x in zip(groups, (17, 50, 83), strict=True)
    ]


def _row_above(groups: tuple[Group, ...], rng: np.random.Generator) -> list[_Place]:
    left, right, flyer = groups
    foot = _near(rng, 90, 3)
    return [
        _Place(left, _near(rng, 27, 2), foot, 32, 44),
        _Place(right, _near(rng, 73, 2), foot, 32, 44),
        _Place(flyer, _near(rng, 50, 5), _near(rng, 40, 2), 30, 80),
    ]


_PLACERS: dict[Layout, Callable[[tuple[Group, ...], np.random.Generator], list[_Place]]] = {
    "single": _single, "row": _row, "depth": _depth, "on": _on, "above": _above, "three": _three,
    "row_above": _row_above,
}  # fmt: skip
