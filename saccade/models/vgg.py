r"""VGG (Simonyan and Zisserman 2015): stages of 3 × 3 convolutions, each ended by max pooling.

Two 3 × 3 convolutions have the receptive field of one 5 × 5 with fewer weights and one more
nonlinearity. The number in a name counts the layers with weights; `_bn` has batch norm after each
convolution. Parameter names are torchvision's.
"""

from torch import nn

from saccade.models.image_base import (
    DenseHeadNetwork,
    check_image_size,
    init_convolutions,
    scale_channels,
)
from saccade.models.image_config import VGGConfig
from saccade.nn.convolution import Conv2d
from saccade.nn.dropout import Dropout

VGG_CHANNELS = (64, 128, 256, 512, 512)
VGG_STAGES = {  # convolutions of each stage
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}


class VGG(DenseHeadNetwork):
    """Five stages of 3 × 3 convolutions, then dense layers on a 7 × 7 grid."""

    def __init__(self, config: VGGConfig):
        super().__init__(config)
        self.features = nn.Sequential(*_stages(config))
        self.avgpool = nn.AdaptiveAvgPool2d(config.grid)
        last = scale_channels(VGG_CHANNELS[-1], config.width, VGG_CHANNELS[0])
        self.classifier = nn.Sequential(
            nn.Linear(last * config.grid**2, config.hidden),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.hidden, config.classes),
        )
        init_convolutions(self)
        check_image_size(self, config)


def _stages(config: VGGConfig) -> list[nn.Module]:
    name, _, norm = config.name.partition("_")
    layers: list[nn.Module] = []
    inputs = config.channels
    for published, convolutions in zip(VGG_CHANNELS, VGG_STAGES[name], strict=True):
        outputs = scale_channels(published, config.width, VGG_CHANNELS[0])
        for _ in range(convolutions):
            layers.append(Conv2d(inputs, outputs, 3, padding=1))
            if norm:
                layers.append(nn.BatchNorm2d(outputs))
            layers.append(nn.ReLU())
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    return layers
