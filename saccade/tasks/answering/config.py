"""Settings of the answering task. Does not import torch."""

from typing import Annotated, Literal

from saccade.data.answering.config import QuestionsConfig
from saccade.models.answer_config import BertAnswererConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import ANSWER_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig


class AnswerRecipe(Recipe):
    """Train a model that finds the answers to questions in a context."""

    task: Literal["answer"] = "answer"
    data: QuestionsConfig = QuestionsConfig()
    model: Annotated[BertAnswererConfig, ModelChoice(ANSWER_MODELS)] = BertAnswererConfig()
    train: TrainConfig = TrainConfig()
