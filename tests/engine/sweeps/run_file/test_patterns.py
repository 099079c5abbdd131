"""Patterns stand for what Python's glob finds, and no disk is walked for one."""

from __future__ import annotations

import glob
from functools import partial
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.sweeps.run_file import model_paths
from engine.sweeps.run_file.model_paths import models_of
from engine.sweeps.run_file.patterns import find_matches

FILES = ("a/1.pt", "a/2.pt", "a/.hidden.pt", "a/b/3.pt", "a/b/c/4.pt", ".h/5.pt", "d[1]/6.pt", "a/b/7.txt")
PATTERNS = (
    *("*", "*/*", "a/*.pt", "a/?.pt", "a/[12].pt", "a/.*.pt", "*/1.pt", "./a/*", "*/../a/*.pt", "*/b/c/*"),
    *("**", "**/*.pt", "a/**", "a/**/*.pt", "a/**.pt", "**/**/4.pt", "**/b/**/*.pt", "a/b/**/../*.pt"),
    *("a/**/b", "link/*.pt", "d[[]1]/*", "gone/*", "a/1.pt/*", "**/[", "x" * 300 + "/*"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "in [a] folder*"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "link").symlink_to("a/b")
    (root / "dangling").symlink_to("nothing")
    (root / "circle").symlink_to("circle")
    return root


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_stands_for_what_glob_finds(tree: Path, pattern: str) -> None:
    expected = {tree / one for one in glob.glob(pattern, root_dir=tree, recursive=True) if one}  # noqa: PTH207
    found = find_matches(Path(pattern), tree)
    assert set(found) - {tree} == expected - {tree}
    assert len(found) == len(set(found))


@pytest.mark.parametrize("pattern", ["a/*.pt", "**/*.pt", "a/1.*"])
def test_an_absolute_pattern_needs_no_folder(tree: Path, pattern: str) -> None:
    absolute = Path(glob.escape(str(tree))) / pattern
    assert set(find_matches(absolute, Path("elsewhere"))) == set(find_matches(Path(pattern), tree))


@pytest.mark.parametrize("pattern", ["**/[", "*/*/*/[", "**/**/**/[", "**/a/**/["])
def test_no_more_than_so_many_entries_are_looked_at(tree: Path, pattern: str) -> None:
    for number in range(40):
        (tree / "a" / "a" / str(number)).mkdir(parents=True)
    assert find_matches(Path(pattern), tree, most=1_000) == []
    with pytest.raises(InputError, match=r"needs a look at more than 30 files and folders; begin it with"):
        find_matches(Path(pattern), tree, most=30)


def test_a_circle_of_folders_ends(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(".")
    with pytest.raises(InputError, match="needs a look at more than 5,000"):
        find_matches(Path("**/x"), tmp_path, most=5_000)


def test_a_pattern_of_a_run_file_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [name for _, name in models_of("vsrn:a/**/*.pt", tree)] == ["1", "2", "3", "4"]
    monkeypatch.setattr(model_paths, "find_matches", partial(find_matches, most=3))
    with pytest.raises(InputError, match=r"'\*\*/\*.pt' needs a look at more than 3 files and folders"):
        models_of("vsrn:**/*.pt", tree)
