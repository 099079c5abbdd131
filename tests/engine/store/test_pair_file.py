"""The file of pair scores, and what is kept of images: what is damaged is said, nothing sound is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from engine.store.kept_states import KeptStates
from engine.store.pair_file import BLOCK_HEAD, MAGIC, OLDER, PAIR_BYTES, PairFile, block_head, content_key

BLOCKS = {7: {1: 0.5, 2: -3.0}, 8: {1: 4.25}, 9: {3: 1.0, 4: 2.0, 5: 3.0}}
HEAD = len(MAGIC) + 32


def fill(path: Path, fingerprint: str = "f") -> Path:
    with PairFile(path, fingerprint) as file:
        for image, texts in BLOCKS.items():
            add(file, image, texts)
    return path


def add(file: PairFile, image: int, texts: dict[int, float]) -> None:
    file.add(image, np.array(list(texts), dtype=np.uint64), np.array(list(texts.values()), dtype=np.float32))


def known(path: Path, fingerprint: str = "f") -> dict[int, dict[int, float]]:
    """What a file tells of the texts 1 to 5 with the images 7 to 9."""
    texts = np.arange(1, 6, dtype=np.uint64)
    found: dict[int, dict[int, float]] = {}
    with PairFile(path, fingerprint) as file:
        for image in BLOCKS:
            scores, there = file.find(image, texts)
            if there.any():
                found[image] = {int(t): float(s) for t, s in zip(texts[there], scores[there], strict=True)}
    return found


def ends() -> list[int]:
    """Where each block ends."""
    sizes = [BLOCK_HEAD + PAIR_BYTES * len(texts) for texts in BLOCKS.values()]
    return [HEAD + int(end) for end in np.cumsum(sizes)]


def test_scores_are_there_again_whatever_the_order_of_the_texts(tmp_path: Path) -> None:
    path = fill(tmp_path / "p")
    assert known(path) == BLOCKS
    with PairFile(path, "f") as file:
        add(file, 8, {5: -1.0, 2: 6.0})
        scores, there = file.find(8, np.array([9, 5, 1, 2], dtype=np.uint64))
        assert there.tolist() == [False, True, True, True]
        assert scores.tolist() == [0.0, -1.0, 4.25, 6.0]
    assert known(path)[8] == {1: 4.25, 2: 6.0, 5: -1.0}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_of_a_file_that_was_cut_off_every_whole_block_is_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = fill(tmp_path_factory.mktemp("cut") / "p")
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    kept = [image for image, end in zip(BLOCKS, ends(), strict=True) if end <= size]
    assert (lost(path) == 0) == (size <= HEAD or size in ends())
    assert known(path) == {image: BLOCKS[image] for image in kept}
    with PairFile(path, "f") as file:
        for image in BLOCKS:
            if image not in kept:
                add(file, image, BLOCKS[image])
    assert path.read_bytes() == whole


def lost(path: Path) -> int:
    with PairFile(path, "f") as file:
        assert (file.loss is None) == (file.lost == 0)
        assert file.loss is None or f"at least {file.lost:,} pairs" in file.loss
        return file.lost


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_of_a_file_with_a_flipped_bit_only_the_block_that_has_it_is_lost(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = fill(tmp_path_factory.mktemp("flip") / "p")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(HEAD, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    hit = list(BLOCKS)[[end > place for end in ends()].index(True)]
    assert lost(path) == len(BLOCKS[hit])
    assert known(path) == {image: BLOCKS[image] for image in BLOCKS if image != hit}
    assert path.read_bytes() == content
    with PairFile(path, "f") as file:
        add(file, hit, BLOCKS[hit])
    assert known(path) == BLOCKS
    assert path.stat().st_size > len(content)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_of_a_file_that_misses_bytes_all_whole_blocks_are_kept(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = fill(tmp_path_factory.mktemp("gap") / "p")
    content = path.read_bytes()
    first = data.draw(st.integers(HEAD, len(content) - 1))
    last = data.draw(st.integers(first + 1, len(content)))
    path.write_bytes(content[:first] + content[last:])
    starts = [HEAD, *ends()]
    whole = [
        image
        for image, start, end in zip(BLOCKS, starts, ends(), strict=False)
        if end <= first or start >= last
    ]
    boundary = first in starts and last in starts
    assert (lost(path) == 0) == boundary
    assert known(path) == {image: BLOCKS[image] for image in whole}


def test_a_cut_off_end_behind_a_damaged_block_is_dropped_and_both_are_counted(tmp_path: Path) -> None:
    path = fill(tmp_path / "p")
    content = bytearray(path.read_bytes())
    content[HEAD + BLOCK_HEAD] ^= 1
    path.write_bytes(content[:-1])
    assert lost(path) == len(BLOCKS[7]) + len(BLOCKS[9])
    assert path.stat().st_size == ends()[1]
    assert lost(path) == len(BLOCKS[7])
    assert known(path) == {8: BLOCKS[8]}


def test_a_count_larger_than_the_file_takes_no_memory(tmp_path: Path) -> None:
    path = fill(tmp_path / "p")
    with path.open("ab") as file:
        file.write(block_head(1, 2**32 - 1, 0))
    assert lost(path) == 2**32 - 1
    assert known(path) == BLOCKS


def test_files_of_something_else_are_left_alone(tmp_path: Path) -> None:
    path = fill(tmp_path / "p")
    before = path.read_bytes()
    with pytest.raises(InputError, match="holds pair scores of another scorer"):
        PairFile(path, "g")
    assert path.read_bytes() == before
    (tmp_path / "notes").write_text("x" * 100)
    with pytest.raises(InputError, match="is no file of pair scores; name another file with --pair-scores"):
        PairFile(tmp_path / "notes", "f")
    (tmp_path / "old").write_bytes(OLDER + b"x" * 100)
    with pytest.raises(InputError, match="in the form of an earlier version; remove it, or name another"):
        PairFile(tmp_path / "old", "f")
    (tmp_path / "short").write_text("short")
    with pytest.raises(InputError, match="is no file of pair scores"):
        PairFile(tmp_path / "short", "f")
    assert (tmp_path / "notes").read_text() == "x" * 100
    with pytest.raises(InputError, match="is a folder"):
        PairFile(tmp_path, "f")


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with (
        PairFile(tmp_path / "p", "f"),
        pytest.raises(InputError, match="is being written by another process"),
    ):
        PairFile(tmp_path / "p", "f")
    PairFile(tmp_path / "p", "f").close()
    assert [one.name for one in tmp_path.iterdir()] == ["p"]


def test_keys_are_of_the_content() -> None:
    assert content_key("a") == content_key(b"a") != content_key("b")
    assert content_key("\ud800") != content_key("\ud801")
    assert 0 <= content_key("a") < 2**64


@pytest.mark.parametrize(("limit", "on_disk"), [(0, 4), (24, 3), (60, 2), (10**6, 0)])
def test_states_beyond_the_limit_lie_on_the_disk_and_leave_nothing(
    tmp_path: Path, limit: int, on_disk: int
) -> None:
    states = {key: np.full((key, 3), key / 7, dtype=np.float32) for key in (2, 5, 3, 1)}
    with KeptStates(limit, tmp_path) as kept:
        kept.put(states)
        kept.put({2: np.zeros((1, 1), dtype=np.float32)})  # known already
        assert len(kept._placed) == on_disk
        for key in (1, 2, 3, 5, 2):
            np.testing.assert_array_equal(kept.get(key), states[key])
        assert 2 in kept
        assert 4 not in kept
        assert not list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
