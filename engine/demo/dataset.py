"""The demo's files: the test corpus written into a folder, and the packaged checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from engine.demo.captions import captions
from engine.demo.render import render
from engine.demo.scenes import Scene, generator, sample_scene
from engine.errors import InputError
from engine.outputs.own import write_own
from engine.progress import Advance, unwatched

IMAGES = 1000
"""Images of the test corpus."""

CAPTIONS_FILE = "captions.json"
_CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"
_COMPRESSION = 6


def corpus_scene(index: int, seed: int = 0) -> Scene:
    """Scene `index` of the test corpus of a seed."""
    return sample_scene("test", seed, index)


def corpus_captions(index: int, seed: int = 0) -> tuple[str, ...]:
    """The five captions of scene `index` of the test corpus of a seed."""
    return captions(corpus_scene(index, seed), generator("test", seed, index, "captions"))


def write_corpus(folder: Path, *, images: int = IMAGES, seed: int = 0, advance: Advance = unwatched) -> Path:
    """Write the test corpus: `images/000000.png` and on, and `captions.json`; returns the path of the latter.

    `captions.json` is a BLIP-style list, `[{"image": "images/000000.png", "caption": [5 texts]}, ...]`,
    and is written last and whole, so a folder that has it is complete. The same arguments give the same
    bytes (with the same Pillow). `advance` is told of every image. The checkpoints never saw any of these
    scenes: see `scenes`.

    Raises InputError for fewer than one image, a negative seed, or a folder that has a `captions.json`.
    """
    if images < 1:
        raise InputError(f"images: {images} found, 1 or more expected")
    if seed < 0:
        raise InputError(f"seed: {seed} found, 0 or more expected")
    target = folder / CAPTIONS_FILE
    if target.exists():
        raise InputError(f"{target}: exists already; remove it or name another folder")
    (folder / "images").mkdir(parents=True, exist_ok=True)
    entries = []
    for index in range(images):
        name = f"images/{index:06d}.png"
        picture = render(corpus_scene(index, seed), generator("test", seed, index, "picture"))
        picture.save(folder / name, compress_level=_COMPRESSION)
        entries.append({"image": name, "caption": list(corpus_captions(index, seed))})
        advance(1)
    text = json.dumps(entries, indent=1) + "\n"
    write_own(target, lambda to: to.write_text(text, encoding="utf-8"))
    return target


def checkpoints() -> tuple[Path, ...]:
    """The packaged checkpoints, in training order: folders that open_clip loads as `local-dir:PATH`."""
    return tuple(sorted(path.parent for path in _CHECKPOINTS.glob("*/open_clip_config.json")))
