"""From an image folder and a corpus's file fields to decoded RGB images. Files are untrusted."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from engine.corpus.shape import expect_image_file
from engine.errors import InputError

FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is decoded. Not all that Pillow knows: some of its formats start other programs."""
MAX_PIXELS = 89_478_485
"""The largest image that is decoded: a quarter of a GiB as RGB, Pillow's own limit for a suspicious image."""
SIDEWAYS = (5, 6, 7, 8)
"""EXIF orientations in which width and height change places."""
WHITE = (255, 255, 255, 255)
"""What transparent pixels are composited on."""

# the limit is checked here, with an error that names the file; Pillow's warning would be a second message
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

Rule = Literal["path", "name"]


class UnreadableImage(InputError):
    """An image that cannot be used: `file` as the corpus names it, and the `reason`."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"image {file}: {reason}")
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnreadableImage], tuple[str, str]]:
        return type(self), (self.file, self.reason)


class NoFixedWhite(ValueError):
    """Pixels whose scale is not known: the values alone do not say which one is white."""


class MissingImage(UnreadableImage):
    """An image that is not in the folder."""


@dataclass(frozen=True)
class FoundImage:
    """Where an image lies, and the rule: "path" (folder/file) or "name" (folder/base name)."""

    path: Path
    rule: Rule


def check_image_folder(folder: str | Path) -> Path:
    """`folder` as a path; `InputError` when it is no folder."""
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise InputError(f"image folder {folder}: found {found}; expected a folder, give it with --images")
    return folder


def find_image(folder: str | Path, file: str) -> FoundImage:
    """Find `file` (relative, POSIX style) in `folder`: at its path, else under its base name.

    So ``val2014/a.jpg`` is found when `folder` is the parent of ``val2014``, ``val2014`` itself, or one flat
    folder. The path that results, links resolved, must lie inside the folder, links resolved: a link within
    the folder and a folder that is itself a link are fine, a link that leads out is not.

    Raises `MissingImage` when there is no such file, `UnreadableImage` when it is empty or no regular file,
    `InputError` when it leads out.
    """
    folder = Path(folder)
    relative = PurePosixPath(expect_image_file(file, f"image {file!r}"))
    candidates: list[tuple[Path, Rule]] = [(folder / relative, "path")]
    if len(relative.parts) > 1:
        candidates.append((folder / relative.name, "name"))
    for path, rule in candidates:
        if os.path.lexists(path):
            _check_inside(folder, path, file)
            _check_regular(path, file)
            return FoundImage(path, rule)
    tried = " or ".join(str(path) for path, _ in candidates)
    raise MissingImage(file, f"no such file; looked for {tried}")


def open_image(folder: str | Path, file: str) -> Image.Image:
    """The image `file` of `folder` as a fully decoded RGB image, upright. Safe to call from several threads.

    Raises as `find_image` and `decode_image`.
    """
    return decode_image(find_image(folder, file).path, file)


def read_image(folder: str | Path, file: str) -> bytes:
    """The bytes of the image file `file` of `folder`.

    Raises as `find_image`, and `UnreadableImage` for what cannot be read.
    """
    path = find_image(folder, file).path
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableImage(file, f"cannot be read: {error.strerror}") from None


def decode_image(path: Path | BinaryIO, file: str) -> Image.Image:
    """The image at `path`, or in an open file (called `file` in errors) as a fully decoded RGB image.

    EXIF rotation is applied; 16-bit grey is scaled to 8 bit; transparency is composited on white; CMYK,
    palette and grey are converted. Of an animation it is the first frame.

    Raises `UnreadableImage` with the reason when it is truncated, no image of `FORMATS` or larger than
    `MAX_PIXELS`.
    """
    with _opened(path, file) as image:
        image.load()
        return to_rgb(ImageOps.exif_transpose(image))


def image_size(folder: str | Path, file: str) -> tuple[int, int]:
    """(width, height) in pixels of the upright image, from the head of its file alone.

    Raises as `open_image`, but does not see what is wrong with the pixels.
    """
    with _opened(find_image(folder, file).path, file) as image:
        turned = image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS
        return (image.height, image.width) if turned else image.size


@contextmanager
def _opened(path: Path | BinaryIO, file: str) -> Iterator[Image.Image]:
    """The image at `path`, not yet decoded; what goes wrong with it becomes an `UnreadableImage`."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            _check_size(image, file)
            yield image
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableImage(file, f"more than {MAX_PIXELS:,} pixels, a decompression bomb?") from None
    except NoFixedWhite as error:
        raise UnreadableImage(file, f"{error}; convert it to 8 or 16 bits") from None
    except UnidentifiedImageError:
        raise UnreadableImage(file, f"no image of a known format ({', '.join(FORMATS)})") from None
    except Exception as error:  # on damaged data decoders raise SyntaxError, struct.error, IndexError, ...
        raise UnreadableImage(file, f"cannot be decoded: {error}; get the file again") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """`image` of any mode as 8-bit RGB; 16-bit grey is scaled, not clipped; transparency becomes white.

    Raises `NoFixedWhite` for grey of 32 bits.
    """
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _deep_grey_to_rgb(image)
    if image.mode in _TRANSPARENT or "transparency" in image.info:
        pixels = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", pixels.size, WHITE), pixels).convert("RGB")
    return image.convert("RGB")


_TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")


def _deep_grey_to_rgb(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > np.iinfo(np.uint16).max:
        raise NoFixedWhite("grey of 32 bits has no fixed white")  # "I" may also hold the 16 bits of a PNG
    return Image.fromarray(np.rint(values / 257.0).astype(np.uint8)).convert("RGB")


def _check_inside(folder: Path, path: Path, file: str) -> None:
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError) as error:
        raise UnreadableImage(file, f"{path} is a link that leads nowhere ({error})") from None
    if not inside:
        raise InputError(f"image {file}: {path} is a link out of the image folder; copy the file to {folder}")


def _check_regular(path: Path, file: str) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise UnreadableImage(file, f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableImage(file, f"{path} is no regular file")
    if not status.st_size:
        raise UnreadableImage(file, "the file is empty (0 bytes)")


def _check_size(image: Image.Image, file: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise UnreadableImage(
            file,
            f"{image.width} x {image.height} pixels, a decompression bomb? expected {MAX_PIXELS:,} at most",
        )
