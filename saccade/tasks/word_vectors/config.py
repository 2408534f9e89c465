"""Settings of the word vector task."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.data.source import DatasetSourceConfig
from saccade.estimators.word_vectors.baselines import OneHotConfig, SVDConfig
from saccade.estimators.word_vectors.fasttext import FastTextConfig
from saccade.estimators.word_vectors.glove import GloVeConfig
from saccade.estimators.word_vectors.word2vec import Word2VecConfig
from saccade.tasks.base import Recipe
from saccade.training.estimator import FitConfig


class WordsConfig(DatasetSourceConfig):
    """Source of the text, and which of its words get a vector."""

    split: Literal["words", "whitespace"] = "words"  # plain text, or tokenized text
    min_count: int = Field(5, ge=1)  # rarer words get no vector


class VectorsRecipe(Recipe):
    """Train word vectors on a text."""

    task: Literal["vectors"] = "vectors"
    data: WordsConfig = WordsConfig()
    model: Annotated[
        Word2VecConfig | FastTextConfig | GloVeConfig | SVDConfig | OneHotConfig,
        Field(discriminator="name"),
    ] = Word2VecConfig()
    train: FitConfig = FitConfig()
