"""Settings of the word vector task."""

from typing import Annotated, Any, Literal

from pydantic import Field

from saccade.data.text.config import TextConfig
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
from saccade.types.limits import MAX_COUNT

HELD_OUT_SHARE = 0.01  # of the text, for the loss of models that have one


class WordsConfig(TextConfig):
    """Source of the text and its splits, and which of its words get a vector."""

    dev: str | None = None
    """File on which the loss is measured; the last hundredth of the text if not set."""
    test: str | None = None
    """File on which the trained vectors are scored; the text of dev if not set."""
    dev_share: float = Field(HELD_OUT_SHARE, gt=0, lt=0.5)
    """Share of the text held out for the loss; no more than 20,000 words of it are scored."""
    test_share: float = Field(0.0, ge=0, lt=0.5)
    """Share of the text held out for the scores of the trained vectors; 0: the text of dev."""
    split: Literal["words", "whitespace", "jieba"] = "words"
    """Split into words and punctuation, only at spaces (text that is tokenized already), or
    Chinese into words with jieba (extra `chinese`)."""
    min_count: int = Field(5, ge=1, le=MAX_COUNT)
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


def holds_out_by_settings(data: WordsConfig) -> bool:
    """Return True unless the last hundredth of the text is held out, as without settings."""
    shares = (data.dev_share, data.test_share)
    is_divided = any((data.dev, data.test, data.split_column, data.group_by, data.time))
    return is_divided or shares != (HELD_OUT_SHARE, 0.0)


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
