"""The spec of a published checkpoint: ``family:PATH[+PATH][:key=value[,key=value]...]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.encoders.registry import model_families
from engine.encoders.request import EncoderRequest
from engine.errors import InputError, unknown_name

_HEADS = "where nothing else says it, one for every 64 of its width"
OPTIONS: Mapping[str, tuple[str, str]] = {
    "vocab": ("FILE", "the vocabulary; by default the one beside the checkpoint"),
    "image_size": ("PIXELS", "the side of an image; by default that of the training"),
    "image_heads": ("N", f"attention heads of the image tower; {_HEADS}"),
    "text_heads": ("N", f"attention heads of the text tower; {_HEADS}"),
}
"""What may be given by key: its value, and what it is."""


def describe_options(keys: Iterable[str]) -> dict[str, str]:
    """Some of the options for people: ``key=VALUE`` to what it is."""
    return {f"{key}={OPTIONS[key][0]}": OPTIONS[key][1] for key in keys}


@dataclass(frozen=True)
class CheckpointOptions:
    """Options of a checkpoint's spec; a key may be repeated."""

    spec: str
    values: Mapping[str, Sequence[str]]

    def paths(self, key: str) -> list[Path]:
        """The paths given under `key`."""
        return [Path(value) for value in self.values.get(key, ())]

    def path(self, key: str, default: Path) -> Path:
        """The one path under `key`, or the default. Raises `InputError` for several."""
        given = self.paths(key)
        if len(given) > 1:
            raise InputError(f"{self.spec}: {key} is given {len(given)} times; expected it once")
        return given[0] if given else default

    def number(self, key: str) -> int | None:
        """The whole number above 0 under `key`, or None. Raises `InputError` for anything else."""
        given = self.values.get(key)
        if given is None:
            return None
        if len(given) > 1 or not given[0].isdecimal() or not int(given[0]):
            raise InputError(f"{self.spec}: {key}={','.join(given)}; expected one whole number above 0")
        return int(given[0])


def read_options(request: EncoderRequest) -> CheckpointOptions:
    """The options in the third part of the spec.

    Raises `InputError` for a key that the family does not know, or a missing value.
    """
    known = model_families()[request.family].options
    values: dict[str, list[str]] = {}
    for setting in request.weights.split(",") if request.weights else ():
        key, separator, value = setting.partition("=")
        if key not in known:
            raise unknown_name(f"option of {request.family}", key, known)
        if not separator or not value:
            raise InputError(f"{request.spec}: the option {key} has no value; expected {key}=VALUE")
        values.setdefault(key, []).append(value)
    return CheckpointOptions(request.spec, values)


def checkpoint_paths(request: EncoderRequest, most: int) -> list[Path]:
    """The checkpoints in the second part of the spec, joined by ``+`` where the family has ensembles.

    A name with a plus that is itself a file is one checkpoint. Raises `InputError` for more than `most`.
    """
    whole = Path(request.name)
    paths = [whole] if whole.exists() else [Path(part) for part in request.name.split("+")]
    if len(paths) > most or not all(part.name for part in paths):
        raise InputError(f"{request.spec}: {len(paths)} checkpoints; expected 1 to {most}, joined by +")
    return paths
