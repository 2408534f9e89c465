r"""Network in network (Lin et al. 2014): 1 × 1 convolutions after each convolution, no dense layer.

    block    relu(conv_k), then two relu(conv_1): a small network applied to each pixel
    output   the last block has a channel for each class; its global mean is the logit

Kernels and channels are those of textbooks after AlexNet: 11, 5, 3, 3 and 96, 256, 384, classes.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import (
    ImageNetwork,
    check_image_size,
    init_convolutions,
    scale_channels,
)
from saccade.models.image_config import NiNConfig
from saccade.nn.convolution import Conv2d, global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

NIN_WIDTH = 96


class NiN(ImageNetwork):
    """Four blocks of convolutions; the class is the channel with the largest mean."""

    def __init__(self, config: NiNConfig):
        super().__init__(config)
        first, second, third = (
            scale_channels(channels, config.width, NIN_WIDTH) for channels in (96, 256, 384)
        )
        stem = (
            _block(config.channels, first, 3, padding=1)
            if config.has_small_stem
            else _block(config.channels, first, 11, stride=4)
        )
        self.features = nn.Sequential(
            stem,
            nn.MaxPool2d(3, 2),
            _block(first, second, 5, padding=2),
            nn.MaxPool2d(3, 2),
            _block(second, third, 3, padding=1),
            nn.MaxPool2d(3, 2),
            Dropout(config.dropout),
            _block(third, config.classes, 3, padding=1),
        )
        init_convolutions(self)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid of the last block, whose channels are the classes."""
        return self.features(images)

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return global_mean_pool(grid)

    def embed(self, images: Images) -> Float[Tensor, "B D"]:
        """Return the mean of the grid before the last block, which computes the classes."""
        return global_mean_pool(self.features[:-1](images))

    @property
    def output_name(self) -> str:
        """Name of the last block."""
        return f"features.{len(self.features) - 1}"


def _block(
    inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0
) -> nn.Sequential:
    """Return a convolution and two 1 × 1 convolutions, each with ReLU."""
    return nn.Sequential(
        Conv2d(inputs, outputs, kernel, stride, padding),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 1),
        nn.ReLU(),
    )
