"""Checkpoint files that nobody vouches for: read without running anything.

`read_checkpoint` gives what a file holds, `read_state_dict` the tensors of a model that is one mapping,
`flat_weights` and `listed_weights` those of a research family, whose name they check.
"""

from __future__ import annotations

import argparse
import errno
import pickle
import re
import struct
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.encoders.registry import model_families
from engine.encoders.weights import Weights
from engine.errors import InputError
from engine.inputs import check_regular_file

_STATE_DICT_ENTRIES = ("state_dict", "model_state_dict", "model")
_WRAPPERS = ("module.", "_orig_mod.")  # left before every key by DistributedDataParallel and torch.compile
# what torch raises for bytes that are no checkpoint, or not all of one; it has no exception of its own
_DAMAGE = (
    RuntimeError,
    EOFError,
    struct.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
)
_CUT_OFF = re.compile(r"unexpected EOF|central directory|Ran out of input|unexpected pos|reading zip")
_GLOBAL = re.compile(r"GLOBAL:? ([\w.]+)")


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """The mapping in a ``torch.save`` file (zip or the older pickle form) or a safetensors file, on the CPU.

    Read with ``weights_only=True``; `argparse.Namespace` is the one class allowed beyond that, because the
    published files carry their options in one. The tensors of a safetensors file come under ``model``.
    Raises `InputError` when the file is missing, empty, cut off, no checkpoint, or asks for anything that
    could run code.
    """
    if not check_regular_file(path, "a checkpoint (.pth, .pt, .bin, .safetensors)").st_size:
        raise InputError(f"{path}: the file is empty (0 bytes); expected a checkpoint, get the file again")
    value = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: holds {_kind(value)}; expected a mapping with the key 'model'")
    return value


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    try:
        return {"model": load_file(path)}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: cut off or damaged ({error}); get the file again") from None


def _read_torch(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old protocols and storages: nothing a user can act on
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _refusal(path, str(error)) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # torch seeks to before the beginning of a file of a few bytes
            raise _cut_off(path) from None
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _DAMAGE as error:
        if "TorchScript" in str(error):
            raise InputError(
                f"{path}: refused: a TorchScript archive is a program; get the weights alone, "
                "best as .safetensors"
            ) from None
        if isinstance(error, (EOFError, struct.error)) or _CUT_OFF.search(str(error)):
            raise _cut_off(path) from None
        raise InputError(f"{path}: torch cannot read it; expected a torch.save file, not cut off") from None


def _cut_off(path: Path) -> InputError:
    return InputError(f"{path}: cut off or damaged ({path.stat().st_size} bytes); get the file again")


def _refusal(path: Path, message: str) -> InputError:
    named = _GLOBAL.search(message)
    if named is None:
        return InputError(
            f"{path}: refused: it is no file of plain weights as torch.save writes them, and reading another "
            "pickle could run code; get the weights alone, best as .safetensors"
        )
    return InputError(
        f"{path}: refused: reading it would load {named.group(1)}, which could run code; only tensors, "
        "plain values and argparse.Namespace are read; get the weights alone, best as .safetensors"
    )


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, as `read_checkpoint` reads it.

    A training checkpoint (``{"state_dict": ..., "epoch": ...}``) gives its state dict; prefixes that wrappers
    put before every name are taken off. Raises `InputError` as `read_checkpoint` does, and for anything else
    than tensors.
    """
    content = read_checkpoint(path)
    nested = (content[name] for name in _STATE_DICT_ENTRIES if isinstance(content.get(name), Mapping))
    state = next(nested, content)
    if not state:
        raise InputError(f"{path}: holds nothing; expected a state dict (tensors by name)")
    return _tensors(state, str(path))


def flat_weights(checkpoint: Mapping[str, Any], family: str, path: Path) -> Weights:
    """The weights of a checkpoint whose ``model`` is one mapping of keys to tensors, or that is one."""
    bare = "model" not in checkpoint and all(isinstance(value, Tensor) for value in checkpoint.values())
    model = checkpoint if bare else _model(checkpoint, family, path)
    if isinstance(model, (list, tuple)):
        raise InputError(
            f"{path}: 'model' is a list of {len(model)}; expected one mapping of keys to tensors in "
            f"a checkpoint of the family '{family}'"
        )
    return _weights(model, family, str(path))


def listed_weights(
    checkpoint: Mapping[str, Any], family: str, path: Path, parts: Iterable[str]
) -> list[Weights]:
    """The weights of a checkpoint whose ``model`` is a list with one mapping a part; `parts` names them."""
    names = list(parts)
    model = _model(checkpoint, family, path)
    if not isinstance(model, (list, tuple)) or len(model) != len(names):
        found = f"a list of {len(model)}" if isinstance(model, (list, tuple)) else _kind(model)
        raise InputError(
            f"{path}: 'model' is {found}; expected a list of {len(names)} ({', '.join(names)}) in "
            f"a checkpoint of the family '{family}'"
        )
    return [_weights(part, family, f"{path} ({name} part)") for name, part in zip(names, model, strict=True)]


def published_options(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """The training options in the checkpoint's ``opt`` namespace; empty when it has none."""
    options = checkpoint.get("opt")
    return vars(options) if isinstance(options, argparse.Namespace) else {}


def family_of(model: Any) -> str | None:
    """The family whose checkpoints have such keys, in one mapping or a list of them; None when none has."""
    parts = model if isinstance(model, (list, tuple)) else [model]
    keys = {
        str(key).removeprefix(_WRAPPERS[0]) for part in parts if isinstance(part, Mapping) for key in part
    }
    families = model_families().values()
    return next((family.name for family in families if keys.intersection(family.signature)), None)


def _model(checkpoint: Mapping[str, Any], family: str, path: Path) -> Any:
    if "model" not in checkpoint:
        keys = ", ".join(repr(str(key)) for key in list(checkpoint)[:5]) or "nothing"
        raise InputError(
            f"{path}: key 'model' is missing, found {keys}; expected a checkpoint of the family '{family}'"
        )
    model = checkpoint["model"]
    other = family_of(model)
    if other not in (None, family):
        raise InputError(
            f"{path}: this is a checkpoint of the family '{other}'; expected one of the family '{family}'"
        )
    return model


def _weights(value: Any, family: str, source: str) -> Weights:
    if not isinstance(value, Mapping):
        raise InputError(f"{source}: found {_kind(value)}; expected tensors by key (family '{family}')")
    return Weights(family, source, _tensors(value, source))


def _tensors(state: Mapping[Any, Any], source: str) -> dict[str, Tensor]:
    for key, tensor in state.items():
        if not isinstance(key, str) or not isinstance(tensor, Tensor):
            raise InputError(f"{source}: key '{key}' holds {_kind(tensor)}; expected a tensor")
    return _without_wrappers(dict(state))


def _without_wrappers(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in _WRAPPERS:
        if tensors and all(key.startswith(prefix) for key in tensors):
            return _without_wrappers({key[len(prefix) :]: tensor for key, tensor in tensors.items()})
    return tensors


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
