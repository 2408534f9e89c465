r"""GoogLeNet (Szegedy et al. 2015): blocks of four parallel branches, whose channels are joined.

    inception(x) = [conv_1(x); conv_3(conv_1(x)); conv_k(conv_1(x)); conv_1(maxpool_3(x))]

The 1 × 1 convolutions before the larger ones reduce the channels, and with them the cost. As in
torchvision, whose parameter names these are, every convolution has batch norm, and k is 3 in place
of the paper's 5. The paper's two auxiliary classifiers, which are used in training only, are left
out: batch norm serves their purpose (Szegedy et al. 2016, section 4).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import (
    ImageNetwork,
    check_image_size,
    init_convolutions,
    scale_channels,
)
from saccade.models.image_config import GoogLeNetConfig
from saccade.nn.convolution import Conv2d, global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

GOOGLENET_WIDTH = 64
INCEPTION_CHANNELS = {  # of the branches: 1×1; reduction and 3×3; reduction and k×k; pooling
    "inception3a": (64, 96, 128, 16, 32, 32),
    "inception3b": (128, 128, 192, 32, 96, 64),
    "inception4a": (192, 96, 208, 16, 48, 64),
    "inception4b": (160, 112, 224, 24, 64, 64),
    "inception4c": (128, 128, 256, 24, 64, 64),
    "inception4d": (112, 144, 288, 32, 64, 64),
    "inception4e": (256, 160, 320, 32, 128, 128),
    "inception5a": (256, 160, 320, 32, 128, 128),
    "inception5b": (384, 192, 384, 48, 128, 128),
}
POOLED_BEFORE = {"inception4a": ("maxpool3", 3), "inception5a": ("maxpool4", 2)}


class ConvNormReLU(nn.Module):
    """Convolution without bias, batch norm with ε = 0.001, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0):
        super().__init__()
        self.conv = Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Apply the three."""
        return self.bn(self.conv(x)).relu()


class Inception(nn.Module):
    """Four parallel branches of the same height and width, joined along the channels."""

    def __init__(self, inputs: int, channels: tuple[int, ...], kernel: int):
        super().__init__()
        one, reduce_three, three, reduce_large, large, pooled = channels
        self.branch1 = ConvNormReLU(inputs, one, 1)
        self.branch2 = nn.Sequential(
            ConvNormReLU(inputs, reduce_three, 1), ConvNormReLU(reduce_three, three, 3, padding=1)
        )
        self.branch3 = nn.Sequential(
            ConvNormReLU(inputs, reduce_large, 1),
            ConvNormReLU(reduce_large, large, kernel, padding=kernel // 2),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, padding=1, ceil_mode=True), ConvNormReLU(inputs, pooled, 1)
        )

    def forward(self, x: Images) -> Float[Tensor, "B D Y X"]:
        """Join the outputs of the branches."""
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        return torch.cat([branch(x) for branch in branches], dim=1)


class GoogLeNet(ImageNetwork):
    """A stem, nine inception blocks and the global mean."""

    def __init__(self, config: GoogLeNetConfig):
        super().__init__(config)

        def scaled(channels: int) -> int:
            return scale_channels(channels, config.width, GOOGLENET_WIDTH)

        first, third = scaled(64), scaled(192)
        stem: dict[str, nn.Module] = {
            "conv1": ConvNormReLU(config.channels, first, 3, padding=1)
            if config.has_small_stem
            else ConvNormReLU(config.channels, first, 7, 2, padding=3)
        }
        if not config.has_small_stem:
            stem["maxpool1"] = nn.MaxPool2d(3, 2, ceil_mode=True)
        stem["conv2"] = ConvNormReLU(first, first, 1)
        stem["conv3"] = ConvNormReLU(first, third, 3, padding=1)
        stem["maxpool2"] = nn.MaxPool2d(3, 2, ceil_mode=True)
        layers, inputs = stem, third
        for name, published in INCEPTION_CHANNELS.items():
            if name in POOLED_BEFORE:
                pooling, kernel = POOLED_BEFORE[name]
                layers[pooling] = nn.MaxPool2d(kernel, 2, ceil_mode=True)
            channels = tuple(map(scaled, published))
            layers[name] = Inception(inputs, channels, config.branch_kernel)
            inputs = sum(channels[index] for index in (0, 2, 4, 5))
        self.layer_names = tuple(layers)
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.dropout = Dropout(config.dropout)
        self.fc = nn.Linear(inputs, config.classes)
        init_convolutions(self)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the last block."""
        x = images
        for name in self.layer_names:
            x = self.get_submodule(name)(x)
        return x

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.fc(self.dropout(global_mean_pool(grid)))
