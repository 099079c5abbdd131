"""Weights from a file that nobody vouches for: read without running code, loaded without guessing."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import InputError

SAFETENSORS = ".safetensors"
NUMPY_SUFFIXES = (".npz", ".npy")
STATE_DICT_ENTRIES = ("state_dict", "model_state_dict", "model")
WRAPPER_PREFIXES = ("module.", "_orig_mod.")  # left by DistributedDataParallel and torch.compile
NAMES_SHOWN = 3


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors or torch file, on the CPU, by name.

    A training checkpoint (``{"state_dict": ..., "epoch": ...}``) gives its state dict; prefixes that wrappers
    put before every name are taken off. Raises `InputError` for a file that is missing, cut off, of another
    kind, or would run code.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint file")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the checkpoint is empty (0 bytes)")
    content = _read_safetensors(path) if path.suffix == SAFETENSORS else _read_torch(path)
    return _without_prefix(_tensors_only(content, path))


def _read_safetensors(path: Path) -> object:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path, device="cpu")
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: not a whole safetensors file ({error}); was the download cut off?"
        ) from error


def _read_torch(path: Path) -> object:
    if path.suffix in NUMPY_SUFFIXES:
        raise InputError(
            f"{path}: NumPy checkpoints cannot be read; convert it to .safetensors or a torch state dict"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch has to say of a foreign file is in the error, if any
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: refused: it is no plain set of tensors, and reading it could run code "
            f"({first_line(error)}); "
            "save the state dict alone, best as .safetensors"
        ) from error
    except Exception as error:  # whatever a torch reader raises on foreign bytes
        if "TorchScript" in str(error):
            raise InputError(
                f"{path}: refused: a TorchScript archive is a program; where you trust it, save "
                "torch.jit.load(...).state_dict() as .safetensors and give that"
            ) from error
        raise InputError(
            f"{path}: cannot be read as a torch checkpoint ({type(error).__name__}: {first_line(error)}); "
            "was the download cut off?"
        ) from error


def first_line(error: Exception) -> str:
    """The telling line of a library's long message: what was refused where it says so, else its beginning."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    telling = [line for line in lines if line.startswith("WeightsUnpickler error")]
    return (telling or lines)[0][:160]


def _tensors_only(content: object, path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping):
        content = next(
            (content[name] for name in STATE_DICT_ENTRIES if isinstance(content.get(name), Mapping)), content
        )
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"{path}: holds {type(content).__name__}, expected a state dict (tensors by name)")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(f"{path}: the entry {name!r} is {type(value).__name__}, expected a tensor")
    return dict(content)


def _without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in WRAPPER_PREFIXES:
        if all(name.startswith(prefix) for name in tensors):
            return _without_prefix({name[len(prefix) :]: tensor for name, tensor in tensors.items()})
    return tensors


def load_strictly(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy the tensors into the model, float16 and bfloat16 into float32 too.

    Raises `InputError` naming the first weights that are missing, unexpected, or of another shape or kind;
    nothing is resized, left out or made up.
    """
    expected = model.state_dict()
    missing = [name for name in expected if name not in tensors]
    unexpected = [name for name in tensors if name not in expected]
    if missing or unexpected:
        parts = [
            f"{kind} {_some(names)}"
            for kind, names in (("lacks", missing), ("also has", unexpected))
            if names
        ]
        raise InputError(
            f"{where}: does not fit the model: it {' and '.join(parts)}; is it of another architecture?"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise InputError(
                f"{where}: {name} has the shape {list(tensor.shape)}, the model expects "
                f"{list(expected[name].shape)}; "
                "is it of another architecture?"
            )
        if tensor.is_floating_point() != expected[name].is_floating_point():
            raise InputError(f"{where}: {name} is {tensor.dtype}, the model expects {expected[name].dtype}")
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{where}: {name} holds NaN or infinite values; the checkpoint is damaged")
    model.load_state_dict(dict(tensors), strict=True)


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + rest


def hash_weights(model: torch.nn.Module) -> str:
    """SHA-256 (hex) of a model's state dict: names, dtypes, shapes and bytes, in the order of the names.

    Of the weights as they are used: a float16 file and the float32 file it was made from differ, two files
    that load into the same weights do not.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
