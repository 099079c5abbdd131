"""Images of every kind become correct RGB, others are named with the reason, all from inside the folder."""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.corpus.images import MissingImage, UnreadableImage, find_image, image_size, open_image, to_rgb
from engine.errors import InputError

GREY_16 = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
"""All 256 levels of grey at 16 bits."""


def pixels(folder: Path, file: str) -> np.ndarray:
    image = open_image(folder, file)
    assert image.mode == "RGB"
    return np.asarray(image)


def save(image: Image.Image, path: Path, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_grey_of_16_bits_is_scaled_not_clipped(name: str, tmp_path: Path) -> None:
    save(Image.fromarray(GREY_16), tmp_path / name)
    expected = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    np.testing.assert_array_equal(pixels(tmp_path, name), expected)


def test_grey_of_16_bits_as_older_pillow_opens_it() -> None:
    image = Image.fromarray(GREY_16.astype(np.int32))
    assert image.mode == "I"
    np.testing.assert_array_equal(np.asarray(to_rgb(image))[..., 0], np.arange(256).reshape(16, 16))


@pytest.mark.parametrize("values", [np.full((4, 4), 70_000, np.int32), np.full((4, 4), 0.5, np.float32)])
def test_grey_of_32_bits_is_refused(values: np.ndarray, tmp_path: Path) -> None:
    save(Image.fromarray(values), tmp_path / "a.tif")
    with pytest.raises(
        UnreadableImage, match=r"image a.tif: grey of 32 bits has no fixed white; convert it to 8 or 16 bits$"
    ):
        open_image(tmp_path, "a.tif")


def test_cmyk_is_converted(tmp_path: Path) -> None:
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    save(image, tmp_path / "a.tif")
    save(image, tmp_path / "a.jpg", quality=100)
    np.testing.assert_array_equal(pixels(tmp_path, "a.tif")[0, 0], [255, 0, 0])
    np.testing.assert_allclose(pixels(tmp_path, "a.jpg")[8, 8].astype(int), [255, 0, 0], atol=4)


def test_palette_with_alpha_shows_white_where_it_is_transparent(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putdata([0, 1])
    save(image, tmp_path / "a.png", transparency=0)
    save(image, tmp_path / "half.png", transparency=bytes([255, 0]))
    np.testing.assert_array_equal(pixels(tmp_path, "a.png"), [[[255, 255, 255], [0, 0, 255]]])
    np.testing.assert_array_equal(pixels(tmp_path, "half.png"), [[[255, 0, 0], [255, 255, 255]]])


@given(colour=st.tuples(*[st.integers(0, 255)] * 4))
def test_alpha_is_composited_on_white(colour: tuple[int, int, int, int]) -> None:
    found = np.asarray(to_rgb(Image.new("RGBA", (1, 1), colour)))[0, 0].astype(int)
    alpha = colour[3] / 255
    expected = [channel * alpha + 255 * (1 - alpha) for channel in colour[:3]]
    np.testing.assert_allclose(found, expected, atol=1)


def test_grey_with_alpha_and_rgb_with_a_transparent_colour(tmp_path: Path) -> None:
    save(Image.new("LA", (1, 1), (10, 0)), tmp_path / "la.png")
    save(Image.new("RGB", (1, 1), (1, 2, 3)), tmp_path / "key.png", transparency=(1, 2, 3))
    for name in ("la.png", "key.png"):
        np.testing.assert_array_equal(pixels(tmp_path, name), [[[255, 255, 255]]])


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "YCbCr", "P"])
def test_other_modes_become_rgb(mode: str) -> None:
    assert to_rgb(Image.new(mode, (3, 2))).mode == "RGB"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(orientation: int, tmp_path: Path) -> None:
    upright = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    # what a camera stores so that the orientation (EXIF 2.3, tag 0x0112) gives `upright` back
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: upright.swapaxes(0, 1)[::-1],
        7: upright.swapaxes(0, 1)[::-1, ::-1],
        8: upright.swapaxes(0, 1)[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(Image.fromarray(np.ascontiguousarray(stored)), tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(pixels(tmp_path, "a.png"), upright)
    assert image_size(tmp_path, "a.png") == (3, 2)


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(out, "JPEG")
    return out.getvalue()


def bomb(side: int) -> bytes:
    """A PNG whose header alone claims side x side pixels."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", r"empty \(0 bytes\)"),
        (jpeg()[:-400], r"cannot be decoded: .*truncated"),
        (jpeg()[:30], r"cannot be decoded|no image of a known format"),
        (b"hello, I am text", "no image of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n", "no image of a known format"),
        (bomb(10_000), r"a decompression bomb\?"),
        (bomb(60_000), r"a decompression bomb\?"),
    ],
    ids=["empty", "truncated", "header only", "text", "PostScript", "large", "enormous"],
)
@pytest.mark.filterwarnings("error")  # not even a warning beside the error
def test_what_cannot_be_read_is_named_with_the_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(UnreadableImage, match=rf"^image a\.jpg: .*({reason})"):
        open_image(tmp_path, "a.jpg")


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"I am text", "no image of a known format"), (bomb(10_000), "a decompression bomb?")],
)
def test_the_size_of_what_is_no_image_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(UnreadableImage, match=re.escape(reason)):
        image_size(tmp_path, "a.jpg")


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")  # it also warns of the metadata we damage
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused_never_more(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    out = io.BytesIO()
    Image.new("RGB", (9, 7), (200, 10, 30)).save(
        out, data.draw(st.sampled_from(["PNG", "GIF", "TIFF", "BMP", "JPEG", "WEBP"]))
    )
    damaged = bytearray(out.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=6)):
        damaged[place] = data.draw(st.integers(0, 255))
    (folder / "damaged").write_bytes(damaged)
    try:
        mode = open_image(folder, "damaged").mode
    except UnreadableImage as error:
        mode = "RGB" if error.reason else "no reason"
    assert mode == "RGB"


@pytest.mark.parametrize(
    ("place", "rule"),
    [("val2014/a.png", "path"), ("a.png", "name")],
    ids=["parent or nested", "flat or inner"],
)
def test_an_image_is_found_at_its_path_or_by_its_name(place: str, rule: str, tmp_path: Path) -> None:
    path = save(Image.new("RGB", (1, 1)), tmp_path / place)
    found = find_image(tmp_path, "val2014/a.png")
    assert (found.path, found.rule) == (path, rule)


def test_the_path_wins_over_the_name(tmp_path: Path) -> None:
    save(Image.new("RGB", (1, 1), (1, 1, 1)), tmp_path / "a.png")
    save(Image.new("RGB", (1, 1), (2, 2, 2)), tmp_path / "val2014" / "a.png")
    assert pixels(tmp_path, "val2014/a.png")[0, 0, 0] == 2
    assert pixels(tmp_path / "val2014", "val2014/a.png")[0, 0, 0] == 2


def test_a_missing_image_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        MissingImage, match=r"image val2014/a.png: no such file; looked for .*val2014/a.png or .*/a.png"
    ):
        find_image(tmp_path, "val2014/a.png")


@pytest.mark.parametrize("file", ["../secret.png", "/secret.png", "sub/../../secret.png", "..", ""])
def test_a_path_out_of_the_folder_is_refused(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    save(Image.new("RGB", (1, 1)), tmp_path / "secret.png")
    with pytest.raises(InputError, match=r"leads out of the image folder|is empty"):
        open_image(folder, file)


def test_links_inside_the_folder_are_followed_links_out_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    save(Image.new("RGB", (1, 1)), folder / "a.png")
    save(Image.new("RGB", (1, 1)), tmp_path / "outside" / "secret.png")
    (folder / "inner.png").symlink_to("a.png")
    (folder / "out.png").symlink_to(tmp_path / "outside" / "secret.png")
    (folder / "door").symlink_to(tmp_path / "outside")
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "nowhere.png").symlink_to("none.png")
    (tmp_path / "alias").symlink_to(folder)
    assert open_image(folder, "inner.png").size == (1, 1)
    assert open_image(tmp_path / "alias", "a.png").size == (1, 1)
    for file in ("out.png", "door/secret.png"):
        with pytest.raises(InputError, match=r"link out of the image folder"):
            open_image(folder, file)
    for file in ("loop.png", "nowhere.png"):
        with pytest.raises(UnreadableImage, match=file):
            open_image(folder, file)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    for file in ("pipe.png", "folder.png"):
        with pytest.raises(UnreadableImage, match=r"no regular file"):
            open_image(tmp_path, file)


def test_the_error_survives_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(MissingImage("a.png", "no such file")))  # noqa: S301 - our own bytes
    assert (type(error), error.file, error.reason) == (MissingImage, "a.png", "no such file")
