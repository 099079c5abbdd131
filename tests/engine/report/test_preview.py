"""The contact sheet: what changed is marked, nothing is lost, and the pictures are those of the variants."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.report.contact_sheet import (
    MOST_LINES,
    TILE,
    Line,
    Picture,
    Row,
    Span,
    draw_sheet,
    flow,
    load_fonts,
    shortened,
)
from engine.report.preview import Applied, marked, preview_rows
from engine.variants.registry import make_variant

WORDS = st.lists(st.sampled_from(["a", "red", "dog", ",", "on", "mat", ".", "Two", "it's"]), max_size=9)
FONTS = load_fonts()


def squeezed(spans: tuple[Span, ...], *marks: str) -> str:
    return "".join("".join(span.text for span in spans if span.mark in marks).split())


# ---------------------------------------------------------------- marks


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a red dog", "a red cat", "a red [-dog-] [+cat+]"),
        ("a red dog", "a dog", "a [-red-] dog"),
        ("a dog", "a red dog", "a [+red+] dog"),
        ("a dog .", "a dog", "a dog [-.-]"),
        ("a  dog\n", "a dog ", "a dog "),
        ("a dog", "a dog", "a dog"),
        ("A dog here .", "a cat here", "[-A-] [+a+] [-dog-] [+cat+] here [-.-]"),
        ("a b c d e f g h", "x b y d z f w h", "[+x+] b [+y+] d [+z+] f [+w+] h"),
        ("", "", ""),
    ],
)
def test_what_changed_is_marked(before: str, after: str, shown: str) -> None:
    signs = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("[+", "+]")}
    found = [f"{signs[span.mark][0]}{span.text}{signs[span.mark][1]}" for span in marked(before, after)]
    assert "".join(found) == shown


@given(before=WORDS, after=WORDS)
@example(before=["a", "red"], after=["red", "a"])
def test_the_new_text_is_all_there_and_the_old_one_when_few_places_changed(
    before: list[str], after: list[str]
) -> None:
    old, new = " ".join(before), " ".join(after)
    spans = marked(old, new)
    assert squeezed(spans, "same", "new") == "".join(after)
    if any(span.mark == "gone" for span in spans):
        assert squeezed(spans, "same", "gone") == "".join(before)
    assert all(span.text == span.text.strip() for span in spans if span.mark != "same")


# ---------------------------------------------------------------- layout


@settings(deadline=None)
@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=12), max_size=60), room=st.integers(40, 900))
def test_lines_are_not_wider_than_their_room_and_keep_every_word(words: list[str], room: int) -> None:
    font = FONTS.text
    lines = list(flow([Span(" ".join(words))], font, room))
    assert len(lines) <= MOST_LINES
    for line in lines:
        seen = [piece for piece, _ in line if not piece.text.isspace()]
        last, left = next((piece, x) for piece, x in reversed(line) if not piece.text.isspace())
        assert len(seen) == 1 or last.text == "..." or left + font.getlength(last.text) <= room
    shown = "".join(piece.text for line in lines for piece, _ in line).split()
    cut = bool(shown) and shown[-1].endswith("...")
    found = [word for line in lines for word in "".join(piece.text for piece, _ in line).split()]
    assert cut or found == words
    assert not cut or len(lines) == MOST_LINES


@settings(deadline=None)
@given(text=st.text("abcdefgh:", max_size=80), room=st.integers(30, 300))
def test_a_name_is_shortened_in_its_middle(text: str, room: int) -> None:
    short = shortened(text, FONTS.small, room)
    assert FONTS.small.getlength(short) <= room or len(short) <= 4
    assert short == text or (text.startswith(short.split("...")[0]) and text.endswith(short.split("...")[-1]))


def test_pictures_are_fitted_and_lie_side_by_side() -> None:
    red, blue = Image.new("RGB", (400, 200), (255, 0, 0)), Image.new("RGB", (10, 20), (0, 0, 255))
    row = Row("one", (Picture(red, "original"), Picture(blue, "mix", "fake")), ())
    sheet = np.asarray(draw_sheet("t", "s", [row], FONTS)).astype(int)
    for colour, width, height in (((255, 0, 0), TILE, TILE // 2), ((0, 0, 255), TILE // 2, TILE)):
        ys, xs = np.nonzero((sheet == colour).all(axis=-1))
        assert (np.ptp(xs) + 1, np.ptp(ys) + 1) == (width - 2, height - 2)  # inside a frame of one pixel


def test_a_sheet_is_the_same_every_time_and_grows_with_its_rows() -> None:
    lines = (
        Line("x", (Span("a dog "), Span("gone", "gone"), Span("new", "new")), "unchanged"),
        Line("y", ()),
    )
    row = Row("one", (Picture(Image.new("RGB", (9, 9)), "original"),), lines)
    one, again, two = (draw_sheet("t", "s", rows, FONTS) for rows in ([row], [row], [row, row]))
    assert one.tobytes() == again.tobytes()
    assert two.height > one.height
    assert two.width == one.width
    colours = {colour for _, colour in one.getcolors(1 << 20)}
    assert {(255, 227, 230), (201, 242, 212)} <= colours  # the grounds of what is gone and of what is new


# ---------------------------------------------------------------- what is shown


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rows = []
    for k in range(6):
        noise = np.random.default_rng(k).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "images" / f"{k}.png")
        rows += [{"image": f"{k}.png", "caption": text} for text in ("!", f"a picture of {k} dogs")]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_hold_the_pictures_of_the_variants_and_their_captions(tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (8, 6), (40 * n, 0, 0)) for n in range(4)]
    for n, picture in enumerate(pictures):
        picture.save(tmp_path / f"{n}.png")
    images = tuple(ImageItem(f"i{n}", f"{n}.png") for n in range(4))
    captions = tuple(Caption(f"c{n}", "!" if n % 2 else f"dogs number {n}", n // 2) for n in range(8))
    corpus = Corpus("test", images, captions)
    variants = [make_variant(spec) for spec in ("mix:0.5", "char_swap", "rand_voca")]
    applied = [Applied.of(variant, variant.apply(corpus)) for variant in variants]
    rows = preview_rows(corpus, applied, tmp_path, 3, seed=1)
    assert len({row.title for row in rows}) == 3
    for row in rows:
        n = int(row.title[1:])
        original, mixed = row.pictures
        assert original.image.getpixel((0, 0)) == (40 * n, 0, 0)
        item = applied[0].by_source[n]
        assert mixed.note == f"fake: {item.change['fake']['id']}"
        assert mixed.image == item.content.draw([pictures[s] for s in item.content.sources])  # type: ignore[union-attr]
        first, typo, noun = row.lines  # the caption that most variants have an item for
        assert first.spans == (Span(f"dogs number {2 * n}"),)
        assert [span.mark for span in typo.spans].count("new") == 1
        assert squeezed(noun.spans, "same", "new") != squeezed(first.spans, "same")
    assert preview_rows(corpus, applied, None, 3, seed=1)[0].pictures == ()
    assert [row.title for row in preview_rows(corpus, applied, None, 9, seed=1)] == ["i0", "i1", "i2", "i3"]


def test_the_command_writes_one_png(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = corpus.with_name("sheet.png")
    images = ["--images", str(corpus.with_name("images"))]
    command = ["variants", "preview", "--corpus", str(corpus), "--variant", "patch:0.5,char_swap"]
    assert run([*command, *images, "--items", "2", "--out", str(out)]) == 0
    first = out.read_bytes()
    with Image.open(io.BytesIO(first)) as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 1000
    assert run([*command, *images, "--items", "2", "--out", str(out), "--force"]) == 0
    assert out.read_bytes() == first
    assert run([*command, *images, "--items", "3", "--seed", "1", "--out", str(out), "--force"]) == 0
    assert out.read_bytes() != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variant", "patch:0.5", "--out", "a.png"], "changes images; name their folder with --images"),
        (["--variant", "char_swap", "--out", "a.jpg"], "the sheet is a PNG"),
        (["--variant", "char_swap", "--out", "there.png"], "--force"),
        (["--variant", "char_swap", "--out", "a.png", "--font", "corpus.jsonl"], "cannot be read as a font"),
        (["--variant", "char_swop", "--out", "a.png"], "did you mean 'char_swap'"),
        (["--variant", "mix:0.5", "--images", "empty", "--out", "a.png"], "no such file"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    options: list[str],
    message: str,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(corpus.parent)
    Path("empty").mkdir()
    Path("there.png").write_bytes(b"mine")
    assert run(["variants", "preview", "--corpus", "corpus.jsonl", *options]) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ")
    assert message in line
    assert line.count("\n") == 1
    assert Path("there.png").read_bytes() == b"mine"
    assert not Path("a.png").exists()
