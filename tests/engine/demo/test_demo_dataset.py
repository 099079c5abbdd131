from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from PIL import Image

from engine.demo import write_corpus
from engine.demo.dataset import corpus_captions
from engine.demo.render import SIDE
from engine.errors import InputError


def content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_the_layout_is_a_blip_style_list(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "demo", images=12)
    entries = json.loads(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "demo" / "captions.json"
    assert [entry["image"] for entry in entries] == [f"images/{index:06d}.png" for index in range(12)]
    assert [tuple(entry["caption"]) for entry in entries] == [corpus_captions(index) for index in range(12)]
    for entry in entries:
        with Image.open(path.parent / entry["image"]) as image:
            assert (image.size, image.mode) == ((SIDE, SIDE), "RGB")


def test_the_same_bytes_on_every_run_and_a_longer_run_begins_with_a_shorter(tmp_path: Path) -> None:
    for name, images in (("a", 10), ("b", 10), ("c", 14)):
        write_corpus(tmp_path / name, images=images)
    first, again, longer = (content(tmp_path / name) for name in "abc")
    assert first == again
    pictures = {name: data for name, data in first.items() if name.endswith(".png")}
    assert pictures.items() <= longer.items()
    write_corpus(tmp_path / "d", images=10, seed=1)
    assert not set(pictures.values()) & set(content(tmp_path / "d").values())


def test_progress_is_told_after_every_image(tmp_path: Path) -> None:
    told: list[int] = []
    write_corpus(tmp_path, images=3, advance=lambda done, passed_over=0: told.append(done))
    assert told == [1, 1, 1]


def test_an_interrupted_run_leaves_no_captions_and_can_be_repeated(tmp_path: Path) -> None:
    told: list[int] = []

    def stop(done: int, passed_over: int = 0) -> None:
        told.append(done)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(tmp_path, images=4, advance=stop)
    assert not (tmp_path / "captions.json").exists()
    assert len(json.loads(write_corpus(tmp_path, images=4).read_text(encoding="utf-8"))) == 4


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = write_corpus(tmp_path, images=2)
    before = content(tmp_path)
    with pytest.raises(InputError, match="exists already"):
        write_corpus(tmp_path, images=3)
    assert content(path.parent) == before


@pytest.mark.parametrize(("images", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_senseless_numbers_are_refused(tmp_path: Path, images: int, seed: int) -> None:
    with pytest.raises(InputError, match="expected"):
        write_corpus(tmp_path / "demo", images=images, seed=seed)
    assert not (tmp_path / "demo").exists()


def test_two_hundred_images_take_seconds(tmp_path: Path) -> None:
    started = time.process_time()
    write_corpus(tmp_path, images=200)
    assert time.process_time() - started < 6


def test_a_corpus_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "captions.json").symlink_to("elsewhere.json")
    with pytest.raises(InputError, match=r"captions.json: is a link where itrstress writes"):
        write_corpus(tmp_path, images=1)
    assert not (tmp_path / "elsewhere.json").exists()
