"""Settings of word vectors. Does not import numba."""

from typing import Literal

from pydantic import Field, model_validator

from saccade.config import Config
from saccade.types.limits import MAX_COUNT, MAX_NGRAM, MAX_VALUE, MAX_WIDTH


class WindowsConfig(Config):
    """Settings shared by word2vec and fastText vectors."""

    width: int = Field(100, ge=1, le=MAX_WIDTH)
    """Width of a vector."""
    window: int = Field(5, ge=1, le=1000)
    """Largest number of context words on either side."""
    negatives: int = Field(5, ge=0, le=100)
    """Negative samples per target word; 0 is hierarchical softmax."""
    shared_negatives: int | None = Field(None, ge=1, le=1000)
    """Negatives shared by a group of windows; 8 per negative (CBOW: 8 for each 5) if not set."""
    subsample: float = Field(1e-3, ge=0, le=MAX_VALUE)
    """Subsampling threshold of frequent words; 0 is none."""
    epochs: int = Field(5, ge=1, le=MAX_COUNT)
    """Number of passes over the text."""
    # word2vec.c: ¾, fastText: ½ (docs/benchmarks.md)
    power: float | None = Field(None, ge=0, le=1)
    """Negatives are drawn in proportion to count^power; chosen from the words read if not set."""
    learning_rate: float = Field(0.05, gt=0, le=MAX_VALUE)
    """Initial learning rate; word2vec.c and gensim have 0.025 for skip-gram."""

    @property
    def is_cbow(self) -> bool:
        """True for CBOW (context predicts center word), False for skip-gram."""
        return False


class Word2VecConfig(WindowsConfig):
    """Skip-gram predicts context words from the centre word; CBOW the reverse (word2vec)."""

    name: Literal["skipgram", "cbow"] = "skipgram"

    @property
    def is_cbow(self) -> bool:
        """True for CBOW."""
        return self.name == "cbow"


class FastTextConfig(WindowsConfig):
    """Skip-gram whose words are means of character n-gram vectors (fastText)."""

    name: Literal["fasttext"] = "fasttext"
    cbow: bool = False
    """Predict the centre word from its context (CBOW) instead of the reverse (skip-gram)."""
    min_n: int = Field(3, ge=1, le=MAX_NGRAM)
    """Shortest character n-gram."""
    max_n: int = Field(6, ge=1, le=MAX_NGRAM)
    """Longest character n-gram."""
    buckets: int = Field(2_000_000, ge=1, le=MAX_COUNT)
    """Number of buckets that n-grams are hashed into."""

    @property
    def is_cbow(self) -> bool:
        """True for CBOW, False for skip-gram."""
        return self.cbow

    @model_validator(mode="after")
    def _in_order(self) -> "FastTextConfig":
        if self.max_n < self.min_n:
            raise ValueError(
                f"got n-grams of min_n {self.min_n} to max_n {self.max_n} characters; expected "
                f"min_n ≤ max_n; try max_n = {self.min_n}."
            )
        return self


class GloVeConfig(Config):
    """Weighted least squares on log co-occurrence counts (GloVe)."""

    name: Literal["glove"] = "glove"
    width: int = Field(100, ge=1, le=MAX_WIDTH)
    """Width of a vector."""
    window: int = Field(10, ge=1, le=1000)
    """Largest distance of two words that are counted as co-occurring."""
    epochs: int = Field(15, ge=1, le=MAX_COUNT)
    """Number of passes over the co-occurrence counts."""
    # the paper uses 0.05 and 100, for billions of words; too low for millions (docs/benchmarks.md)
    learning_rate: float = Field(0.1, gt=0, le=MAX_VALUE)
    """Learning rate of AdaGrad."""
    x_max: float = Field(10.0, gt=0, le=MAX_VALUE)
    """Pairs with this count or more have weight 1."""
    power: float = Field(0.75, gt=0, le=1)
    """Exponent of the weight (count / x_max)^power of rarer pairs."""
    # runs of versions before 0.8 have no such setting, and none held out
    dev_share: float | None = Field(None, ge=0, lt=0.5)
    """Share of the co-occurring pairs held out for the loss, 0: none; a new run has 0.01."""


class SVDConfig(Config):
    """Truncated SVD of the co-occurrence matrix: a baseline."""

    name: Literal["svd"] = "svd"
    width: int = Field(100, ge=1, le=MAX_WIDTH)
    """Width of a vector."""
    window: int = Field(5, ge=1, le=1000)
    """Largest distance of two words that are counted as co-occurring."""


class OneHotConfig(Config):
    """One-hot vectors: a baseline in which no word is similar to another."""

    name: Literal["one_hot"] = "one_hot"
