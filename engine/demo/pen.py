"""A pen on a square of 100 x 100 units: what the drawings are made with."""

from __future__ import annotations

from typing import TypeAlias

from PIL import Image, ImageChops, ImageDraw, ImageFilter

Colour: TypeAlias = tuple[int, int, int]
Points: TypeAlias = list[tuple[float, float]]

PALETTE: dict[str, Colour] = {
    "red": (220, 45, 45), "orange": (245, 140, 30), "yellow": (250, 215, 50), "green": (60, 170, 75),
    "blue": (50, 105, 225), "purple": (140, 70, 185), "pink": (250, 150, 190), "brown": (140, 90, 50),
    "black": (52, 52, 58), "white": (246, 246, 246),
}  # fmt: skip
INK: Colour = (38, 34, 44)
SNOW: Colour = (252, 252, 252)
GLASS: Colour = (175, 220, 245)
SKIN: Colour = (244, 200, 165)
WOOD: Colour = (150, 100, 60)
GOLD: Colour = (250, 190, 60)
LEAF: Colour = (70, 150, 70)

SPRITE = 192
"""Width and height of a finished sprite in pixels."""
_OVERSAMPLING = 2


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """`one` with `share` (0 to 1) of `other` in it."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


class Pen:
    """Draws filled shapes in one main colour and its shades; coordinates in units, y downwards."""

    def __init__(self, colour: Colour) -> None:
        self.main = colour
        self.dark = mix(colour, INK, 0.3) if sum(colour) > 200 else mix(colour, SNOW, 0.28)
        self.light = mix(colour, SNOW, 0.45)
        self._unit = SPRITE * _OVERSAMPLING / 100
        side = SPRITE * _OVERSAMPLING
        self._image = Image.new("RGBA", (side, side), (0, 0, 0, 0))
        self._draw = ImageDraw.Draw(self._image)

    def oval(self, left: float, top: float, right: float, bottom: float, fill: Colour | None = None) -> None:
        """A filled ellipse in a box."""
        u = self._unit
        self._draw.ellipse((left * u, top * u, right * u, bottom * u), fill=fill or self.main)

    def ring(self, x: float, y: float, radius: float, width: float, fill: Colour | None = None) -> None:
        """A circle line."""
        u = self._unit
        box = ((x - radius) * u, (y - radius) * u, (x + radius) * u, (y + radius) * u)
        self._draw.ellipse(box, outline=fill or self.main, width=round(width * u))

    def box(
        self, left: float, top: float, right: float, bottom: float,
        fill: Colour | None = None, round_: float = 0,
    ) -> None:  # fmt: skip
        """A filled rectangle, its corners rounded by `round_` units."""
        u = self._unit
        self._draw.rounded_rectangle(
            (left * u, top * u, right * u, bottom * u), radius=round_ * u, fill=fill or self.main
        )

    def shape(self, points: Points, fill: Colour | None = None) -> None:
        """A filled polygon."""
        self._draw.polygon([(x * self._unit, y * self._unit) for x, y in points], fill=fill or self.main)

    def line(self, points: Points, width: float, fill: Colour | None = None) -> None:
        """A line through points, with round ends and joints."""
        u, colour = self._unit, fill or self.main
        scaled = [(x * u, y * u) for x, y in points]
        self._draw.line(scaled, fill=colour, width=round(width * u), joint="curve")
        for x, y in points:
            self.oval(x - width / 2, y - width / 2, x + width / 2, y + width / 2, colour)

    def slice(
        self, left: float, top: float, right: float, bottom: float, start: float, end: float,
        fill: Colour | None = None,
    ) -> None:  # fmt: skip
        """A piece of an ellipse between two angles (degrees, clockwise from three o'clock) and its chord."""
        u = self._unit
        self._draw.chord((left * u, top * u, right * u, bottom * u), start, end, fill=fill or self.main)

    def arc(
        self, left: float, top: float, right: float, bottom: float, start: float, end: float, width: float,
        fill: Colour | None = None,
    ) -> None:  # fmt: skip
        """A piece of an ellipse's line between two angles (degrees, clockwise from three o'clock)."""
        u = self._unit
        box = (left * u, top * u, right * u, bottom * u)
        self._draw.arc(box, start, end, fill=fill or self.main, width=round(width * u))

    def eye(self, x: float, y: float, size: float = 2.4) -> None:
        """A dark eye with a glint and a light rim, so that it shows on every colour."""
        self.oval(x - size * 1.35, y - size * 1.35, x + size * 1.35, y + size * 1.35, SNOW)
        self.oval(x - size, y - size, x + size, y + size, INK)
        self.oval(x - size * 0.2, y - size * 0.8, x + size * 0.6, y, SNOW)

    def finish(self) -> Image.Image:
        """The drawing as RGBA [SPRITE x SPRITE] with a dark contour."""
        alpha = self._image.getchannel("A")
        wide = alpha.filter(ImageFilter.BoxBlur(2.5)).point([min(255, value * 5) for value in range(256)])
        contour = Image.new("RGBA", alpha.size, INK)
        contour.putalpha(ImageChops.lighter(wide, alpha))
        contour.alpha_composite(self._image)
        return contour.reduce(_OVERSAMPLING)
