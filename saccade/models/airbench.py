r"""A network without shortcuts that learns small images in few epochs (Jordan 2024, airbench94).

    stem     gelu(bn(conv_2(x))), whose kernels start as a basis of 2 × 2 patches and its negative
    group    gelu(bn(conv_3(gelu(bn(maxpool_2(conv_3(x)))))))                 three of them
    output   W max_i(x_i) / 9

Convolutions of a group start as the identity of as many channels as they read, so that a new
network passes its input on. Norms have no gain. Most of the time is spent after the first pooling,
on a quarter of the pixels.

Differs from the paper, which whitens patches by their covariance in the training images and keeps
those kernels. Here the basis is that of Haar: mean, horizontal, vertical and diagonal differences,
of brightness and of two colour differences, which are nearly uncorrelated in photographs; batch
norm scales them, and the kernels are trained. The last pooling is over all cells, of which 32 × 32
pixels have 3 × 3.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, check_image_size
from saccade.models.image_config import AirbenchConfig
from saccade.nn.convolution import Conv2d, global_max_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

OUTPUT_SCALE = 1 / 9
HAAR = ((1, 1), (1, 1)), ((1, -1), (1, -1)), ((1, 1), (-1, -1)), ((1, -1), (-1, 1))
COLOURS = (1, 1, 1), (1, 0, -1), (-1, 2, -1)  # brightness, red - blue, green - the others


class Airbench(ImageNetwork):
    """A stem of patch differences and three groups of two convolutions."""

    def __init__(self, config: AirbenchConfig):
        super().__init__(config)
        width = config.width
        kernels = patch_kernels(config.channels)
        self.stem = nn.Conv2d(config.channels, len(kernels), 2, bias=False)
        with torch.no_grad():
            self.stem.weight.copy_(kernels)
        self.norm = make_norm_without_gain(len(kernels))
        self.groups = nn.Sequential(
            ConvolutionGroup(len(kernels), width),
            ConvolutionGroup(width, 4 * width),
            ConvolutionGroup(4 * width, 4 * width),
        )
        self.dropout = Dropout(config.dropout)
        self.fc = nn.Linear(4 * width, config.classes, bias=False)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the last group."""
        return self.groups(F.gelu(self.norm(self.stem(images))))

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return OUTPUT_SCALE * self.fc(self.dropout(self.embed_grid(grid)))

    def embed_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B D"]:
        """Return the largest value of each channel."""
        return global_max_pool(grid)


class ConvolutionGroup(nn.Module):
    """Two 3 × 3 convolutions; a pooling after the first halves the image."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv1 = Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.conv2 = Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.pool = nn.MaxPool2d(2)
        self.norm1, self.norm2 = make_norm_without_gain(outputs), make_norm_without_gain(outputs)
        for conv in (self.conv1, self.conv2):
            nn.init.dirac_(conv.weight.data[: conv.in_channels])

    def forward(self, x: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid of half the size."""
        x = self.conv1(x)
        # a norm without gain and max pooling commute: in training the norm has fewer values, and in
        # inference it can be folded into the convolution
        x = self.norm1(self.pool(x)) if self.training else self.pool(self.norm1(x))
        return F.gelu(self.norm2(self.conv2(F.gelu(x))))


def make_norm_without_gain(channels: int) -> nn.BatchNorm2d:
    """Return a batch norm whose gain stays 1."""
    norm = nn.BatchNorm2d(channels)
    norm.weight.requires_grad_(False)
    return norm


def patch_kernels(channels: int) -> Float[Tensor, "D C 2 2"]:
    """Return orthonormal kernels of 2 × 2 pixels and all channels, followed by their negatives."""
    haar = torch.tensor(HAAR, dtype=torch.float32) / 2
    mixtures = torch.tensor(COLOURS, dtype=torch.float32) if channels == 3 else torch.eye(channels)
    mixtures = mixtures / mixtures.norm(dim=1, keepdim=True)
    kernels = (mixtures[:, None, :, None, None] * haar[None, :, None]).flatten(0, 1)
    return torch.cat([kernels, -kernels])
