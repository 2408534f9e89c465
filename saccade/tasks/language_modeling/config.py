"""Settings of the language modelling task."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.parallel.config import TokenizerConfig
from saccade.data.source import DatasetSourceConfig
from saccade.estimators.ngram.config import NGramConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import RecurrentLMConfig
from saccade.models.registry import LANGUAGE_MODELS, ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig

ALL_LANGUAGE_MODELS = {
    **LANGUAGE_MODELS,
    "ngram": ModelEntry(NGramConfig, "saccade.estimators.ngram.model:NGram"),
}


class CorpusConfig(DatasetSourceConfig):
    """Source of the text, its tokenizer, and how it is cut into segments."""

    dev: str | None = None  # a file of its own; otherwise the last part is held out
    test: str | None = None
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    test_share: float = Field(0.05, gt=0, lt=0.5)
    tokenizer: TokenizerConfig = TokenizerConfig()
    segment_order: Literal["sequential", "random"] = "sequential"
    segment_length: int = Field(64, ge=1)  # tokens
    max_new_tokens: int = Field(100, ge=1)  # length limit of generated text


class LanguageRecipe(Recipe):
    """Train a language model on a text."""

    task: Literal["language"] = "language"
    data: CorpusConfig = CorpusConfig()
    model: Annotated[Config, ModelChoice(ALL_LANGUAGE_MODELS)] = RecurrentLMConfig()
    train: TrainConfig = TrainConfig()
