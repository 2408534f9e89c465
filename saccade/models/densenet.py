r"""Densely connected networks (Huang et al. 2017): each layer reads all layers before it.

    x_l = [x_{l-1}; H_l(x_{l-1})],   H = conv_3 ∘ relu ∘ bn ∘ conv_1 ∘ relu ∘ bn

H_l adds `growth` channels to the block. Between two blocks a transition halves the channels (1 × 1
convolution) and the image (mean pooling). DenseNet-BC, with torchvision's parameter names.
"""

from collections import OrderedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, check_image_size, init_convolutions
from saccade.models.image_config import DenseNetConfig
from saccade.nn.convolution import Conv2d, global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

DENSENET_BLOCKS = {
    "densenet121": (6, 12, 24, 16),
    "densenet169": (6, 12, 32, 32),
    "densenet201": (6, 12, 48, 32),
}
BOTTLENECK = 4  # channels of the 1 × 1 convolution, as a multiple of the growth


class DenseLayer(nn.Module):
    """The input, and `growth` new channels computed from it."""

    def __init__(self, inputs: int, growth: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, BOTTLENECK * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(BOTTLENECK * growth)
        self.conv2 = Conv2d(BOTTLENECK * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Images) -> Float[Tensor, "B D Y X"]:
        """Return [x; H(x)]."""
        y = self.conv1(self.norm1(x).relu())
        y = self.conv2(self.norm2(y).relu())
        return torch.cat([x, y], dim=1)


class DenseNet(ImageNetwork):
    """A stem and four dense blocks with transitions between them."""

    def __init__(self, config: DenseNetConfig):
        super().__init__(config)
        self.features = nn.Sequential(_stem(config))
        channels = config.width
        depths = DENSENET_BLOCKS[config.name]
        for number, depth in enumerate(depths, 1):
            layers: OrderedDict[str, nn.Module] = OrderedDict()
            for index in range(1, depth + 1):
                layers[f"denselayer{index}"] = DenseLayer(channels, config.growth)
                channels += config.growth
            self.features.add_module(f"denseblock{number}", nn.Sequential(layers))
            if number < len(depths):
                self.features.add_module(f"transition{number}", _transition(channels))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(channels, config.classes)
        init_convolutions(self)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the last block, its norm and ReLU."""
        return self.features(images).relu()

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.classifier(self.dropout(global_mean_pool(grid)))


def _stem(config: DenseNetConfig) -> OrderedDict[str, nn.Module]:
    """Return the first convolution, and the pooling of the published stem."""
    is_small, width = config.has_small_stem, config.width
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if is_small:
        layers["conv0"] = nn.Conv2d(config.channels, width, 3, padding=1, bias=False)
    else:
        layers["conv0"] = nn.Conv2d(config.channels, width, 7, 2, padding=3, bias=False)
    layers["norm0"], layers["relu0"] = nn.BatchNorm2d(width), nn.ReLU()
    if not is_small:
        layers["pool0"] = nn.MaxPool2d(3, 2, padding=1)
    return layers


def _transition(channels: int) -> nn.Sequential:
    """Return a layer that halves the channels, rounded down, and the image."""
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(channels),
            relu=nn.ReLU(),
            conv=nn.Conv2d(channels, channels // 2, 1, bias=False),
            pool=nn.AvgPool2d(2),
        )
    )
