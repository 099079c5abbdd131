"""Image preprocessing: the parameters a model was trained with, and the names users give them.

A wrong preprocessing fails silently, it only costs accuracy; so it is read from the checkpoint's own
configuration or named by the user, never assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.errors import InputError, unknown_name

INTERPOLATIONS = ("bicubic", "bilinear")
RESIZE_MODES = ("shortest", "longest", "squash")
CHANNELS = 3


@dataclass(frozen=True)
class Preprocess:
    """How a decoded RGB image becomes the model's input.

    Resized to the model's own size with `interpolation`; `resize_mode` "shortest" scales the shorter side to
    it and crops the centre, "longest" scales the longer side and pads with `fill_color`, "squash" ignores the
    aspect ratio. Then (value in [0, 1] - `mean`) / `std` in each channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    resize_mode: str = "shortest"
    fill_color: int = 0

    def __post_init__(self) -> None:
        """Raise `InputError` for values no preprocessing can have."""
        for field, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != CHANNELS or not all(map(math.isfinite, values)):
                raise InputError(
                    f"preprocessing: {field} is {list(values)}, expected {CHANNELS} finite numbers"
                )
        if min(self.std) <= 0:
            raise InputError(f"preprocessing: std is {list(self.std)}, expected numbers above 0")
        if self.interpolation not in INTERPOLATIONS:
            raise unknown_name("interpolation", self.interpolation, INTERPOLATIONS)
        if self.resize_mode not in RESIZE_MODES:
            raise unknown_name("resize mode", self.resize_mode, RESIZE_MODES)

    def describe(self) -> dict[str, Any]:
        """JSON-ready parameters."""
        return asdict(self)


# as the models' authors publish them; "inception" is SigLIP's, "zero-one" MobileCLIP's
PRESETS: Mapping[str, Preprocess] = {
    "openai": Preprocess((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "imagenet": Preprocess((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "inception": Preprocess((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), resize_mode="squash"),
    "zero-one": Preprocess((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), interpolation="bilinear"),
}


def parse_preprocess(text: str) -> Preprocess:
    """The preprocessing that a user names: ``NAME[,field=value]...``.

    NAME is one of `PRESETS`; the fields are mean and std (``0.5/0.5/0.5``), interpolation and resize. For
    instance ``imagenet,interpolation=bilinear,resize=squash``. Raises `InputError` for anything else.
    """
    name, *settings = text.split(",")
    if name not in PRESETS:
        raise unknown_name("preprocessing", name, PRESETS)
    return replace(PRESETS[name], **dict(_parse_setting(setting) for setting in settings))


def _parse_setting(setting: str) -> tuple[str, Any]:
    field, _, value = setting.partition("=")
    parsers: Mapping[str, tuple[str, Callable[[str], Any]]] = {
        "mean": ("mean", _parse_channels),
        "std": ("std", _parse_channels),
        "interpolation": ("interpolation", str),
        "resize": ("resize_mode", str),
    }
    if field not in parsers:
        raise unknown_name("preprocessing field", field, parsers)
    name, parse = parsers[field]
    return name, parse(value)


def _parse_channels(value: str) -> tuple[float, ...]:
    try:
        return tuple(float(channel) for channel in value.split("/"))
    except ValueError as error:
        raise InputError(f"preprocessing: {value!r} is not {CHANNELS} numbers such as 0.5/0.5/0.5") from error


def preprocess_from_config(config: object, where: str) -> Preprocess:
    """The preprocessing in a ``preprocess_cfg`` of an ``open_clip_config.json``, `where` naming that file.

    `mean` and `std` must be there: older files have nothing else, their models were trained with bicubic
    interpolation and the shortest side resized. Raises `InputError` naming the field otherwise.
    """
    if not isinstance(config, dict):
        raise InputError(f"{where}: preprocess_cfg is {type(config).__name__}, expected an object")
    values: dict[str, Any] = {field: _channels(config, field, where) for field in ("mean", "std")}
    for field in ("interpolation", "resize_mode"):
        if config.get(field) is not None:
            values[field] = config[field]
    fill_color = config.get("fill_color", 0)
    if not isinstance(fill_color, int) or not 0 <= fill_color <= 255:
        raise InputError(
            f"{where}: preprocess_cfg.fill_color is {fill_color!r}, expected an integer from 0 to 255"
        )
    try:
        return Preprocess(**values, fill_color=fill_color)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _channels(config: Mapping[str, Any], field: str, where: str) -> tuple[float, ...]:
    value = config.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value] * CHANNELS
    if not isinstance(value, list) or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in value
    ):
        raise InputError(
            f"{where}: preprocess_cfg.{field} is {value!r}, expected {CHANNELS} numbers; "
            "write them there or name the preprocessing with --preprocess"
        )
    return tuple(float(channel) for channel in value)
