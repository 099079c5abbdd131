"""Published research checkpoints: read without running anything, loaded key by key.

Their loaders are lenient and fail in silence; here every key must be there, known and of the right shape.
"""

from __future__ import annotations

import argparse
import pickle
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from engine.errors import InputError

_COUNTER = "num_batches_tracked"  # of training steps: never used, absent from files of torch 0.4.0
_DATA_PARALLEL = "module."
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

# family -> keys that only its checkpoints have, under any prefix of DataParallel
_SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "vse_infty": ("gpool.linear.weight", "image_encoder.gpool.linear.weight"),
    "vsrn": ("Rs_GCN_1.g.weight",),
    "saf": ("SAF_module.attn_sim_w.weight",),
    "sgr": ("SGR_module.0.graph_query_w.weight",),
    "albef": (
        "text_encoder.embeddings.token_type_embeddings.weight",
        "text_encoder.bert.embeddings.token_type_embeddings.weight",
    ),
    "blip": ("text_encoder.encoder.layer.0.crossattention.self.query.weight",),
}


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """The mapping in a ``torch.save`` file (zip or the older pickle form) or a safetensors file, on the CPU.

    Read with ``weights_only=True``; `argparse.Namespace` is the one class allowed beyond that, because the
    published files carry their options in one. The tensors of a safetensors file come under ``model``.
    Raises `InputError` when the file is missing, empty, cut off, no checkpoint, or asks for anything that
    could run code.
    """
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {found}; expected a checkpoint (.pth, .pt, .bin, .safetensors)")
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty; expected a checkpoint, get the file again")
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
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _DAMAGE as error:
        if "TorchScript" in str(error):
            raise InputError(
                f"{path}: refused: a TorchScript archive is a program; get the weights alone, "
                "best as .safetensors"
            ) from None
        if isinstance(error, (EOFError, struct.error)) or _CUT_OFF.search(str(error)):
            size = path.stat().st_size
            raise InputError(f"{path}: cut off or damaged ({size} bytes); get the file again") from None
        raise InputError(f"{path}: torch cannot read it; expected a torch.save file") from None


def _refusal(path: Path, message: str) -> InputError:
    named = _GLOBAL.search(message)
    if named is None:
        return InputError(f"{path}: no checkpoint of plain weights; expected a torch.save file")
    return InputError(
        f"{path}: refused: reading it would load {named.group(1)}, which could run code; only tensors, "
        "plain values and argparse.Namespace are read; get the weights alone, best as .safetensors"
    )


@dataclass(frozen=True)
class Weights:
    """The tensors of one part of a model, by key. `source` names file and part in errors.

    `prefix` is what `below` took off the keys; errors put it back.
    """

    family: str
    source: str
    tensors: Mapping[str, Tensor]
    prefix: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.tensors

    def shape(self, key: str, dims: int) -> tuple[int, ...]:
        """Shape of the tensor under `key`, which must be there and have `dims` dimensions."""
        if key not in self.tensors:
            raise InputError(f"{self._place(key)} is missing; expected it in {self._expected()}")
        shape = tuple(self.tensors[key].shape)
        if len(shape) != dims:
            raise InputError(
                f"{self._place(key)} has shape {list(shape)}; expected {dims} dimensions "
                f"in {self._expected()}"
            )
        return shape

    def count(self, pattern: str) -> int:
        """How many indices 0, 1, ... fill ``{}`` in `pattern` so that a key begins with it."""
        before, _, after = pattern.partition("{}")
        found = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
        indices = {int(match.group(1)) for key in self.tensors if (match := found.match(key))}
        return next(n for n in range(len(indices) + 1) if n not in indices)

    def below(self, prefix: str) -> Weights:
        """The tensors whose keys begin with `prefix`, which is taken off."""
        kept = {k[len(prefix) :]: tensor for k, tensor in self.tensors.items() if k.startswith(prefix)}
        return replace(self, tensors=kept, prefix=self.prefix + prefix)

    def without(self, *patterns: str) -> Weights:
        """Without the keys in which a regular expression is found: known parts that scoring never uses."""
        unused = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
        return replace(self, tensors={k: t for k, t in self.tensors.items() if not unused.search(k)})

    def renamed(self, rename: Callable[[str], str]) -> Weights:
        """With every key mapped by `rename`; `InputError` when two keys become one."""
        tensors: dict[str, Tensor] = {}
        for key, tensor in self.tensors.items():
            if rename(key) in tensors:
                raise InputError(f"{self._place(key)} is there twice, the other time as '{rename(key)}'")
            tensors[rename(key)] = tensor
        return replace(self, tensors=tensors)

    def replaced(self, key: str, tensor: Tensor) -> Weights:
        """With another tensor under `key`."""
        return replace(self, tensors={**self.tensors, key: tensor})

    def build(self, make: Callable[[], nn.Module]) -> Any:
        """The module of `make` with these weights, in float32 and evaluation mode.

        It is made on the meta device: no random number is drawn for weights that are replaced anyway.
        Raises `InputError` for the first key that is missing, unexpected or of another shape.
        """
        with torch.device("meta"):
            module = make()
        module.load_state_dict(self._checked(module.state_dict()), assign=True)
        return module.eval().requires_grad_(False)

    def _checked(self, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
        for key, expected in wanted.items():
            if key not in self.tensors and not key.endswith(_COUNTER):
                raise InputError(
                    f"{self._place(key)} is missing (shape {list(expected.shape)}); "
                    f"expected it in {self._expected()}"
                )
        for key, found in self.tensors.items():
            if key not in wanted:
                raise InputError(
                    f"{self._place(key)} (shape {list(found.shape)}) is not expected in {self._expected()}"
                )
            if found.shape != wanted[key].shape:
                raise InputError(
                    f"{self._place(key)} has shape {list(found.shape)}; expected "
                    f"{list(wanted[key].shape)}, as follows from its other tensors"
                )
            if found.is_floating_point() and not bool(torch.isfinite(found).all()):
                raise InputError(f"{self._place(key)} holds NaN or infinite values; the file is damaged")
        return {key: self._value(key, expected) for key, expected in wanted.items()}

    def _value(self, key: str, expected: Tensor) -> Tensor:
        if key not in self.tensors:
            return torch.zeros(expected.shape, dtype=expected.dtype)
        return self.tensors[key].to(expected.dtype)

    def _place(self, key: str) -> str:
        return f"{self.source}: key '{self.prefix}{key}'"

    def _expected(self) -> str:
        return f"a checkpoint of the family '{self.family}'"


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
        str(key).removeprefix(_DATA_PARALLEL) for part in parts if isinstance(part, Mapping) for key in part
    }
    return next((family for family, known in _SIGNATURES.items() if keys.intersection(known)), None)


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
    for key, tensor in value.items():
        if not isinstance(key, str) or not isinstance(tensor, Tensor):
            raise InputError(
                f"{source}: key '{key}' holds {_kind(tensor)}; expected a tensor (family '{family}')"
            )
    tensors = dict(value)
    if tensors and all(key.startswith(_DATA_PARALLEL) for key in tensors):
        tensors = {key[len(_DATA_PARALLEL) :]: tensor for key, tensor in tensors.items()}
    return Weights(family, source, tensors)


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
