"""Settings of the image classification task. Does not import torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from saccade.data.images.config import ImagesConfig, LabelledImagesConfig
from saccade.models.choice import ModelChoice
from saccade.models.image_config import ImageModelConfig, LeNetConfig
from saccade.models.registry import IMAGE_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_COUNT


class ImageTrainConfig(TrainConfig):
    """Settings of the training loop, with batches of images."""

    batch_tokens: int = Field(128, ge=1, le=MAX_COUNT)
    """Batch size in images."""


class ImagesRecipe(Recipe):
    """Train a network on images."""

    needs_labels: ClassVar[bool] = True

    data: ImagesConfig = ImagesConfig()
    model: Annotated[ImageModelConfig, ModelChoice(IMAGE_MODELS)] = LeNetConfig()
    train: ImageTrainConfig = ImageTrainConfig()


class ImageRecipe(ImagesRecipe):
    """Train a classifier on labelled images."""

    task: Literal["image"] = "image"
    data: LabelledImagesConfig = LabelledImagesConfig()
