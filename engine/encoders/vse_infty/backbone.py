"""The grid models' backbones: a bottleneck ResNet as Caffe had it, and ResNet or ResNeXt as torchvision has
them.

Caffe's (the 'detector' models) has the stride in a block's first convolution and pools the stem without
padding; torchvision's (the 'wsl' and 'imagenet' models) has it in the second and pads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.weights import Weights
from engine.errors import InputError

# in the checkpoint, base.0 and base.1 are the stem; these keys are the stages
_STAGES = ("base.4", "base.5", "base.6", "top.0")

Style = Literal["caffe", "torchvision"]


@dataclass(frozen=True)
class StageSizes:
    """A stage: blocks, input, inner and output channels of its blocks, groups of their second convolution."""

    blocks: int
    inputs: int
    inner: int
    outputs: int
    groups: int


@dataclass(frozen=True)
class BackboneSizes:
    """Sizes and style of the backbone."""

    stem: int
    stages: tuple[StageSizes, ...]
    style: Style


def read_backbone_sizes(weights: Weights, source: str | None) -> BackboneSizes:
    """Sizes from the tensors (keys begin with ``base.`` and ``top.``).

    The style follows from `source` (the ``backbone_source`` of the training options); where that is None,
    from the tensors: only the 'wsl' models have grouped convolutions. Raises `InputError` for tensors that
    are no bottleneck ResNet.
    """
    stages = []
    for stage in _STAGES:
        inner, inputs, _, _ = weights.shape(f"{stage}.0.conv1.weight", 4)
        in_group = weights.shape(f"{stage}.0.conv2.weight", 4)[1]
        if not in_group or inner % in_group:
            raise InputError(
                f"{weights.source}: its backbone has {inner} channels in groups of {in_group}; expected a "
                "ResNet or ResNeXt"
            )
        outputs = weights.shape(f"{stage}.0.conv3.weight", 4)[0]
        stages.append(StageSizes(weights.count(stage + ".{}."), inputs, inner, outputs, inner // in_group))
    grouped = any(stage.groups > 1 for stage in stages)
    style: Style = "torchvision" if grouped or source not in (None, "detector") else "caffe"
    return BackboneSizes(weights.shape("base.0.weight", 4)[0], tuple(stages), style)


class Backbone(nn.Module):
    """Pixels [n, 3, height, width] to a map [n, channels, height / 32, width / 32]."""

    def __init__(self, sizes: BackboneSizes) -> None:
        super().__init__()
        stem = nn.Conv2d(3, sizes.stem, kernel_size=7, stride=2, padding=3, bias=False)
        caffe = sizes.style == "caffe"
        pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=0 if caffe else 1, ceil_mode=caffe)
        self.style = sizes.style
        first, *between, last = (_stage(stage, n, sizes.style) for n, stage in enumerate(sizes.stages))
        self.base = nn.Sequential(stem, nn.BatchNorm2d(sizes.stem), nn.ReLU(), pool, first, *between)
        self.top = nn.Sequential(last)

    def forward(self, pixels: Tensor) -> Tensor:
        """See the class."""
        features: Tensor = self.top(self.base(pixels))
        return features


def _stage(sizes: StageSizes, number: int, style: Style) -> nn.Sequential:
    first = _Block(sizes, style, stride=1 if number == 0 else 2, reshapes=True)
    return nn.Sequential(first, *(_Block(sizes, style) for _ in range(sizes.blocks - 1)))


class _Block(nn.Module):
    def __init__(self, sizes: StageSizes, style: Style, stride: int = 1, reshapes: bool = False) -> None:
        super().__init__()
        inner, outputs = sizes.inner, sizes.outputs
        inputs = sizes.inputs if reshapes else outputs
        first, second = (stride, 1) if style == "caffe" else (1, stride)
        self.conv1 = nn.Conv2d(inputs, inner, kernel_size=1, stride=first, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(
            inner, inner, kernel_size=3, stride=second, padding=1, groups=sizes.groups, bias=False
        )
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if reshapes:
            self.downsample.append(nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(outputs))

    def forward(self, features: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(features)))
        hidden = functional.relu(self.bn2(self.conv2(hidden)))
        return functional.relu(self.bn3(self.conv3(hidden)) + self.downsample(features))
