"""Settings of the text classification task."""

from typing import Literal

from pydantic import Field

from saccade.data.source import SourceConfig
from saccade.estimators.text_classifiers.config import FastTextClassifierConfig
from saccade.tasks.base import Recipe
from saccade.training.estimator import FitConfig


class LabelsConfig(SourceConfig):
    """Source of labelled texts, and how they are split into words."""

    multi_label: bool = False  # several labels, separated by commas
    split: Literal["words", "whitespace"] = "words"  # plain text, or tokenized text
    min_count: int = Field(1, ge=1)  # rarer words are ignored
    dev_share: float = Field(0.05, ge=0, lt=1)
    test_share: float = Field(0.05, ge=0, lt=1)


class ClassifyRecipe(Recipe):
    """Train a classifier on labelled texts."""

    task: Literal["classify"] = "classify"
    data: LabelsConfig = LabelsConfig()
    model: FastTextClassifierConfig = FastTextClassifierConfig()
    train: FitConfig = FitConfig()
