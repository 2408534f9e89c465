r"""AlexNet (Krizhevsky et al. 2012): five convolutions, three dense layers, ReLU and dropout.

The widths are those of Krizhevsky 2014 ("One weird trick"), as in torchvision, whose parameter
names these are: 64, 192, 384, 256, 256 channels, and no local response normalisation.
"""

from torch import nn

from saccade.models.image_base import (
    DenseHeadNetwork,
    check_image_size,
    init_convolutions,
    scale_channels,
)
from saccade.models.image_config import AlexNetConfig
from saccade.nn.convolution import Conv2d
from saccade.nn.dropout import Dropout

ALEXNET_CHANNELS = (64, 192, 384, 256)  # the fifth convolution has those of the fourth


class AlexNet(DenseHeadNetwork):
    """Five convolutions with three max poolings, then dense layers on a 6 × 6 grid."""

    def __init__(self, config: AlexNetConfig):
        super().__init__(config)
        first, second, third, last = (
            scale_channels(channels, config.width, ALEXNET_CHANNELS[0])
            for channels in ALEXNET_CHANNELS
        )
        stem = (
            nn.Conv2d(config.channels, first, 3, padding=1)
            if config.has_small_stem
            else nn.Conv2d(config.channels, first, 11, stride=4, padding=2)
        )
        self.features = nn.Sequential(
            stem,
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(first, second, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            Conv2d(second, third, 3, padding=1),
            nn.ReLU(),
            Conv2d(third, last, 3, padding=1),
            nn.ReLU(),
            Conv2d(last, last, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(config.grid)
        self.classifier = nn.Sequential(
            Dropout(config.dropout),
            nn.Linear(last * config.grid**2, config.hidden),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.classes),
        )
        init_convolutions(self)
        check_image_size(self, config)
