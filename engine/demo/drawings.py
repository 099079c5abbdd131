"""One drawing a noun: what it looks like. All face right and stand on the lower edge of the pen's square."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import cos, pi, sin

from PIL import Image

from engine.demo.pen import GLASS, GOLD, INK, LEAF, PALETTE, SKIN, SNOW, WOOD, Colour, Pen, mix

DRAWINGS: dict[str, Callable[[Pen], None]] = {}
"""Every noun that can be drawn."""

_ORANGE = PALETTE["orange"]
_HAIR: Colour = (92, 58, 38)
_GREY: Colour = (150, 152, 160)


def _drawing(function: Callable[[Pen], None]) -> Callable[[Pen], None]:
    DRAWINGS[function.__name__.strip("_")] = function
    return function


@cache
def sprite(noun: str, colour: str) -> Image.Image:
    """The noun in a colour, RGBA. Shared between calls: not to be changed. KeyError for unknown names."""
    pen = Pen(PALETTE[colour])
    DRAWINGS[noun](pen)
    return pen.finish()


# animals


@_drawing
def _dog(p: Pen) -> None:
    p.line([(18, 56), (8, 44), (9, 32)], 6)
    for x in (20, 31, 55, 66):
        p.box(x, 66, x + 8, 97, p.dark if x in (31, 55) else p.main, 3)
    p.box(14, 48, 76, 77, round_=14)
    p.shape([(56, 55), (62, 32), (82, 42), (76, 66)])
    p.oval(57, 18, 88, 50)
    p.oval(74, 32, 99, 51, p.light)
    p.oval(92, 33, 99, 40, INK)
    p.oval(55, 18, 68, 50, p.dark)
    p.eye(77, 29)
    p.line([(60, 53), (76, 56)], 4, PALETTE["red"] if p.main != PALETTE["red"] else GOLD)


@_drawing
def _cat(p: Pen) -> None:
    p.arc(56, 56, 97, 95, 250, 110, 8)
    p.oval(27, 44, 73, 98)
    p.oval(38, 60, 62, 98, p.light)
    p.shape([(27, 36), (25, 4), (48, 20)])
    p.shape([(73, 36), (75, 4), (52, 20)])
    p.shape([(31, 26), (29, 12), (41, 21)], PALETTE["pink"])
    p.shape([(69, 26), (71, 12), (59, 21)], PALETTE["pink"])
    p.oval(24, 14, 76, 56)
    p.eye(39, 33, 4)
    p.eye(61, 33, 4)
    p.shape([(46, 41), (54, 41), (50, 46)], PALETTE["pink"])
    for y in (40, 46):
        p.line([(20, y), (36, 43)], 1, p.dark)
        p.line([(80, y), (64, 43)], 1, p.dark)
    p.oval(32, 88, 48, 98, p.dark)
    p.oval(52, 88, 68, 98, p.dark)


@_drawing
def _bird(p: Pen) -> None:
    p.line([(45, 76), (43, 97), (52, 97)], 2.5, _ORANGE)
    p.line([(57, 76), (57, 97), (66, 97)], 2.5, _ORANGE)
    p.shape([(30, 60), (2, 74), (6, 58), (26, 46)], p.dark)
    p.oval(20, 32, 76, 82)
    p.oval(50, 12, 86, 48)
    p.oval(48, 50, 74, 80, p.light)
    p.shape([(83, 24), (99, 32), (83, 38)], _ORANGE)
    p.slice(20, 34, 58, 74, -10, 190, p.dark)
    p.eye(73, 27, 3)


@_drawing
def _horse(p: Pen) -> None:
    p.line([(14, 46), (5, 58), (6, 78)], 7, p.dark)
    for x in (17, 29, 53, 64):
        p.box(x, 58, x + 8, 94, p.dark if x in (29, 53) else p.main)
        p.box(x, 91, x + 8, 98, INK)
    p.box(12, 40, 74, 67, round_=13)
    p.shape([(52, 48), (66, 8), (82, 14), (75, 58)])
    p.shape([(66, 8), (80, 6), (98, 30), (92, 38), (74, 28)])
    p.shape([(69, 10), (70, 0), (77, 8)])
    p.shape([(66, 4), (58, 8), (46, 42), (56, 44)], p.dark)
    p.eye(79, 16)
    p.oval(91, 29, 95, 33, INK)


@_drawing
def _elephant(p: Pen) -> None:
    p.line([(10, 46), (5, 64)], 3, p.dark)
    for x in (14, 29, 46, 58):
        p.box(x, 64, x + 13, 97, p.dark if x in (29, 46) else p.main, 3)
        p.box(x + 1, 93, x + 12, 97, SNOW)
    p.oval(7, 26, 72, 82)
    p.oval(54, 18, 90, 58)
    p.line([(84, 44), (90, 62), (88, 80), (96, 84)], 9)
    p.shape([(78, 54), (98, 62), (80, 61)], SNOW)
    p.oval(44, 20, 70, 62, p.dark)
    p.oval(48, 26, 66, 56, p.light)
    p.eye(79, 33)


@_drawing
def _rabbit(p: Pen) -> None:
    for x in (31, 53):
        p.oval(x, 0, x + 16, 46)
        p.oval(x + 4, 7, x + 12, 40, PALETTE["pink"] if p.main != PALETTE["pink"] else SNOW)
    p.oval(68, 76, 84, 92, SNOW)
    p.oval(26, 56, 74, 98)
    p.oval(36, 66, 64, 98, p.light)
    p.oval(28, 32, 72, 68)
    p.eye(41, 47, 3.4)
    p.eye(59, 47, 3.4)
    p.oval(47, 52, 53, 57, p.dark)
    p.box(47, 58, 53, 65, SNOW)
    p.oval(20, 88, 46, 98, p.dark)
    p.oval(54, 88, 80, 98, p.dark)


@_drawing
def _duck(p: Pen) -> None:
    p.box(38, 84, 43, 97, _ORANGE)
    p.box(52, 84, 57, 97, _ORANGE)
    p.shape([(36, 97), (50, 97), (40, 91)], _ORANGE)
    p.shape([(50, 97), (66, 97), (54, 91)], _ORANGE)
    p.shape([(4, 46), (24, 62), (12, 70)])
    p.slice(6, 24, 84, 92, -15, 195)
    p.box(58, 28, 76, 66, round_=8)
    p.oval(52, 8, 84, 40)
    p.box(78, 22, 99, 31, _ORANGE if p.main != _ORANGE else GOLD, 4)
    p.slice(22, 42, 58, 80, 0, 180, p.dark)
    p.line([(58, 45), (76, 45)], 3, SNOW if sum(p.main) < 650 else p.dark)
    p.eye(72, 19, 3)


@_drawing
def _butterfly(p: Pen) -> None:
    for sign in (-1, 1):
        p.oval(50 + sign * 24 - 23, 10, 50 + sign * 24 + 23, 58)
        p.oval(50 + sign * 19 - 18, 50, 50 + sign * 19 + 18, 90, p.dark)
        p.oval(50 + sign * 28 - 10, 20, 50 + sign * 28 + 10, 44, p.light)
        p.oval(50 + sign * 20 - 7, 62, 50 + sign * 20 + 7, 78, p.light)
        p.line([(50, 24), (50 + sign * 10, 6), (50 + sign * 14, 5)], 2, INK)
    p.oval(45, 20, 55, 86, INK)


# vehicles


def _wheel(p: Pen, x: float, y: float, radius: float) -> None:
    p.oval(x - radius, y - radius, x + radius, y + radius, (45, 45, 50))
    p.oval(x - radius * 0.5, y - radius * 0.5, x + radius * 0.5, y + radius * 0.5, (200, 200, 205))


@_drawing
def _car(p: Pen) -> None:
    p.shape([(20, 58), (30, 32), (66, 32), (82, 58)])
    p.shape([(27, 56), (34, 38), (48, 38), (48, 56)], GLASS)
    p.shape([(52, 56), (52, 38), (64, 38), (74, 56)], GLASS)
    p.box(3, 54, 97, 84, round_=9)
    p.box(3, 70, 97, 76, p.dark)
    p.oval(88, 59, 96, 67, GOLD)
    p.box(3, 60, 9, 67, PALETTE["red"], 2)
    _wheel(p, 24, 84, 13)
    _wheel(p, 76, 84, 13)


@_drawing
def _bus(p: Pen) -> None:
    p.box(2, 20, 98, 86, round_=8)
    for x in (8, 26, 44, 62):
        p.box(x, 30, x + 14, 50, GLASS, 2)
    p.box(80, 30, 94, 78, GLASS, 2)
    p.box(2, 58, 77, 65, p.light)
    p.oval(90, 78, 97, 84, GOLD)
    _wheel(p, 22, 86, 11)
    _wheel(p, 68, 86, 11)


@_drawing
def _bicycle(p: Pen) -> None:
    for x in (23, 77):
        p.ring(x, 74, 22, 4.5, (60, 60, 66))
        for angle in range(0, 180, 45):
            dx, dy = 19 * cos(angle * pi / 180), 19 * sin(angle * pi / 180)
            p.line([(x - dx, 74 - dy), (x + dx, 74 + dy)], 0.9, _GREY)
    p.line([(23, 74), (40, 44), (68, 44), (48, 74), (23, 74)], 6)
    p.line([(48, 74), (37, 34)], 6)
    p.line([(77, 74), (65, 32)], 6)
    p.line([(28, 33), (46, 33)], 6, INK)
    p.line([(65, 32), (78, 27), (82, 33)], 4, INK)
    p.oval(43, 69, 53, 79, p.dark)


@_drawing
def _boat(p: Pen) -> None:
    p.box(46, 4, 50, 72, WOOD)
    p.shape([(53, 8), (53, 62), (90, 62)], SNOW)
    p.shape([(43, 16), (43, 62), (14, 62)], (232, 232, 225))
    p.shape([(50, 2), (66, 7), (50, 12)], p.main)
    p.shape([(2, 68), (98, 68), (82, 97), (18, 97)])
    p.shape([(2, 68), (98, 68), (94, 75), (6, 75)], p.dark)
    for x in (30, 50, 70):
        p.oval(x - 4, 79, x + 4, 87, SNOW)


@_drawing
def _airplane(p: Pen) -> None:
    p.shape([(6, 20), (18, 20), (32, 52), (12, 52)], p.dark)
    p.shape([(44, 50), (38, 22), (48, 22), (66, 50)], p.dark)
    p.box(4, 42, 97, 68, round_=13)
    p.slice(78, 42, 99, 68, 270, 30, GLASS)
    for x in (28, 40, 52, 64):
        p.oval(x - 3.5, 47, x + 3.5, 54, GLASS)
    p.shape([(36, 60), (62, 60), (38, 92), (26, 92)], p.dark)


# food


@_drawing
def _apple(p: Pen) -> None:
    p.line([(50, 30), (54, 10)], 4, _HAIR)
    p.shape([(54, 20), (66, 6), (82, 8), (72, 22)], LEAF)
    p.oval(10, 24, 62, 92)
    p.oval(38, 24, 90, 92)
    p.oval(26, 40, 74, 98)
    p.oval(20, 36, 34, 56, p.light)


@_drawing
def _banana(p: Pen) -> None:
    steps = [i / 24 for i in range(25)]

    def along(t: float, radius: float) -> tuple[float, float]:
        angle = (10 + 140 * t) * pi / 180
        return 38 + radius * cos(angle), 22 + radius * sin(angle)

    half = [3 + 13 * sin(pi * t) ** 0.7 for t in steps]
    outer = [along(t, 52 + h) for t, h in zip(steps, half, strict=True)]
    inner = [along(t, 52 - h) for t, h in zip(steps, half, strict=True)]
    p.shape(outer + inner[::-1])
    p.line([along(t, 55) for t in steps[3:22]], 2.2, p.dark)
    p.line([along(0.0, 52), (92, 14)], 7, _HAIR)
    x, y = along(1.0, 52)
    p.oval(x - 4, y - 4, x + 4, y + 4, _HAIR)


@_drawing
def _cake(p: Pen) -> None:
    p.oval(4, 84, 96, 98, _GREY)
    p.box(12, 52, 88, 92, (240, 214, 165), 4)
    p.box(12, 68, 88, 75, p.dark)
    p.box(12, 44, 88, 58, round_=6)
    for x in (14, 29, 44, 59, 74):
        p.oval(x, 50, x + 13, 68)
    for x in (28, 50, 72):
        p.box(x - 2.5, 24, x + 2.5, 46, SNOW)
        p.box(x - 2.5, 32, x + 2.5, 37, PALETTE["red"])
        p.oval(x - 3.5, 11, x + 3.5, 24, GOLD)


@_drawing
def _pumpkin(p: Pen) -> None:
    p.line([(50, 34), (48, 20), (56, 13)], 7, LEAF)
    for left, right, fill in ((3, 45, p.dark), (55, 97, p.dark), (16, 60, p.main), (40, 84, p.main)):
        p.oval(left, 32, right, 97, fill)
    p.oval(32, 30, 68, 98, p.light if p.main != PALETTE["white"] else p.dark)
    p.shape([(24, 58), (38, 58), (31, 46)], INK)
    p.shape([(62, 58), (76, 58), (69, 46)], INK)
    p.shape([(24, 68), (76, 68), (64, 84), (56, 76), (50, 84), (44, 76), (36, 84)], INK)


# people


@_drawing
def _man(p: Pen) -> None:
    p.box(36, 64, 48, 96, (70, 76, 105))
    p.box(52, 64, 64, 96, (70, 76, 105))
    p.oval(30, 92, 49, 99, INK)
    p.oval(51, 92, 70, 99, INK)
    p.line([(33, 38), (22, 62)], 9)
    p.line([(67, 38), (78, 62)], 9)
    p.oval(17, 59, 27, 69, SKIN)
    p.oval(73, 59, 83, 69, SKIN)
    p.box(31, 33, 69, 68, round_=6)
    p.oval(36, 5, 64, 35, SKIN)
    p.slice(34, 2, 66, 30, 180, 360, _HAIR)
    p.slice(38, 14, 62, 36, 10, 170, _HAIR)
    p.oval(43, 17, 47, 21, INK)
    p.oval(53, 17, 57, 21, INK)


@_drawing
def _woman(p: Pen) -> None:
    hair: Colour = (190, 120, 45)
    p.box(41, 76, 47, 97, SKIN)
    p.box(53, 76, 59, 97, SKIN)
    p.oval(36, 93, 48, 99, INK)
    p.oval(52, 93, 64, 99, INK)
    p.box(30, 8, 70, 50, hair, 16)
    p.line([(40, 40), (25, 60)], 6, SKIN)
    p.line([(60, 40), (75, 60)], 6, SKIN)
    p.shape([(40, 36), (60, 36), (60, 50), (82, 84), (18, 84), (40, 50)])
    p.box(40, 49, 60, 54, p.dark)
    p.oval(36, 8, 64, 38, SKIN)
    p.slice(34, 4, 66, 30, 180, 360, hair)
    p.oval(43, 21, 47, 25, INK)
    p.oval(53, 21, 57, 25, INK)
    p.slice(44, 24, 56, 34, 0, 180, PALETTE["red"])


@_drawing
def _boy(p: Pen) -> None:
    p.box(38, 74, 48, 96, SKIN)
    p.box(52, 74, 62, 96, SKIN)
    p.box(35, 70, 65, 84, (70, 76, 105))
    p.oval(32, 92, 49, 99, INK)
    p.oval(51, 92, 68, 99, INK)
    p.line([(36, 58), (16, 38)], 8, SKIN)
    p.line([(64, 58), (84, 38)], 8, SKIN)
    p.box(33, 52, 67, 78, round_=6)
    p.oval(27, 12, 73, 58, SKIN)
    p.slice(26, 8, 74, 52, 180, 360)
    p.box(50, 26, 86, 32, p.dark, 3)
    p.oval(40, 36, 45, 41, INK)
    p.oval(55, 36, 60, 41, INK)
    p.slice(43, 38, 58, 52, 10, 170, PALETTE["red"])


# furniture


@_drawing
def _chair(p: Pen) -> None:
    p.box(22, 6, 32, 97, p.dark, 2)
    p.box(68, 6, 78, 97, p.dark, 2)
    p.box(22, 8, 78, 20, round_=4)
    p.box(22, 28, 78, 38, round_=4)
    p.box(14, 56, 86, 67, round_=4)
    p.box(14, 64, 23, 98, round_=2)
    p.box(77, 64, 86, 98, round_=2)


@_drawing
def _table(p: Pen) -> None:
    p.box(18, 50, 27, 92, p.dark)
    p.box(73, 50, 82, 92, p.dark)
    p.box(6, 52, 16, 97)
    p.box(84, 52, 94, 97)
    p.shape([(14, 42), (86, 42), (98, 54), (2, 54)], p.light)
    p.box(2, 53, 98, 62, round_=2)


@_drawing
def _bed(p: Pen) -> None:
    p.box(2, 30, 11, 97, WOOD, 3)
    p.box(89, 48, 98, 97, WOOD, 3)
    p.box(8, 74, 92, 90, WOOD)
    p.box(10, 58, 90, 78, SNOW, 3)
    p.box(12, 46, 36, 62, SNOW, 7)
    p.box(34, 52, 91, 84, round_=6)
    p.box(34, 52, 44, 84, p.light, 4)


@_drawing
def _sofa(p: Pen) -> None:
    p.box(14, 86, 22, 97, WOOD)
    p.box(78, 86, 86, 97, WOOD)
    p.box(12, 30, 88, 80, p.dark, 12)
    p.box(14, 58, 50, 76, p.light, 5)
    p.box(50, 58, 86, 76, p.light, 5)
    p.box(2, 48, 20, 90, round_=8)
    p.box(80, 48, 98, 90, round_=8)
    p.box(14, 74, 86, 90)


@_drawing
def _lamp(p: Pen) -> None:
    p.oval(36, 38, 64, 54, (255, 240, 150))
    p.box(47, 40, 53, 94, _GREY)
    p.oval(28, 88, 72, 98, _GREY)
    p.shape([(34, 4), (66, 4), (84, 44), (16, 44)])
    p.shape([(20, 37), (80, 37), (84, 44), (16, 44)], p.dark)


# things


@_drawing
def _umbrella(p: Pen) -> None:
    p.line([(50, 8), (50, 86)], 4, WOOD)
    p.arc(30, 76, 52, 98, 0, 180, 4, WOOD)
    p.slice(2, 8, 98, 96, 180, 360)
    p.slice(34, 8, 66, 96, 180, 360, p.light)
    for x in (2, 34, 66):
        p.oval(x, 46, x + 32, 58, p.dark)
    p.line([(50, 3), (50, 10)], 3, WOOD)


@_drawing
def _clock(p: Pen) -> None:
    p.line([(28, 86), (20, 97)], 6, p.dark)
    p.line([(72, 86), (80, 97)], 6, p.dark)
    p.oval(8, 6, 40, 36, p.dark)
    p.oval(60, 6, 92, 36, p.dark)
    p.oval(12, 18, 88, 94)
    p.oval(22, 28, 78, 84, SNOW)
    for hour in range(12):
        x, y = 50 + 23 * cos(hour * pi / 6), 56 + 23 * sin(hour * pi / 6)
        p.oval(x - 1.6, y - 1.6, x + 1.6, y + 1.6, INK)
    p.line([(50, 56), (50, 37)], 3.5, INK)
    p.line([(50, 56), (64, 62)], 3.5, INK)


@_drawing
def _cup(p: Pen) -> None:
    for x in (30, 46):
        p.line([(x, 32), (x + 4, 24), (x - 2, 14), (x + 3, 4)], 3, (225, 228, 235))
    p.ring(74, 64, 18, 7, p.dark)
    p.box(10, 40, 72, 97, round_=10)
    p.oval(10, 34, 72, 48, p.light)
    p.oval(16, 36, 66, 46, (105, 65, 40))
    p.box(18, 56, 25, 84, p.light, 3)


@_drawing
def _balloon(p: Pen) -> None:
    p.line([(50, 72), (46, 80), (54, 88), (49, 98)], 1.8, INK)
    p.oval(20, 2, 80, 70)
    p.shape([(50, 66), (42, 77), (58, 77)], p.dark)
    p.oval(30, 12, 44, 32, p.light)


@_drawing
def _kite(p: Pen) -> None:
    p.line([(50, 70), (40, 78), (50, 86), (42, 96)], 2, INK)
    for x, y in ((41, 78), (49, 86), (43, 95)):
        p.shape([(x, y), (x - 9, y - 5), (x - 9, y + 5)], p.dark)
        p.shape([(x, y), (x + 9, y - 5), (x + 9, y + 5)], p.dark)
    p.shape([(50, 2), (84, 32), (50, 72), (16, 32)])
    p.shape([(50, 2), (84, 32), (50, 32)], p.light)
    p.shape([(16, 32), (50, 32), (50, 72)], p.dark)


@_drawing
def _guitar(p: Pen) -> None:
    p.box(45, 4, 55, 62, WOOD)
    p.box(41, 1, 59, 14, _HAIR, 3)
    p.oval(28, 42, 72, 72)
    p.oval(20, 58, 80, 99)
    p.oval(40, 55, 60, 75, INK)
    p.box(38, 84, 62, 89, _HAIR)
    for x in (48, 50, 52):
        p.line([(x, 8), (x, 85)], 0.7, SNOW)


@_drawing
def _ball(p: Pen) -> None:
    p.oval(8, 14, 92, 98)
    p.oval(32, 14, 68, 98, SNOW if p.main != PALETTE["white"] else PALETTE["red"])
    p.oval(42, 14, 58, 98, p.main)
    p.oval(42, 10, 58, 22, p.dark)
    p.oval(18, 30, 28, 46, p.light)


@_drawing
def _hat(p: Pen) -> None:
    p.oval(2, 76, 98, 97)
    p.shape([(22, 22), (78, 22), (72, 88), (28, 88)])
    p.oval(22, 14, 78, 30, p.light)
    band = PALETTE["red"] if p.main != PALETTE["red"] else GOLD
    p.shape([(25.5, 62), (74.5, 62), (73, 78), (27, 78)], band)
    p.slice(27, 72, 73, 84, 0, 180, band)


# plants


@_drawing
def _tree(p: Pen) -> None:
    p.shape([(44, 54), (56, 54), (60, 98), (40, 98)], WOOD)
    p.line([(50, 70), (64, 56)], 5, WOOD)
    p.oval(8, 28, 54, 68, p.dark)
    p.oval(46, 28, 92, 68, p.dark)
    p.oval(22, 4, 78, 62)
    p.oval(30, 10, 52, 30, p.light)


@_drawing
def _flower(p: Pen) -> None:
    p.line([(50, 44), (50, 97)], 5, LEAF)
    p.oval(52, 68, 82, 82, LEAF)
    p.oval(18, 76, 48, 90, LEAF)
    for petal in range(6):
        x, y = 50 + 21 * cos(petal * pi / 3), 32 + 21 * sin(petal * pi / 3)
        p.oval(x - 12, y - 12, x + 12, y + 12, p.main if petal % 2 else p.dark)
    p.oval(38, 20, 62, 44, GOLD if p.main not in (PALETTE["yellow"], _ORANGE) else _HAIR)


@_drawing
def _cactus(p: Pen) -> None:
    p.line([(38, 60), (18, 58), (18, 38)], 12)
    p.line([(62, 50), (82, 48), (82, 24)], 12)
    p.box(36, 4, 64, 86, round_=14)
    for x in (43, 50, 57):
        p.line([(x, 16), (x, 74)], 1.4, p.light)
    p.shape([(26, 76), (74, 76), (68, 98), (32, 98)], (190, 100, 60))
    p.box(22, 72, 78, 80, (205, 115, 70), 2)
    p.oval(44, 0, 56, 10, PALETTE["pink"])


@_drawing
def _mushroom(p: Pen) -> None:
    p.box(36, 50, 64, 97, (245, 232, 205), 10)
    p.slice(4, 10, 96, 106, 180, 360)
    p.oval(4, 50, 96, 66, p.dark)
    dots = SNOW if p.main != PALETTE["white"] else PALETTE["red"]
    for x, y, r in ((30, 38, 7), (54, 26, 8), (74, 44, 6), (12 + 34, 50, 4)):
        p.oval(x - r, y - r, x + r, y + r, dots)


# buildings


@_drawing
def _house(p: Pen) -> None:
    p.box(68, 10, 79, 34, (150, 75, 60))
    p.box(14, 44, 86, 98)
    roof = mix((120, 60, 50), p.main, 0.1)
    p.shape([(50, 6), (98, 48), (2, 48)], roof)
    p.box(42, 66, 58, 98, _HAIR, 2)
    p.oval(53, 80, 56, 83, GOLD)
    for x in (21, 65):
        p.box(x, 58, x + 14, 74, SNOW)
        p.box(x + 2, 60, x + 12, 72, GLASS)


@_drawing
def _tent(p: Pen) -> None:
    p.shape([(50, 14), (98, 97), (2, 97)])
    p.shape([(50, 14), (50, 97), (2, 97)], p.dark)
    p.shape([(50, 36), (68, 97), (32, 97)], INK)
    p.shape([(50, 36), (32, 97), (24, 97)], p.light)
    p.line([(50, 14), (50, 4)], 2.5, WOOD)
    p.shape([(51, 3), (66, 8), (51, 13)], GOLD)


@_drawing
def _tower(p: Pen) -> None:
    p.shape([(34, 34), (66, 34), (74, 98), (26, 98)], SNOW if p.main != PALETTE["white"] else (170, 175, 185))
    for top in (36, 62, 88):
        p.shape([
            (34 - (top - 34) / 8, top), (66 + (top - 34) / 8, top),
            (66 + (top - 24) / 8, top + 11), (34 - (top - 24) / 8, top + 11),
        ])  # fmt: skip
    p.box(28, 28, 72, 36, INK, 2)
    p.box(36, 14, 64, 30, (255, 235, 140))
    p.shape([(50, 0), (70, 16), (30, 16)], p.main)
    p.box(45, 76, 55, 88, INK, 2)
