"""Settings of the language modelling task."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.parallel.config import TokenizerConfig
from saccade.data.text.config import TextConfig
from saccade.estimators.ngram.config import NGramConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import RecurrentLMConfig
from saccade.models.registry import LANGUAGE_MODELS, ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_COUNT, MAX_LENGTH

ALL_LANGUAGE_MODELS = {
    **LANGUAGE_MODELS,
    "ngram": ModelEntry(NGramConfig, "saccade.estimators.ngram.model:NGram"),
}


class CorpusConfig(TextConfig):
    """Source of the text and its splits, its tokenizer, and how it is cut into segments."""

    dev_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of the text held out for dev."""
    test_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of the text held out for test."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    segment_order: Literal["sequential", "random"] = "sequential"
    """Order of the segments: that of the text, with the state carried on, or random."""
    segment_length: int = Field(64, ge=1, le=MAX_LENGTH)
    """Number of tokens of a training segment."""
    max_new_tokens: int = Field(100, ge=1, le=MAX_COUNT)
    """Number of tokens after which generation stops."""


class LanguageRecipe(Recipe):
    """Train a language model on a text."""

    task: Literal["language"] = "language"
    data: CorpusConfig = CorpusConfig()
    model: Annotated[Config, ModelChoice(ALL_LANGUAGE_MODELS)] = RecurrentLMConfig()
    train: TrainConfig = TrainConfig()
