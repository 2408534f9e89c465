"""Settings of the text classification task. Does not import torch or numba."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, field_validator

from saccade.config import Config
from saccade.data.source import SourceConfig
from saccade.data.splits import SplitConfig
from saccade.estimators.text_classifiers.config import (
    FastTextClassifierConfig,
    NGramClassifierConfig,
)
from saccade.models.choice import ModelChoice
from saccade.models.registry import TEXT_CLASSIFICATION_MODELS, ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.training.estimator import FitConfig
from saccade.types.limits import MAX_COUNT, MAX_LENGTH

ESTIMATORS = {
    "fasttext": ModelEntry(
        FastTextClassifierConfig, "saccade.estimators.fasttext_classifier:FastTextClassifier"
    ),
    "ngrams": ModelEntry(
        NGramClassifierConfig, "saccade.estimators.text_classifiers.ngrams:NGramClassifier"
    ),
}
TEXT_CLASSIFIERS = {**ESTIMATORS, **TEXT_CLASSIFICATION_MODELS}
PIECE_MODELS = ("bert", "prompt")  # whose tokens are pieces of words

ClassWeights = Literal["none", "balanced"]


class LabelsConfig(SplitConfig, SourceConfig):
    """Source of labelled texts, how they are divided, and how they are split into words."""

    text: str | None = None
    """Column of the texts; inferred if not set."""
    pair: str | None = None
    """Column of the second texts of pairs; by its name if not set."""
    label: str | None = None
    """Column of the labels; inferred if not set."""
    multi_label: bool = False
    """Texts have several labels, with commas between; inferred if not set."""
    split: Literal["words", "whitespace", "jieba"] = "words"
    """Split into words and punctuation, only at spaces (text that is tokenized already), or
    Chinese into words with jieba (extra `chinese`)."""
    min_count: int = Field(1, ge=1, le=MAX_COUNT)
    """Number of occurrences below which a word is ignored (fasttext and networks)."""
    max_tokens: int | None = Field(None, ge=4, le=MAX_LENGTH)
    """`bert`: number of tokens after which a text or pair is truncated, special tokens included;
    the positions of the encoder if not set."""


class ClassifierFitConfig(FitConfig):
    """Settings of a fit, with weights of the labels."""

    class_weights: ClassWeights = "none"
    """`balanced`: every label has the same total weight, however many texts it has."""


class ClassifierTrainConfig(TrainConfig):
    """Settings of the training loop, with weights of the labels."""

    steps: int | None = Field(None, ge=0, le=MAX_COUNT)
    """Number of optimizer steps; from the data if not set. 0: the initial weights are used as they
    are, such as those of `init_from` with a prompt."""
    class_weights: ClassWeights = "none"
    """`balanced`: every label has the same total weight, however many texts it has."""


class ClassifyRecipe(Recipe):
    """Train a classifier on labelled texts."""

    task: Literal["classify"] = "classify"
    data: LabelsConfig = LabelsConfig()
    model: Annotated[Config, ModelChoice(TEXT_CLASSIFIERS)] = NGramClassifierConfig()
    train: SerializeAsAny[FitConfig] = ClassifierFitConfig()

    @field_validator("train", mode="wrap")
    @classmethod
    def _train_settings_of_the_model(cls, value: Any, handler: Any, info: Any) -> Any:
        """Networks have the settings of the training loop, estimators those of a fit."""
        if "model" not in info.data:  # the model is invalid, which is reported
            return value
        is_network = info.data["model"].name in TEXT_CLASSIFICATION_MODELS
        train_class = ClassifierTrainConfig if is_network else ClassifierFitConfig
        if isinstance(value, train_class):
            return value
        values = value.model_dump(exclude_unset=True) if isinstance(value, Config) else value
        return train_class.model_validate(values)

    @property
    def is_network(self) -> bool:
        """True if the model is trained by the loop."""
        return self.model_name in TEXT_CLASSIFICATION_MODELS

    @property
    def is_balanced(self) -> bool:
        """True if labels are weighted by the inverse of their frequency."""
        return bool(self.train.model_dump()["class_weights"] == "balanced")
