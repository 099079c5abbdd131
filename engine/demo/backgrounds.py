"""One drawing a background: everything behind the groups of a scene."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from engine.demo.pen import Colour, mix

PAINTERS: dict[str, Callable[[Canvas], None]] = {}
"""Every background that can be painted."""

_OVERSAMPLING = 2


class Canvas:
    """A picture of 100 x 100 units with a horizon; `rng` moves clouds, dunes and stars about."""

    def __init__(self, side: int, horizon: float, rng: np.random.Generator) -> None:
        self.horizon, self.rng = horizon, rng
        self._unit = side * _OVERSAMPLING / 100
        self._image = Image.new("RGB", (side * _OVERSAMPLING,) * 2)
        self._draw = ImageDraw.Draw(self._image)

    def between(self, low: float, high: float) -> float:
        """A random number."""
        return float(self.rng.uniform(low, high))

    def fade(self, top: float, bottom: float, upper: Colour, lower: Colour) -> None:
        """A band over the whole width whose colour changes downwards."""
        first, last = round(top * self._unit), round(bottom * self._unit)
        column = Image.new("RGB", (1, 16))
        for step in range(16):
            column.putpixel((0, step), mix(upper, lower, step / 15))
        size = (self._image.width, max(1, last - first))
        self._image.paste(column.resize((1, size[1]), Image.Resampling.BILINEAR).resize(size), (0, first))

    def oval(self, x: float, y: float, half_width: float, half_height: float, fill: Colour) -> None:
        """A filled ellipse around a point."""
        u = self._unit
        box = ((x - half_width) * u, (y - half_height) * u, (x + half_width) * u, (y + half_height) * u)
        self._draw.ellipse(box, fill=fill)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Colour) -> None:
        """A filled rectangle."""
        u = self._unit
        self._draw.rectangle((left * u, top * u, right * u, bottom * u), fill=fill)

    def shape(self, points: list[tuple[float, float]], fill: Colour) -> None:
        """A filled polygon."""
        self._draw.polygon([(x * self._unit, y * self._unit) for x, y in points], fill=fill)

    def clouds(self, count: int, fill: Colour) -> None:
        """Some clouds in the sky."""
        for _ in range(count):
            x, y, size = self.between(5, 95), self.between(5, self.horizon * 0.5), self.between(4, 7)
            for dx, dy, share in ((-1.1, 0.25, 0.7), (0, 0, 1), (1.2, 0.3, 0.65)):
                self.oval(x + dx * size, y + dy * size, size * share * 1.3, size * share * 0.75, fill)

    def specks(self, count: int, top: float, bottom: float, radius: float, fill: Colour) -> None:
        """Small dots."""
        for _ in range(count):
            self.oval(self.between(0, 100), self.between(top, bottom), radius, radius, fill)

    def finish(self) -> Image.Image:
        """The picture, RGB."""
        return self._image.reduce(_OVERSAMPLING)


def paint(name: str, side: int, horizon: float, rng: np.random.Generator) -> Image.Image:
    """A background, RGB [side x side]; `horizon` in percent of the height. KeyError for an unknown name."""
    canvas = Canvas(side, horizon, rng)
    PAINTERS[name](canvas)
    return canvas.finish()


def _painter(function: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
    PAINTERS[function.__name__.strip("_")] = function
    return function


@_painter
def _beach(c: Canvas) -> None:
    c.fade(0, c.horizon, (135, 205, 250), (205, 235, 250))
    c.clouds(2, (250, 252, 255))
    c.oval(c.between(10, 90), c.between(8, 16), 6, 6, (255, 225, 90))
    c.fade(c.horizon - 12, c.horizon + 4, (35, 120, 190), (80, 190, 215))
    c.fade(c.horizon + 4, 100, (250, 225, 165), (235, 200, 130))
    for x in range(-5, 105, 14):
        c.oval(x + c.between(-2, 2), c.horizon + 4, 9, 1.6, (240, 250, 252))
    c.specks(24, c.horizon + 10, 99, 0.5, (205, 165, 100))


@_painter
def _meadow(c: Canvas) -> None:
    c.fade(0, c.horizon, (150, 210, 250), (220, 242, 252))
    c.clouds(3, (255, 255, 255))
    c.oval(c.between(0, 40), c.horizon + 10, 50, 20, (150, 205, 105))
    c.oval(c.between(60, 100), c.horizon + 10, 50, 18, (135, 195, 95))
    c.fade(c.horizon, 100, (140, 205, 90), (95, 170, 65))
    c.specks(12, c.horizon + 4, 98, 0.9, (255, 245, 150))
    c.specks(10, c.horizon + 4, 98, 0.9, (255, 255, 255))


@_painter
def _street(c: Canvas) -> None:
    c.fade(0, c.horizon, (190, 205, 220), (225, 230, 235))
    x = -c.between(0, 8)
    while x < 100:
        width, height = c.between(12, 20), c.between(18, 42)
        wall = ((165, 140, 130), (140, 145, 160), (180, 165, 145))[int(c.rng.integers(3))]
        c.box(x, c.horizon - height, x + width, c.horizon, wall)
        for row in range(int(height // 8)):
            for column in range(int(width // 5)):
                left, top = x + 1.7 + column * 5, c.horizon - height + 3 + row * 8
                c.box(left, top, left + 2.2, top + 3.6, (235, 225, 170))
        x += width
    c.box(0, c.horizon, 100, c.horizon + 7, (190, 190, 190))
    c.fade(c.horizon + 7, 100, (105, 107, 112), (88, 90, 96))
    shift = c.between(0, 20)
    for left in range(-20, 110, 20):
        c.box(left + shift, c.horizon + 25, left + shift + 11, c.horizon + 27.5, (240, 240, 235))


@_painter
def _room(c: Canvas) -> None:
    c.fade(0, c.horizon, (240, 215, 195), (248, 228, 208))
    for x in range(4, 100, 10):
        c.box(x, 0, x + 1.4, c.horizon, (232, 200, 178))
    left = c.between(8, 66)
    c.box(left, 8, left + 26, 34, (255, 255, 255))
    c.box(left + 2, 10, left + 12, 32, (165, 215, 245))
    c.box(left + 14, 10, left + 24, 32, (165, 215, 245))
    c.fade(c.horizon, 100, (185, 130, 85), (160, 105, 65))
    c.box(0, c.horizon - 2.5, 100, c.horizon, (255, 250, 245))
    for y in range(8, 50, 9):
        c.box(0, c.horizon + y, 100, c.horizon + y + 0.7, (140, 90, 55))


@_painter
def _snow(c: Canvas) -> None:
    c.fade(0, c.horizon + 5, (165, 185, 210), (205, 218, 232))
    for _ in range(5):
        x, size = c.between(0, 100), c.between(6, 10)
        for step in range(3):
            top = c.horizon - size * (2.6 - step * 0.7)
            half = size * (0.4 + step * 0.2)
            c.shape([(x, top), (x - half, top + size), (x + half, top + size)], (120, 150, 160))
    c.oval(c.between(10, 40), c.horizon + 14, 55, 18, (228, 236, 245))
    c.fade(c.horizon + 4, 100, (236, 242, 250), (212, 224, 240))
    c.specks(45, 0, 98, 0.8, (255, 255, 255))


@_painter
def _night(c: Canvas) -> None:
    c.fade(0, c.horizon + 3, (22, 28, 72), (58, 62, 128))
    c.specks(38, 0, c.horizon - 4, 0.6, (255, 250, 215))
    x, y = c.between(12, 88), c.between(10, 18)
    c.oval(x, y, 7, 7, (250, 240, 190))
    c.oval(x + 3, y - 1.5, 6, 6, (33, 38, 84))
    c.oval(c.between(0, 100), c.horizon + 12, 60, 18, (50, 66, 104))
    c.fade(c.horizon + 2, 100, (66, 84, 116), (50, 64, 98))


@_painter
def _lake(c: Canvas) -> None:
    c.fade(0, c.horizon - 10, (185, 220, 245), (225, 240, 248))
    c.clouds(2, (255, 255, 255))
    c.oval(c.between(0, 100), c.horizon - 10, 60, 9, (110, 150, 120))
    c.fade(c.horizon - 10, 92, (70, 150, 200), (40, 110, 175))
    for _ in range(16):
        x, y = c.between(0, 100), c.between(c.horizon - 6, 88)
        c.oval(x, y, 5, 0.5, (150, 205, 230))
    c.fade(90, 100, (120, 165, 80), (100, 145, 65))
    for _ in range(9):
        x = c.between(0, 100)
        c.shape([(x - 0.7, 94), (x + c.between(-2, 2), c.between(78, 86)), (x + 0.7, 94)], (70, 115, 50))


@_painter
def _desert(c: Canvas) -> None:
    c.fade(0, c.horizon + 4, (250, 190, 120), (253, 225, 170))
    c.oval(c.between(15, 85), c.between(12, 22), 9, 9, (255, 245, 200))
    c.oval(c.between(0, 40), c.horizon + 6, 45, 16, (225, 150, 85))
    c.oval(c.between(60, 100), c.horizon + 6, 45, 13, (215, 140, 78))
    c.fade(c.horizon + 3, 100, (230, 160, 92), (205, 130, 68))
    for y in range(12, 46, 9):
        c.oval(c.between(0, 100), c.horizon + y, 20, 0.6, (190, 115, 60))


@_painter
def _forest(c: Canvas) -> None:
    c.fade(0, c.horizon, (70, 115, 80), (120, 160, 110))
    for _ in range(9):
        x, width = c.between(0, 100), c.between(2, 3.6)
        c.box(x - width, 0, x + width, c.horizon + 3, (84, 66, 52))
    for x in range(-4, 106, 9):
        c.oval(x + c.between(-3, 3), c.between(-3, 6), 9, 8, (42, 88, 56))
    c.fade(c.horizon, 100, (82, 112, 62), (58, 84, 46))
    for _ in range(14):
        x, y = c.between(0, 100), c.between(c.horizon + 3, 98)
        c.shape([(x - 2, y), (x, y - 4), (x + 2, y)], (50, 96, 52))


@_painter
def _mountains(c: Canvas) -> None:
    c.fade(0, c.horizon, (170, 200, 240), (232, 238, 248))
    for x, size in ((c.between(0, 20), 44), (c.between(75, 100), 40), (c.between(38, 62), 52)):
        top = c.horizon - size
        c.shape([(x, top), (x - size * 0.75, c.horizon), (x + size * 0.75, c.horizon)], (125, 128, 148))
        edge = ((-0.22, 0.3), (-0.06, 0.24), (0.05, 0.32), (0.22, 0.3))
        c.shape([(x, top), *((x + size * dx, top + size * dy) for dx, dy in edge)], (250, 252, 255))
    c.fade(c.horizon, 100, (150, 165, 105), (120, 135, 80))
    for _ in range(8):
        c.oval(c.between(0, 100), c.between(c.horizon + 5, 98), 2.2, 1.2, (150, 150, 148))
