"""The tensors of a checkpoint, loaded key by key.

The published loaders are lenient and fail in silence; here every key must be there, known and of the right
shape.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import InputError

_COUNTER = "num_batches_tracked"  # of training steps: never used, absent from files of torch 0.4.0


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

    def fill(self, module: nn.Module) -> None:
        """Copy these weights into a module that has storage, float16 and bfloat16 into float32 too.

        Raises `InputError` as `build` does; nothing is resized, left out or made up.
        """
        module.load_state_dict(self._checked(module.state_dict()))

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
            if wanted[key].is_floating_point() and not found.is_floating_point():
                raise InputError(f"{self._place(key)} is {found.dtype}; expected {wanted[key].dtype}")
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
