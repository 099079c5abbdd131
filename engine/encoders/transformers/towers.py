"""The network of a transformers model, loaded strictly, and its two towers as functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.utils import logging

from engine.encoders.library_errors import first_line
from engine.encoders.transformers.source import CONFIG, read_weights
from engine.errors import InputError

NAMES_SHOWN = 3


@dataclass(frozen=True)
class Tower:
    """A function from named tensors [n, ...] to vectors [n, dim], and the names that it takes."""

    run: Callable[..., Tensor]
    inputs: frozenset[str]


@dataclass(frozen=True)
class Towers:
    """A network with its towers; `unused` names tensors of the checkpoint that they do not use."""

    network: Any
    image: Tower
    text: Tower
    unused: tuple[str, ...]


def load_towers(folder: Path) -> Towers:
    """The towers of the model in a folder, in float32 and evaluation mode.

    Raises `InputError` for a configuration that the library does not know or that needs code of its own, for
    a model without both towers, and for the first key of the weights that is missing or of another shape.
    """
    with library_quiet():
        config = _read_config(folder)
        kind = _find_class(config, folder)
        network, unused = _load(kind, config, folder)
    return Towers(network, _tower(kind, network, _IMAGE), _tower(kind, network, _TEXT), unused)


@contextmanager
def library_quiet() -> Iterator[None]:
    """Inside it, the library says and draws nothing: what is wrong is in our errors."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def _read_config(folder: Path) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever the library raises on values it cannot use
        raise InputError(
            f"{folder / CONFIG}: transformers {transformers.__version__} cannot use it: {first_line(error)}"
        ) from error
    if getattr(config, "quantization_config", None):
        raise InputError(f"{folder / CONFIG}: the weights are quantised; expected plain ones")
    return config


# ---------------------------------------------------------------- which towers


_IMAGE, _TEXT = 0, 1
_METHODS = ("get_image_features", "get_text_features")


def _features(network: Any, method: str, **inputs: Tensor) -> Tensor:
    """What ``get_*_features`` gives: a tensor until transformers 4, since 5 an output that holds it."""
    output = getattr(network, method)(**inputs)
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


def _blip_image(network: Any, pixel_values: Tensor) -> Tensor:
    hidden = network.vision_model(pixel_values=pixel_values).last_hidden_state
    projected: Tensor = network.vision_proj(hidden[:, 0])
    return projected


def _blip_text(network: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    hidden = network.text_encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    projected: Tensor = network.text_proj(hidden[:, 0])
    return projected


# towers of models that score by their embeddings but have no get_*_features
_OWN_TOWERS: Mapping[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "BlipForImageTextRetrieval": (_blip_image, _blip_text),  # contrastive: the first token of each, projected
}


def _find_class(config: Any, folder: Path) -> Any:
    """The class that the configuration names, else the library's for its kind of model."""
    named = [getattr(transformers, name, None) for name in config.architectures or ()]
    kind = next((one for one in named if one is not None), None)
    if kind is None:
        kind = transformers.MODEL_MAPPING.get(type(config), None)
    if kind is None or not _has_towers(kind):
        what = config.model_type if kind is None else kind.__name__
        raise InputError(
            f"{folder / CONFIG}: {what} is no dual encoder; expected a model with get_image_features and "
            f"get_text_features, or {', '.join(_OWN_TOWERS)}"
        )
    return kind


def _has_towers(kind: Any) -> bool:
    return kind.__name__ in _OWN_TOWERS or all(hasattr(kind, method) for method in _METHODS)


def _tower(kind: Any, network: Any, side: int) -> Tower:
    own = _OWN_TOWERS.get(kind.__name__)
    if own is not None:
        return Tower(partial(own[side], network), _names(own[side]))
    method = _METHODS[side]
    return Tower(partial(_features, network, method), _names(getattr(kind, method)))


def _names(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


# ---------------------------------------------------------------- weights


def _load(kind: Any, config: Any, folder: Path) -> tuple[Any, tuple[str, ...]]:
    tensors = read_weights(folder)
    try:
        network, info = kind.from_pretrained(
            None,
            config=config,
            state_dict=tensors,
            torch_dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are errors below, by name
        )
    except Exception as error:  # whatever the library raises on values it cannot use
        raise InputError(
            f"{folder}: {kind.__name__} cannot be built: {type(error).__name__}: {first_line(error)}"
        ) from error
    unexpected = sorted(info["unexpected_keys"])
    _check_fit(network, info, unexpected, f"{folder}", kind.__name__)
    return network.float().eval().requires_grad_(False), tuple(unexpected)


def _check_fit(
    network: nn.Module, info: Mapping[str, Any], unexpected: list[str], source: str, kind: str
) -> None:
    if info["mismatched_keys"]:
        key, found, wanted = sorted(info["mismatched_keys"])[0]
        raise InputError(
            f"{source}: key '{key}' has shape {list(found)}; expected {list(wanted)}, as {CONFIG} says"
        )
    if info["missing_keys"]:
        raise InputError(
            f"{source}: key {_some(info['missing_keys'])} is missing; expected the weights of {kind}, as "
            f"{CONFIG} says"
        )
    known = {_any_number(key) for key in network.state_dict()}
    deeper = [key for key in unexpected if _any_number(key) in known]
    if deeper:
        raise InputError(f"{source}: key {_some(deeper)} has no place: {CONFIG} says fewer layers")
    for name, parameter in network.state_dict().items():
        if parameter.is_floating_point() and not bool(torch.isfinite(parameter).all()):
            raise InputError(f"{source}: key '{name}' holds NaN or infinite values; the file is damaged")


def _any_number(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    more = f" (and {len(names) - NAMES_SHOWN} more)" if len(names) > NAMES_SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN]) + more
