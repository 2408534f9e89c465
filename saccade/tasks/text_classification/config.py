"""Settings of the text classification task."""

from typing import Literal

from pydantic import Field

from saccade.data.source import SourceConfig
from saccade.data.splits import SplitConfig
from saccade.estimators.text_classifiers.config import FastTextClassifierConfig
from saccade.tasks.base import Recipe
from saccade.training.estimator import FitConfig


class LabelsConfig(SplitConfig, SourceConfig):
    """Source of labelled texts, how they are divided, and how they are split into words."""

    text: str | None = None
    """Column of the texts; inferred if not set."""
    label: str | None = None
    """Column of the labels; inferred if not set."""
    multi_label: bool = False
    """Texts have several labels, with commas between."""
    split: Literal["words", "whitespace"] = "words"
    """Split into words and punctuation, or only at spaces (text that is tokenized already)."""
    min_count: int = Field(1, ge=1)
    """Number of occurrences below which a word is ignored."""


class ClassifyRecipe(Recipe):
    """Train a classifier on labelled texts."""

    task: Literal["classify"] = "classify"
    data: LabelsConfig = LabelsConfig()
    model: FastTextClassifierConfig = FastTextClassifierConfig()
    train: FitConfig = FitConfig()
