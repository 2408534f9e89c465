"""Settings of the image networks. Does not import torch.

`width` is the number of channels of the first stage; the other stages keep the published ratio to
it, so that a small width gives a small version of the same network.
"""

from typing import Literal, NamedTuple

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import (
    MAX_CHANNELS,
    MAX_DEPTH,
    MAX_IMAGE_SIZE,
    MAX_VOCABULARY,
    MAX_WIDTH,
)

MAX_POOLED_STAGES = 10  # each doubles the channels


class PretrainedImages(NamedTuple):
    """The form of images that pretrained weights expect."""

    size: int  # side in pixels, where the settings leave it open
    mean: float  # of the pixels, of values from 0 to 1, in every channel
    deviation: float


class ImageModelConfig(Config):
    """Settings that every image network has."""

    name: str
    classes: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of classes; set from the data."""
    channels: int = Field(0, ge=0, le=MAX_CHANNELS)
    """Number of channels of an image; set from the data."""
    image_size: int = Field(0, ge=0, le=MAX_IMAGE_SIZE)
    """Side of the square images, in pixels; set from the data."""
    width: int = Field(64, ge=1, le=MAX_WIDTH)
    """Number of channels of the first stage."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability before the output layer."""

    @property
    def pretrained_images(self) -> PretrainedImages | None:
        """The form of images that pretrained weights expect; None: that of the data."""
        return None


class LeNetConfig(ImageModelConfig):
    """Settings of LeNet; with sigmoid and mean pooling it is the one of textbooks."""

    name: Literal["lenet"] = "lenet"
    width: int = Field(6, ge=1, le=MAX_WIDTH)
    """Number of channels of the first convolution; the second has 16/6 of it."""
    kernel_size: int = Field(5, ge=1, le=MAX_WIDTH)
    """Side of the kernels; 3 for images of less than 12 pixels."""
    activation: Literal["relu", "sigmoid", "tanh"] = "relu"
    """Activation of the convolutions and the dense layers."""
    pooling: Literal["max", "mean", "stochastic"] = "max"
    """Pooling after each convolution."""


class TorchvisionConfig(ImageModelConfig):
    """Settings of networks that torchvision has too."""

    weights: str | None = None
    """File of torchvision's weights (safetensors) to start from; the output layer is new if the
    number of classes differs."""


Stem = Literal["auto", "imagenet", "small"]
SMALL_IMAGE = 64  # pixels of a side, below which `auto` is the stem for small images


class StemConfig(ImageModelConfig):
    """Settings of networks whose published stem shrinks an image by four."""

    stem: Stem = "auto"
    """First layers: `imagenet`, as published, which shrink an image by four; `small`, a 3 × 3
    convolution that keeps its size; `auto`, small for images of less than 64 pixels."""

    @property
    def has_small_stem(self) -> bool:
        """True if the first convolution is 3 × 3 and keeps the size of the image."""
        return self.stem == "small" or (self.stem == "auto" and self.image_size < SMALL_IMAGE)


class AlexNetConfig(TorchvisionConfig, StemConfig):
    """Settings of AlexNet."""

    name: Literal["alexnet"] = "alexnet"
    hidden: int = Field(4096, ge=1, le=MAX_WIDTH)
    """Width of the two dense layers."""
    grid: int = Field(6, ge=1, le=MAX_IMAGE_SIZE)
    """Side of the grid that the dense layers read, after mean pooling."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of the inputs of the dense layers."""


class VGGConfig(TorchvisionConfig):
    """Settings of the VGG networks; `_bn` has batch norm after each convolution."""

    name: Literal[
        "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"
    ] = "vgg11"
    hidden: int = Field(4096, ge=1, le=MAX_WIDTH)
    """Width of the two dense layers."""
    grid: int = Field(7, ge=1, le=MAX_IMAGE_SIZE)
    """Side of the grid that the dense layers read, after mean pooling."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of the outputs of the dense layers."""


class NiNConfig(StemConfig):
    """Settings of network in network."""

    name: Literal["nin"] = "nin"
    width: int = Field(96, ge=1, le=MAX_WIDTH)
    """Number of channels of the first block."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of the inputs of the last block."""


class GoogLeNetConfig(TorchvisionConfig, StemConfig):
    """Settings of GoogLeNet, with batch norm and without auxiliary classifiers."""

    name: Literal["googlenet"] = "googlenet"
    branch_kernel: Literal[3, 5] = 3
    """Kernel of the third branch: 5 in the paper, 3 in torchvision."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout probability before the output layer."""


class ResNetConfig(TorchvisionConfig, StemConfig):
    """Settings of the residual networks."""

    name: Literal["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"] = "resnet18"


class DenseNetConfig(TorchvisionConfig, StemConfig):
    """Settings of the densely connected networks."""

    name: Literal["densenet121", "densenet169", "densenet201"] = "densenet121"
    growth: int = Field(32, ge=1, le=MAX_WIDTH)
    """Number of channels that each layer adds."""


class AirbenchConfig(ImageModelConfig):
    """Settings of a network that learns small images in few epochs (Jordan 2024)."""

    name: Literal["airbench"] = "airbench"
    width: int = Field(64, ge=1, le=MAX_WIDTH)
    """Number of channels of the first group; the two others have four times as many."""


class AttentionCNNConfig(ImageModelConfig):
    """Settings of a convolutional network with self-attention over its grid."""

    name: Literal["attention_cnn"] = "attention_cnn"
    width: int = Field(32, ge=1, le=MAX_WIDTH)
    """Number of channels of the first stage; each stage doubles it."""
    depth: int = Field(2, ge=1, le=MAX_POOLED_STAGES)
    """Number of stages, each of which halves the image."""
    attention: bool = True
    """Self-attention over the grid after the last stage; false: the same network without it."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; must divide the channels of the last stage."""


class VisionTransformerConfig(ImageModelConfig):
    """Settings of the Vision Transformer."""

    name: Literal["vit"] = "vit"
    patch_size: int = Field(4, ge=1, le=MAX_IMAGE_SIZE)
    """Side of a patch, in pixels; must divide the image size."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the vector of a patch."""
    depth: int = Field(6, ge=1, le=MAX_DEPTH)
    """Number of blocks."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; must divide the width."""
    hidden: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward networks."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of the embeddings and the residual branches."""


class EfficientNetLiteConfig(ImageModelConfig):
    """Settings of EfficientNet-Lite0, whose published weights are in the extra `vision-weights`."""

    name: Literal["efficientnet_lite0"] = "efficientnet_lite0"
    width: int = Field(32, ge=1, le=MAX_WIDTH)
    """Number of channels of the first convolution; the published weights need 32."""
    pretrained: bool = True
    """Start from the weights trained on ImageNet (extra vision-weights)."""
    frozen: bool = True
    """Train the output layer only; the others keep the pretrained weights."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout probability before the output layer."""

    @property
    def pretrained_images(self) -> PretrainedImages | None:
        """The form of images that the published weights expect; their size was 224."""
        return PretrainedImages(128, 127 / 255, 128 / 255) if self.pretrained else None

    @property
    def has_frozen_features(self) -> bool:
        """True if only the output layer is trained."""
        return self.pretrained and self.frozen
