"""The files in a model's spec: those of a run file are relative to it, and a pattern stands for several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.shape import shorten
from engine.encoders.registry import check_family, names_files, parse_spec
from engine.encoders.spec_paths import change_paths
from engine.errors import InputError
from engine.evaluate.names import natural_key
from engine.sweeps.run_file.checks import RELATIVE
from engine.sweeps.run_file.patterns import find_matches, is_special

OPEN_CLIP = "open_clip"
LOCAL_DIR = "local-dir"


def models_of(model: str, folder: Path) -> list[tuple[str, str]]:
    """(spec with absolute paths, name) of every checkpoint that a written spec stands for."""
    spec = ModelSpec.of(model, folder)
    check_family(spec.family)
    if spec.is_pattern(folder):
        paths = spec.matches(folder)
        if not paths:
            what = "folder" if spec.wants_folder else "file"
            raise InputError(f"{shorten(repr(spec.path), 200)} matches no {what}; {RELATIVE}")
        return [
            (spec.with_path(str(path), folder), name) for path, name in zip(paths, apart(paths), strict=True)
        ]
    missing = spec.missing(folder)
    if missing is not None:
        raise InputError(f"{shorten(repr(missing), 200)} is not there; {RELATIVE}")
    name = bare_name(under(folder, spec.path)) if is_there(folder, spec.path) else model
    return [(spec.with_path(absolute(spec.path, folder), folder), name)]


@dataclass(frozen=True)
class ModelSpec:
    """The parts of a model's spec: before its path, the path (a tag, or several with ``+``), what follows."""

    before: str
    path: str
    after: str

    @classmethod
    def of(cls, model: str, folder: Path) -> ModelSpec:
        """The parts of a spec. Raises `InputError` when it is none.

        The checkpoint is named last where the family says so, or something of that name is there.
        """
        family, name, weights = parse_spec(model)
        if weights is None:
            return cls(model, "", "") if family == OPEN_CLIP else cls(f"{family}:", name, "")
        is_last = is_there(folder, weights) or is_special(weights)
        if family == OPEN_CLIP or (not names_files(family) and is_last):
            return cls(f"{family}:{name}:", weights, "")
        return cls(f"{family}:", name, weights)

    @property
    def family(self) -> str:
        """The model family."""
        return self.before.partition(":")[0]

    @property
    def wants_folder(self) -> bool:
        """Whether the path is a folder."""
        return self.before == f"{OPEN_CLIP}:{LOCAL_DIR}:"

    def is_pattern(self, folder: Path) -> bool:
        """Whether the path stands for several; a file whose name looks like a pattern does not."""
        return is_special(self.path) and not is_there(folder, self.path)

    def matches(self, folder: Path) -> list[Path]:
        """What the pattern stands for, absolute, in natural order (``epoch_9`` before ``epoch_10``).

        Raises `InputError` as `find_matches`.
        """
        found = find_matches(at_home(self.path), folder)
        if self.family == OPEN_CLIP:
            found = [one for one in found if one.is_dir() == self.wants_folder]
        return sorted(found, key=lambda one: (natural_key(str(one)), one))

    def missing(self, folder: Path) -> str | None:
        """The part of the path that should be there and is not; None when nothing is known to be missing."""
        if not self.path or is_there(folder, self.path):
            return None
        if self.family == OPEN_CLIP:  # no published tag has a slash or a point
            is_tag = not (self.wants_folder or "/" in self.path or "." in self.path)
            return None if is_tag else self.path
        parts = self.path.split("+") if names_files(self.family) else ()
        return next((one for one in parts if not is_there(folder, one)), None)

    def with_path(self, path: str, folder: Path) -> str:
        """The spec with another path, and with the paths that follow absolute."""
        after = f":{absolute(self.after, folder)}" if self.after else ""
        return f"{self.before}{path}{after}"


def absolute(text: str, folder: Path) -> str:
    """A path below the folder where that is there, or each of several with ``+``, ``=`` and ``,`` between."""
    return change_paths(text, lambda one: is_there(folder, one), lambda one: str(under(folder, one)))


def under(folder: Path, text: str) -> Path:
    """A path that is relative to a folder, absolute, or of the user's home (``~``)."""
    return folder / at_home(text)


def at_home(text: str) -> Path:
    """A path, ``~`` replaced by the user's home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ``~name`` of nobody
        return Path(text)


def is_there(folder: Path, text: str) -> bool:
    """Whether a text names a file or folder; most texts in a spec do not."""
    try:
        return bool(text) and under(folder, text).exists()
    except OSError:  # such as a name that is too long to be one
        return False


def bare_name(path: Path) -> str:
    """A folder's name, a file's without its ending."""
    return path.name if path.is_dir() else path.stem


def apart(paths: Sequence[Path]) -> list[str]:
    """Names of paths: the bare ones, or what tells them apart below the folder that they share."""
    names = [bare_name(path) for path in paths]
    if len(set(names)) == len(names):
        return names
    shared = os.path.commonpath([path.parent for path in paths])
    return [(path.parent / bare_name(path)).relative_to(shared).as_posix() for path in paths]
