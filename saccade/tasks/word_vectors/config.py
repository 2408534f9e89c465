"""Settings of the word vector task."""

from typing import Annotated, Any, Literal

from pydantic import Field

from saccade.data.source import DatasetSourceConfig
from saccade.estimators.word_vectors.config import (
    FastTextConfig,
    GloVeConfig,
    OneHotConfig,
    SVDConfig,
    Word2VecConfig,
)
from saccade.registry import LazyRegistry
from saccade.tasks.base import Recipe
from saccade.training.estimator import FitConfig


class WordsConfig(DatasetSourceConfig):
    """Source of the text, and which of its words get a vector."""

    text: str | None = None
    """Column of the texts, of a file with columns."""
    split: Literal["words", "whitespace"] = "words"
    """Split into words and punctuation, or only at spaces (text that is tokenized already)."""
    min_count: int = Field(5, ge=1)
    """Number of occurrences below which a word gets no vector."""


class VectorsRecipe(Recipe):
    """Train word vectors on a text."""

    task: Literal["vectors"] = "vectors"
    data: WordsConfig = WordsConfig()
    model: Annotated[
        Word2VecConfig | FastTextConfig | GloVeConfig | SVDConfig | OneHotConfig,
        Field(discriminator="name"),
    ] = Word2VecConfig()
    train: FitConfig = FitConfig()


# constructors; their arguments: settings, words, seed
WORD_MODELS: LazyRegistry[Any] = LazyRegistry(
    {
        "cbow": "saccade.tasks.word_vectors.models:WindowModel",
        "fasttext": "saccade.tasks.word_vectors.models:WindowModel",
        "glove": "saccade.tasks.word_vectors.models:GloVeModel",
        "one_hot": "saccade.tasks.word_vectors.models:OneHotModel",
        "skipgram": "saccade.tasks.word_vectors.models:WindowModel",
        "svd": "saccade.tasks.word_vectors.models:SVDModel",
    }
)
