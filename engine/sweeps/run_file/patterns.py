"""The files and folders that a pattern stands for, found without walking a whole disk for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from engine.corpus.shape import shorten
from engine.errors import InputError

MOST_LOOKED_AT = 200_000
ANY_FOLDERS = "**"
SPECIAL = frozenset("*?[")


def is_special(text: str) -> bool:
    """Whether a text has something that stands for several."""
    return not SPECIAL.isdisjoint(text)


def find_matches(pattern: Path, folder: Path, most: int = MOST_LOOKED_AT) -> list[Path]:
    """What `glob.glob(pattern, root_dir=folder, recursive=True)` finds, each once, as paths below the folder.

    Raises `InputError` when more than `most` files and folders are looked at for it.
    """
    start = Path(pattern.anchor) if pattern.is_absolute() else folder
    parts = pattern.parts[1:] if pattern.is_absolute() else pattern.parts
    return list(dict.fromkeys(Walk(pattern, most).below(start, segments(parts))))


def segments(parts: Sequence[str]) -> list[str]:
    """The parts of a pattern, ordinary ones that follow each other joined, and ``**/**`` taken for ``**``."""
    found: list[str] = []
    for part in parts:
        if found and not (is_special(part) or is_special(found[-1])):
            found[-1] = f"{found[-1]}{os.sep}{part}"
        elif not (found and part == found[-1] == ANY_FOLDERS):
            found.append(part)
    return found


class Walk:
    """The search for one pattern; counts what it looks at."""

    def __init__(self, pattern: Path, most: int) -> None:
        self.pattern, self.most, self.looked_at = pattern, most, 0

    def below(self, folder: Path, parts: Sequence[str]) -> Iterator[Path]:
        """What the parts stand for in a folder, in no order, some perhaps more than once."""
        if not parts:
            yield folder
        elif parts[0] == ANY_FOLDERS:
            yield from self.in_any_folder(folder, parts)
        elif is_special(parts[0]):
            for entry in self.entries(folder, hidden=parts[0].startswith(".")):
                if fnmatchcase(entry.name, parts[0]) and (len(parts) == 1 or is_folder(entry)):
                    yield from self.below(folder / entry.name, parts[1:])
        else:
            self.count()
            if is_there(folder / parts[0]):
                yield from self.below(folder / parts[0], parts[1:])

    def in_any_folder(self, folder: Path, parts: Sequence[str]) -> Iterator[Path]:
        """What the parts after ``**`` stand for in the folder, and in all folders below it."""
        yield from self.below(folder, parts[1:])
        for entry in self.entries(folder, hidden=False):
            if is_folder(entry):
                yield from self.in_any_folder(folder / entry.name, parts)
            elif len(parts) == 1:
                yield folder / entry.name

    def entries(self, folder: Path, *, hidden: bool) -> Iterator[os.DirEntry[str]]:
        """What is in a folder, or is none that can be read; hidden entries only where they are asked for."""
        self.count()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    self.count()
                    if hidden or not entry.name.startswith("."):
                        yield entry
        except OSError:  # no folder, or one of somebody else's: a pattern stands for what can be read
            return

    def count(self) -> None:
        """Look at one more. Raises `InputError` when it is too much."""
        self.looked_at += 1
        if self.looked_at > self.most:
            raise InputError(
                f"{shorten(repr(str(self.pattern)), 200)} needs a look at more than {self.most:,} files and "
                "folders; begin it with a folder that holds fewer"
            )


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, links followed."""
    try:
        return entry.is_dir()
    except OSError:  # such as links in a circle
        return False


def is_there(path: Path) -> bool:
    """Whether something is at a path, a link to nothing too."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in the name
        return False
