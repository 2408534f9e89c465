r"""EfficientNet-Lite0 (Tan and Le 2019; the variant without squeeze-and-excitation, 2020).

    block(x) = bn(conv_1(f(bn(depthwise_k(f(bn(conv_1(x))))))))  (+ x if the shape is the same)

An inverted residual: the first 1 × 1 convolution has six times the channels, the depthwise k × k
convolution has one kernel for each channel, the last 1 × 1 reduces them again without an
activation. f is min(max(0, x), 6). The padding is TensorFlow's "same": an image of even size that
is halved gets one more row of zeros below than above. Parameter names are those of the package
efficientnet_lite_pytorch without the underscores in front of them.
"""

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import (
    ImageNetwork,
    check_image_size,
    init_convolutions,
    scale_channels,
)
from saccade.models.image_config import EfficientNetLiteConfig
from saccade.nn.convolution import global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

EFFICIENTNET_WIDTH, EFFICIENTNET_FEATURES = 32, 1280
NORM_EPSILON, NORM_MOMENTUM = 1e-3, 0.01


class BlockGroup(NamedTuple):
    """Blocks of one output width: the first has the stride."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    outputs: int


LITE0_GROUPS = (
    BlockGroup(1, 3, 1, 1, 16),
    BlockGroup(2, 3, 2, 6, 24),
    BlockGroup(2, 5, 2, 6, 40),
    BlockGroup(3, 3, 2, 6, 80),
    BlockGroup(3, 5, 1, 6, 112),
    BlockGroup(4, 5, 2, 6, 192),
    BlockGroup(1, 3, 1, 6, 320),
)


class SamePadConv2d(nn.Conv2d):
    """A convolution that pads to ⌈size / stride⌉ outputs, more below and to the right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def _conv_forward(self, input: Images, weight: Tensor, bias: Tensor | None) -> Tensor:
        above, below = self._padding(input.shape[2])
        left, right = self._padding(input.shape[3])
        padded = F.pad(input, (left, right, above, below))
        return super()._conv_forward(padded, weight, bias)

    def _padding(self, size: int) -> tuple[int, int]:
        """Return the zeros before and after a side of this size."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


def make_norm(width: int) -> nn.BatchNorm2d:
    """Return batch norm with the constants of EfficientNet."""
    return nn.BatchNorm2d(width, eps=NORM_EPSILON, momentum=NORM_MOMENTUM)


class InvertedResidual(nn.Module):
    """Expand the channels, filter each of them, reduce them again."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        hidden = inputs * expansion
        self.has_shortcut = stride == 1 and inputs == outputs
        self.expand_conv = SamePadConv2d(inputs, hidden, 1) if expansion > 1 else None
        self.bn0 = make_norm(hidden) if expansion > 1 else None
        self.depthwise_conv = SamePadConv2d(hidden, hidden, kernel, stride, groups=hidden)
        self.bn1 = make_norm(hidden)
        self.project_conv = SamePadConv2d(hidden, outputs, 1)
        self.bn2 = make_norm(outputs)

    def forward(self, x: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Apply the block."""
        y = x
        if self.expand_conv is not None and self.bn0 is not None:
            y = F.relu6(self.bn0(self.expand_conv(y)))
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        return x + y if self.has_shortcut else y


class EfficientNetLite(ImageNetwork):
    """A stem, sixteen inverted residuals, 1280 features for each cell, the global mean.

    With frozen features only `fc` is trained, and batch norm keeps its running statistics.
    """

    def __init__(self, config: EfficientNetLiteConfig):
        super().__init__(config)
        self.has_frozen_features = False  # until all layers are there

        def scaled(channels: int) -> int:
            return scale_channels(channels, config.width, EFFICIENTNET_WIDTH)

        inputs = config.width
        self.conv_stem = SamePadConv2d(config.channels, inputs, 3, stride=2)
        self.bn0 = make_norm(inputs)
        blocks = []
        for group in LITE0_GROUPS:
            for index in range(group.repeats):
                outputs, stride = scaled(group.outputs), group.stride if index == 0 else 1
                blocks.append(
                    InvertedResidual(inputs, outputs, group.kernel, stride, group.expansion)
                )
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        features = scaled(EFFICIENTNET_FEATURES)
        self.conv_head = SamePadConv2d(inputs, features, 1)
        self.bn1 = make_norm(features)
        self.dropout = Dropout(config.dropout)
        self.fc = nn.Linear(features, config.classes)
        init_convolutions(self)
        check_image_size(self, config)
        self.has_frozen_features = config.has_frozen_features
        if self.has_frozen_features:
            for part in self._feature_layers():
                part.requires_grad_(False)
        self.train()

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid of 1280 features, 7 × 7 for images of 224 × 224."""
        x = F.relu6(self.bn0(self.conv_stem(images)))
        return F.relu6(self.bn1(self.conv_head(self.blocks(x))))

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.fc(self.dropout(global_mean_pool(grid)))

    def train(self, mode: bool = True) -> "EfficientNetLite":
        """Switch to training or evaluation; frozen features stay in evaluation."""
        super().train(mode)
        if self.has_frozen_features:
            for part in self._feature_layers():
                part.eval()
        return self

    def _feature_layers(self) -> tuple[nn.Module, ...]:
        return self.conv_stem, self.bn0, self.blocks, self.conv_head, self.bn1
