"""Settings of the tagging task. Does not import torch."""

from typing import Annotated, Literal

from saccade.data.tagging.config import TaggedTextConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import TAGGING_MODELS
from saccade.models.tagging_config import BiLSTMTaggerConfig, TaggerConfig
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class TagRecipe(Recipe):
    """Train a tagger on sentences with a tag for each token."""

    task: Literal["tag"] = "tag"
    data: TaggedTextConfig = TaggedTextConfig()
    model: Annotated[TaggerConfig, ModelChoice(TAGGING_MODELS)] = BiLSTMTaggerConfig()
    train: TrainConfig = TrainConfig()
