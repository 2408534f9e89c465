"""Settings of the captioning task. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.data.images.config import CaptionsConfig
from saccade.models.caption_config import AttentiveCaptionerConfig, CaptionerConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import CAPTION_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_COUNT


class CaptionTrainConfig(TrainConfig):
    """Settings of the training loop, with batches of captions."""

    batch_tokens: int = Field(64, ge=1, le=MAX_COUNT)
    """Batch size in captions."""


class CaptionRecipe(Recipe):
    """Train a captioner on images with captions."""

    task: Literal["caption"] = "caption"
    data: CaptionsConfig = CaptionsConfig()
    model: Annotated[CaptionerConfig, ModelChoice(CAPTION_MODELS)] = AttentiveCaptionerConfig()
    train: CaptionTrainConfig = CaptionTrainConfig()
