"""Settings of sentence vectors. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import SENTENCE_MODELS
from saccade.models.sentence_config import SentenceBertConfig
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_COUNT, MAX_VALUE, MAX_VOCABULARY


class SentenceTokenizerConfig(Config):
    """Settings of the WordPiece tokenizer; that of another run is kept with `init_from`."""

    size: int | None = Field(None, ge=8, le=MAX_VOCABULARY)
    """Largest size of the vocabulary; 8,000 if not set."""
    lowercase: bool = True
    """Lower-case the text and remove accents."""


class SentencesConfig(SplitConfig, DatasetSourceConfig):
    """Source of sentences, the columns of their roles, their division and their tokenizer."""

    text: str | None = None
    """Column of the sentences; inferred if not set."""
    positive: str | None = None
    """Column of a sentence of the same meaning, or the other of a rated pair; inferred if not
    set."""
    negative: str | None = None
    """Column of a similar sentence of another meaning (hard negative); inferred if not set."""
    score: str | None = None
    """Column of the rated similarity of a pair, by which vectors are evaluated; inferred if not
    set."""
    tokenizer: SentenceTokenizerConfig = SentenceTokenizerConfig()


class EmbeddingTrainConfig(TrainConfig):
    """Settings of the training loop and of the loss."""

    batch_tokens: int = Field(64, ge=2, le=MAX_COUNT)
    """Batch size in sentences; each is compared with the others of its batch."""
    temperature: float = Field(0.05, ge=1e-3, le=100)
    """Temperature τ of the loss: the smaller, the more the most similar other sentences count."""
    negative_weight: float = Field(1.0, gt=0, le=MAX_VALUE)
    """Weight of a sentence's own hard negative in the loss."""


class EmbeddingRecipe(Recipe):
    """Train vectors of sentences (SimCSE)."""

    task: Literal["embed"] = "embed"
    data: SentencesConfig = SentencesConfig()
    model: Annotated[Config, ModelChoice(SENTENCE_MODELS)] = SentenceBertConfig()
    train: EmbeddingTrainConfig = EmbeddingTrainConfig()
