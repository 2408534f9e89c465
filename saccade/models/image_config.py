"""Settings of the image networks. Does not import torch.

`width` is the number of channels of the first stage; the other stages keep the published ratio to
it, so that a small width gives a small version of the same network.
"""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_CHANNELS, MAX_IMAGE_SIZE, MAX_VOCABULARY, MAX_WIDTH


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
