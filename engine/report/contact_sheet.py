"""Drawing a contact sheet: rows of pictures with labels, and texts with what changed in them marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from engine.errors import InputError, naming
from engine.inputs import check_regular_file

Mark = Literal["same", "gone", "new"]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

TILE = 208
GAP = 14
MARGIN = 28
LABEL_WIDTH = 232
TEXT_WIDTH = 760
NARROWEST = 2 * MARGIN + LABEL_WIDTH + TEXT_WIDTH
TEXT_SIZE, SMALL_SIZE, TITLE_SIZE = 17, 13, 24
LEADING = 7
MOST_LINES = 4
"""Lines of one text; what is longer ends in an ellipsis."""
ELLIPSIS = "..."

PAPER, INK, FAINT, RULE, FRAME = "#ffffff", "#1f2328", "#6e7781", "#d8dee4", "#afb8c1"
INKS: dict[Mark, str] = {"same": INK, "gone": "#a40e26", "new": "#0a5c2b"}
GROUNDS: dict[Mark, str | None] = {"same": None, "gone": "#ffe3e6", "new": "#c9f2d4"}


@dataclass(frozen=True)
class Picture:
    """One picture with the label above it and the note below it."""

    image: Image.Image
    label: str
    note: str = ""


@dataclass(frozen=True)
class Span:
    """A piece of a text: as in the original, gone from it, or new."""

    text: str
    mark: Mark = "same"


@dataclass(frozen=True)
class Line:
    """A text with the label before it and an optional faint note behind it."""

    label: str
    spans: tuple[Span, ...]
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One image of the corpus: what it is called, its pictures (the original first), its texts."""

    title: str
    pictures: tuple[Picture, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Fonts:
    """The fonts of a sheet, one a size."""

    title: Font
    text: Font
    small: Font


def load_fonts(file: Path | None = None) -> Fonts:
    """The fonts in `file`, or Pillow's own (Latin letters). Raises `InputError` when it is no font."""
    sizes = (TITLE_SIZE, TEXT_SIZE, SMALL_SIZE)
    if file is None:
        return Fonts(*(ImageFont.load_default(size) for size in sizes))
    with naming("--font"):
        check_regular_file(file, "a TrueType font")
    try:
        return Fonts(*(ImageFont.truetype(str(file), size) for size in sizes))
    except OSError as error:
        raise InputError(
            f"--font {file}: cannot be read as a font ({error}); expected a TrueType file"
        ) from None


def draw_sheet(title: str, subtitle: str, rows: Sequence[Row], fonts: Fonts) -> Image.Image:
    """The sheet as an RGB image, as wide as its widest row and as high as it must be."""
    columns = max((len(row.pictures) for row in rows), default=0)
    width = max(NARROWEST, 2 * MARGIN + columns * (TILE + GAP) - GAP)
    if columns == 1:
        width = NARROWEST + TILE + GAP
    measuring = _Pen(Image.new("RGB", (1, 1)), fonts, width)
    height = _draw(measuring, title, subtitle, rows)
    sheet = Image.new("RGB", (width, height), PAPER)
    _draw(_Pen(sheet, fonts, width), title, subtitle, rows)
    return sheet


def _draw(pen: _Pen, title: str, subtitle: str, rows: Sequence[Row]) -> int:
    """Draw everything from the top down; the height that it takes."""
    pen.text(MARGIN, title, pen.fonts.title, INK)
    pen.text(MARGIN, subtitle, pen.fonts.small, FAINT)
    for row in rows:
        pen.rule()
        pen.text(MARGIN, row.title, pen.fonts.small, FAINT)
        if len(row.pictures) == 1:
            _draw_beside(pen, row)
        else:
            pen.strip(row.pictures)
            pen.lines(row.lines, MARGIN)
    return pen.y + MARGIN


def _draw_beside(pen: _Pen, row: Row) -> None:
    """One picture, and the texts to the right of it."""
    top = pen.y
    pen.strip(row.pictures)
    below, pen.y = pen.y, top
    pen.lines(row.lines, MARGIN + TILE + GAP)
    pen.y = max(pen.y, below)


class _Pen:
    """Draws at `y` and moves it down."""

    def __init__(self, sheet: Image.Image, fonts: Fonts, width: int) -> None:
        self.fonts = fonts
        self.y = MARGIN
        self._sheet = sheet
        self._draw = ImageDraw.Draw(sheet)
        self._width = width

    def text(self, x: int, text: str, font: Font, ink: str) -> None:
        """One line, shortened to the sheet's width."""
        self._draw.text((x, self.y), shortened(text, font, self._width - MARGIN - x), ink, font)
        self.y += line_height(font) + LEADING

    def rule(self) -> None:
        """A line across the sheet."""
        self.y += LEADING
        self._draw.line((MARGIN, self.y, self._width - MARGIN, self.y), RULE)
        self.y += 2 * LEADING

    def strip(self, pictures: Sequence[Picture]) -> None:
        """Pictures side by side, each fitted into a square, the label above and the note below."""
        if not pictures:
            return
        top = self.y
        step = line_height(self.fonts.small) + LEADING
        for number, picture in enumerate(pictures):
            x = MARGIN + number * (TILE + GAP)
            self._small(x, top, picture.label, INK)
            self._tile(x, top + step, picture.image)
            self._small(x, top + step + TILE + LEADING, picture.note, FAINT)
        self.y = top + 2 * step + TILE + LEADING

    def _small(self, x: int, y: int, text: str, ink: str) -> None:
        self._draw.text((x, y), shortened(text, self.fonts.small, TILE), ink, self.fonts.small)

    def _tile(self, x: int, y: int, image: Image.Image) -> None:
        scale = TILE / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        fitted = image.resize(size, Image.Resampling.LANCZOS)
        left, top = x + (TILE - fitted.width) // 2, y + (TILE - fitted.height) // 2
        self._sheet.paste(fitted, (left, top))
        self._draw.rectangle((left, top, left + fitted.width - 1, top + fitted.height - 1), outline=FRAME)

    def lines(self, lines: Sequence[Line], x: int) -> None:
        """Texts one below the other, their labels in a column at `x`."""
        for line in lines:
            label = shortened(line.label, self.fonts.small, LABEL_WIDTH - GAP)
            drop = (line_height(self.fonts.text) - line_height(self.fonts.small)) // 2 + 1
            self._draw.text((x, self.y + drop), label, FAINT, self.fonts.small)
            self._spans(line, x + LABEL_WIDTH)

    def _spans(self, line: Line, x: int) -> None:
        font, room = self.fonts.text, self._width - MARGIN - x
        for placed in flow(line.spans, font, room):
            for piece, left in placed:
                self._piece(x + left, piece)
            self.y += line_height(font) + LEADING
        if line.note:
            self._draw.text((x, self.y - LEADING // 2), line.note, FAINT, self.fonts.small)
            self.y += line_height(self.fonts.small) + LEADING

    def _piece(self, x: float, piece: Span) -> None:
        font, ground = self.fonts.text, GROUNDS[piece.mark]
        right, bottom = x + font.getlength(piece.text), self.y + line_height(font)
        if ground is not None:
            self._draw.rounded_rectangle((x - 2, self.y - 1, right + 2, bottom + 2), 4, ground)
        self._draw.text((x, self.y), piece.text, INKS[piece.mark], font)
        if piece.mark == "gone":
            middle = self.y + line_height(font) * 0.58
            self._draw.line((x, middle, right, middle), INKS["gone"], 2)


def line_height(font: Font) -> int:
    """Pixels from the top of a line to below its descenders."""
    return int(font.getbbox("Ag|")[3])


def shortened(text: str, font: Font, room: float) -> str:
    """The text, its middle left out where it is wider than `room` pixels: names differ at both ends."""
    if font.getlength(text) <= room:
        return text
    kept = len(text)
    while kept > 1 and font.getlength(_without_middle(text, kept)) > room:
        kept -= 1
    return _without_middle(text, kept)


def _without_middle(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return f"{text[:head]}{ELLIPSIS}{text[len(text) - (kept - head) :]}"


def flow(spans: Sequence[Span], font: Font, room: float) -> Iterator[list[tuple[Span, float]]]:
    """Lines of pieces with their left edges in pixels, none wider than `room` but for a word that is.

    White space at a break is dropped. At most `MOST_LINES` lines; the last then ends in an ellipsis.
    """
    line: list[tuple[Span, float]] = []
    x, count = 0.0, 0
    for word in _words(spans):
        length = font.getlength(word.text)
        if line and x + length > room and not word.text.isspace():
            count += 1
            if count == MOST_LINES:
                yield [*line, (Span(ELLIPSIS), x)]
                return
            yield line
            line, x = [], 0.0
        if not line and word.text.isspace() and word.mark == "same":
            continue
        line.append((word, x))
        x += length
    if line:
        yield line


def _words(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans cut before and behind white space; a line break or a tab is a space."""
    for span in spans:
        word = ""
        for character in span.text:
            shown = " " if character.isspace() else character
            if word and (shown == " ") != (word[-1] == " "):
                yield Span(word, span.mark)
                word = ""
            word += shown
        if word:
            yield Span(word, span.mark)
