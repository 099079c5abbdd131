"""Learned positions of a vision transformer, brought to another image size."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from engine.encoders.weights import Weights
from engine.errors import InputError


def position_grid(weights: Weights, key: str) -> int:
    """Side of the square grid of patches that the positions [1, 1 + side * side, width] under `key` belong
    to."""
    patches = weights.shape(key, 3)[1] - 1
    side = math.isqrt(max(patches, 0))
    if side < 1 or side * side != patches:
        raise InputError(
            f"{weights.source}: key '{key}' has {patches} patches; expected a square number of them"
        )
    return side


def fit_positions(positions: Tensor, side: int) -> Tensor:
    """Positions [1, 1 + old * old, width] for a grid of `side` x `side` patches.

    The class token's row is kept; the others are interpolated bicubically without antialiasing, as ALBEF
    and BLIP do when they load a checkpoint (spec/models.md, section 4). Unchanged when the grid is the
    same.
    """
    first, patches = positions[:, :1].float(), positions[:, 1:].float()
    old = math.isqrt(patches.shape[1])
    if old == side:
        return positions
    grid = patches.reshape(1, old, old, -1).permute(0, 3, 1, 2)
    fitted = functional.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    return torch.cat([first, fitted.flatten(2).transpose(1, 2)], dim=1)


def fit_to_image(weights: Weights, key: str, patch: int, image_size: int | None) -> tuple[Weights, int]:
    """The weights with the positions under `key` for an image of `image_size` pixels, and that size.

    None means the size that the checkpoint was trained with. Raises `InputError` when the patches do not
    fill it.
    """
    trained = position_grid(weights, key) * patch
    size = trained if image_size is None else image_size
    if size < patch or size % patch:
        raise InputError(
            f"{weights.source}: image_size={size} is no multiple of the patch size {patch}; "
            f"the checkpoint was trained with {trained}"
        )
    return weights.replaced(key, fit_positions(weights.tensors[key], size // patch)), size
