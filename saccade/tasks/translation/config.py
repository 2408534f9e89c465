"""Settings of the translation task."""

from typing import Annotated, Literal

from saccade.data.parallel.config import PairsConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import BahdanauConfig, TranslatorConfig
from saccade.models.registry import TRANSLATION_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class TranslationRecipe(Recipe):
    """Train a translator on pairs of texts."""

    task: Literal["translate"] = "translate"
    data: PairsConfig = PairsConfig()
    model: Annotated[TranslatorConfig, ModelChoice(TRANSLATION_MODELS)] = BahdanauConfig()
    train: TrainConfig = TrainConfig()
