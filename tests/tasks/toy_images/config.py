"""Settings of the toy task."""

from typing import Annotated, Literal

from torch import Tensor, nn

from saccade.config import Config
from saccade.data.source import SourceConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class ImageModelConfig(Config):
    """Settings that all models of the task have."""

    name: str
    inputs: int = 0  # from the data
    outputs: int = 0


class LinearConfig(ImageModelConfig):
    """Settings of the linear classifier."""

    name: Literal["linear"] = "linear"


class ConvConfig(ImageModelConfig):
    """Settings of the convolutional classifier."""

    name: Literal["conv"] = "conv"
    channels: int = 4


class LinearClassifier(nn.Module):
    """Logits as a linear function of the pixels."""

    def __init__(self, config: LinearConfig):
        super().__init__()
        self.output = nn.Linear(config.inputs, config.outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, V) for images (B, Y, X)."""
        return self.output(images.flatten(1))


class ConvClassifier(nn.Module):
    """One convolution, global maximum, linear layer."""

    def __init__(self, config: ConvConfig):
        super().__init__()
        self.conv = nn.Conv2d(1, config.channels, 3)
        self.output = nn.Linear(config.channels, config.outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, V) for images (B, Y, X)."""
        return self.output(self.conv(images[:, None]).flatten(2).amax(2))


IMAGE_MODELS = {
    "conv": ModelEntry(ConvConfig, ConvClassifier),
    "linear": ModelEntry(LinearConfig, LinearClassifier),
}


class ImagesConfig(SourceConfig):
    """Settings of the data: synthetic bars, or an .npz file of `images` and `labels`."""

    size: int = 60  # images of each split


class ToyImageRecipe(Recipe):
    """Classify images."""

    task: Literal["toy-images"] = "toy-images"
    data: ImagesConfig = ImagesConfig(synthetic="bars")
    model: Annotated[ImageModelConfig, ModelChoice(IMAGE_MODELS)] = LinearConfig()
    train: TrainConfig = TrainConfig()
