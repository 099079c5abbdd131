"""The grid models' backbone: a bottleneck ResNet as Caffe had it, with the stride in a block's first
convolution."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.weights import Weights
from engine.errors import InputError

# in the checkpoint, base.0 and base.1 are the stem; these keys are the stages
_STAGES = ("base.4", "base.5", "base.6", "top.0")


@dataclass(frozen=True)
class StageSizes:
    """A stage: blocks, input channels, inner channels and output channels of its blocks."""

    blocks: int
    inputs: int
    inner: int
    outputs: int


@dataclass(frozen=True)
class BackboneSizes:
    """Sizes of the backbone."""

    stem: int
    stages: tuple[StageSizes, ...]


def read_backbone_sizes(weights: Weights) -> BackboneSizes:
    """Sizes from the tensors (keys begin with ``base.`` and ``top.``).

    Raises `InputError` for grouped convolutions: the ResNeXt of the 'wsl' models, which is not covered.
    """
    stages = []
    for stage in _STAGES:
        inner, inputs, _, _ = weights.shape(f"{stage}.0.conv1.weight", 4)
        if weights.shape(f"{stage}.0.conv2.weight", 4)[1] != inner:
            raise InputError(
                f"{weights.source}: its backbone has grouped convolutions; "
                "only the 'detector' backbone is covered"
            )
        outputs = weights.shape(f"{stage}.0.conv3.weight", 4)[0]
        stages.append(StageSizes(weights.count(stage + ".{}."), inputs, inner, outputs))
    return BackboneSizes(weights.shape("base.0.weight", 4)[0], tuple(stages))


class Backbone(nn.Module):
    """Pixels [n, 3, height, width] to a map [n, channels, height / 32, width / 32]."""

    def __init__(self, sizes: BackboneSizes) -> None:
        super().__init__()
        stem = nn.Conv2d(3, sizes.stem, kernel_size=7, stride=2, padding=3, bias=False)
        pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=0, ceil_mode=True)
        first, *between, last = (_stage(stage, n) for n, stage in enumerate(sizes.stages))
        self.base = nn.Sequential(stem, nn.BatchNorm2d(sizes.stem), nn.ReLU(), pool, first, *between)
        self.top = nn.Sequential(last)

    def forward(self, pixels: Tensor) -> Tensor:
        """See the class."""
        features: Tensor = self.top(self.base(pixels))
        return features


def _stage(sizes: StageSizes, number: int) -> nn.Sequential:
    first = _Block(sizes.inputs, sizes.inner, sizes.outputs, stride=1 if number == 0 else 2, reshapes=True)
    others = (_Block(sizes.outputs, sizes.inner, sizes.outputs) for _ in range(sizes.blocks - 1))
    return nn.Sequential(first, *others)


class _Block(nn.Module):
    def __init__(
        self, inputs: int, inner: int, outputs: int, stride: int = 1, reshapes: bool = False
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inner, kernel_size=1, stride=stride, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, kernel_size=3, padding=1, bias=False)
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
