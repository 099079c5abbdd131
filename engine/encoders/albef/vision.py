"""ALBEF's vision transformer, with the key names of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.bert import head_count
from engine.encoders.weights import Weights

LAYER_NORM_EPS = 1e-6  # torch's default of 1e-5 moves the image tokens by up to 4e-5


@dataclass(frozen=True)
class VisionSizes:
    """Sizes of a vision transformer; `tokens` counts the class token."""

    patch: int
    tokens: int
    width: int
    layers: int
    heads: int
    inner_width: int


def read_vision_sizes(weights: Weights, heads: int | None) -> VisionSizes:
    """Sizes from the tensors (keys without a prefix); see `head_count` for the heads."""
    width, _, patch, _ = weights.shape("patch_embed.proj.weight", 4)
    return VisionSizes(
        patch=patch,
        tokens=weights.shape("pos_embed", 3)[1],
        width=width,
        layers=weights.count("blocks.{}."),
        heads=head_count(weights, "image_heads", width, heads),
        inner_width=weights.shape("blocks.0.mlp.fc1.weight", 2)[0],
    )


class VisionTransformer(nn.Module):
    """Pixels float32 [n, 3, side, side] to tokens [n, tokens, width], class token first, all normed at the
    end."""

    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, sizes.width))
        self.pos_embed = nn.Parameter(torch.empty(1, sizes.tokens, sizes.width))
        self.patch_embed = _Patches(sizes)
        self.blocks = nn.ModuleList(_Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width, eps=LAYER_NORM_EPS)

    def forward(self, pixels: Tensor) -> Tensor:
        """See the class."""
        patches = self.patch_embed.proj(pixels).flatten(2).transpose(1, 2)
        first = self.cls_token.expand(len(pixels), -1, -1).to(patches.dtype)
        hidden = torch.cat([first, patches], dim=1) + self.pos_embed
        for block in self.blocks:
            hidden = block(hidden)
        tokens: Tensor = self.norm(hidden)
        return tokens


class _Patches(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, sizes.width, kernel_size=sizes.patch, stride=sizes.patch)


class _Block(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(sizes.width, eps=LAYER_NORM_EPS)
        self.attn = _SelfAttention(sizes)
        self.norm2 = nn.LayerNorm(sizes.width, eps=LAYER_NORM_EPS)
        self.mlp = _FeedForward(sizes)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attn(self.norm1(hidden))
        result: Tensor = hidden + self.mlp(self.norm2(hidden))
        return result


class _SelfAttention(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.proj = nn.Linear(sizes.width, sizes.width)

    def forward(self, hidden: Tensor) -> Tensor:
        n, tokens, width = hidden.shape
        split = self.qkv(hidden).view(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(split[0], split[1], split[2])
        result: Tensor = self.proj(context.transpose(1, 2).flatten(2))
        return result


class _FeedForward(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.fc1 = nn.Linear(sizes.width, sizes.inner_width)
        self.fc2 = nn.Linear(sizes.inner_width, sizes.width)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.fc2(functional.gelu(self.fc1(hidden)))
        return result
