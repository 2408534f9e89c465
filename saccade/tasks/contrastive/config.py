"""Settings of contrastive learning. Does not import torch."""

from typing import ClassVar, Literal

from pydantic import Field

from saccade.tasks.image_classification.config import ImagesRecipe, ImageTrainConfig
from saccade.types.limits import MAX_COUNT, MAX_WIDTH


class ContrastiveTrainConfig(ImageTrainConfig):
    """Settings of the training loop, of the loss and of the projection that it trains."""

    batch_tokens: int = Field(256, ge=2, le=MAX_COUNT)
    """Batch size in images; each has two views, and is compared with the others of its batch."""
    temperature: float = Field(0.2, ge=1e-3, le=100)
    """Temperature τ of the loss: the smaller, the more the most similar other images count."""
    projection_hidden: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of the hidden layer of the projection."""
    projection_width: int = Field(64, ge=1, le=MAX_WIDTH)
    """Width of the projected vectors, which the loss compares."""


class ContrastiveRecipe(ImagesRecipe):
    """Learn features of images without labels."""

    needs_labels: ClassVar[bool] = False

    task: Literal["contrastive"] = "contrastive"
    train: ContrastiveTrainConfig = ContrastiveTrainConfig()
