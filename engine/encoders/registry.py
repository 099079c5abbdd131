"""The model families, and how a spec string becomes an encoder.

A spec is ``family:name[:weights]``, for instance ``open_clip:ViT-B-32:openai``. A family of our own is one
new file in `engine.encoders.families`, which names the module with its function `open_family`; nothing else
needs to know it. A plug-in is an entry point of the group ``itrstress.encoders`` whose name is the family and
whose object is such a function. Neither's code is imported before the family is asked for.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from engine.encoders.encoder import Encoder
from engine.encoders.family import Family
from engine.encoders.foreign import CheckedEncoder, call
from engine.encoders.preprocess import parse_preprocess
from engine.encoders.request import DEFAULT_BATCH_SIZE, PRECISIONS, EncoderRequest
from engine.errors import InputError, unknown_name

ENTRY_POINT_GROUP = "itrstress.encoders"


@cache
def model_families() -> Mapping[str, Family]:
    """Our own families by name, in alphabetical order. Raises ValueError for a name that is there twice."""
    from engine.encoders import families

    found: dict[str, Family] = {}
    for file in pkgutil.iter_modules(families.__path__):
        for family in import_module(f"{families.__name__}.{file.name}").FAMILIES:
            if family.name in found:
                raise ValueError(f"two model families are called {family.name!r}")
            found[family.name] = family
    return dict(sorted(found.items()))


class OpenFamily(Protocol):
    """What a family is: a function from a request to an encoder. Raises `InputError` for what it
    cannot open."""

    def __call__(self, request: EncoderRequest) -> Encoder:
        """Open the encoder."""


def open_encoder(
    spec: str,
    *,
    device: str = "auto",
    precision: str = "fp32",
    batch_size: int = DEFAULT_BATCH_SIZE,
    preprocess: str | None = None,
) -> Encoder:
    """The encoder of a spec ``family:name[:weights]``; the options are those of `EncoderRequest`.

    Raises `InputError` (one line) for a spec that is not one, an unknown family or precision, and for
    whatever the family cannot open: an unknown model, missing or unfit weights, a device that is not there,
    whatever a plug-in raises.
    """
    family, name, weights = parse_spec(spec)
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if batch_size < 1:
        raise InputError(f"a batch size of {batch_size} cannot be used; expected 1 or more")
    if preprocess is not None:
        parse_preprocess(preprocess)
    request = EncoderRequest(family, name, weights, device, precision, batch_size, preprocess)
    open_family = find_family(family)
    if family in model_families():
        return open_family(request)
    return CheckedEncoder(call(spec, open_family, request), spec)


def parse_spec(spec: str) -> tuple[str, str, str | None]:
    """Family, name and weights of a spec; the weights may hold colons. Raises `InputError` for
    anything else."""
    parts = spec.split(":", 2)
    if len(parts) < 2 or not all(parts):
        raise InputError(
            f"the model {spec!r} is not a spec; expected family:name[:weights], for instance "
            "open_clip:ViT-B-32:openai"
        )
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None


def find_family(family: str) -> OpenFamily:
    """The function that opens models of a family, our own or a plug-in's; `InputError` when there is none.

    A plug-in that is there but cannot be imported is an `InputError` too.
    """
    check_family(family)
    own = model_families().get(family)
    if own is not None:
        return cast(OpenFamily, import_module(own.module).open_family)
    plugin = find_plugins()[family]
    where = f"the plug-in {plugin.value} of the model family {family!r} cannot be loaded: its import"
    return cast(OpenFamily, call(where, plugin.load))


def check_family(family: str) -> None:
    """Raise `InputError` for a family that there is not, ours or a plug-in's; none's code is imported."""
    if family not in model_families() and family not in find_plugins():
        raise unknown_name("model family", family, [*model_families(), *find_plugins()])


def scores_pairs(spec: str) -> bool:
    """Whether a spec's family scores pairs and has no vector for an item."""
    family = model_families().get(parse_spec(spec)[0])
    return family is not None and family.scores_pairs


def names_files(family: str) -> bool:
    """Whether the specs of a family are ``family:PATH[:options]``."""
    own = model_families().get(family)
    return own is not None and own.names_files


def find_plugins() -> Mapping[str, EntryPoint]:
    """The plug-ins' families by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def check_model(
    spec: str, *, device: str = "auto", precision: str = "fp32", preprocess: str | None = None
) -> None:
    """Raise `InputError` for what can be known to be wrong before any weights are read.

    The device and the precision must be there, so must the files of a family that `names_files`, which has a
    preprocessing of its own; and where the family has a function `check_request` beside its `open_family`,
    the request must pass that.
    """
    from engine.encoders.device import check_precision, resolve_device
    from engine.encoders.forward import check_no_preprocess

    family, name, weights = parse_spec(spec)
    check_family(family)
    check_precision(precision, resolve_device(device))
    own = model_families().get(family)
    if own is None:
        return
    request = EncoderRequest(family, name, weights, device, precision, preprocess=preprocess)
    check = getattr(import_module(own.module), "check_request", None)
    if check is not None:
        check(request)
    if not own.names_files:
        return
    check_no_preprocess(request)
    missing = [file for file in own.needed_files(request) if not file.there]
    if missing:
        raise InputError(f"{spec}: no {missing[0].what} ({missing[0].where}); give the path of what is there")


def cut_texts(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.bool_] | None:
    """bool [texts]: which texts the model reads without their end, as the encoder's `is_cut` says; None when
    it has none to say so."""
    is_cut: Callable[[Sequence[str]], NDArray[np.bool_]] | None = getattr(encoder, "is_cut", None)
    return None if is_cut is None else is_cut(texts)


def describe_encoder(encoder: object) -> Mapping[str, str]:
    """What an encoder or a scorer says of itself beyond its protocol, in words by topic: its `description`,
    or nothing."""
    description: Mapping[str, str] = getattr(encoder, "description", {})
    return description
