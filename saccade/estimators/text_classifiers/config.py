"""Settings of the text classifiers that fit themselves. Does not import torch or numba."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_COUNT, MAX_VALUE, MAX_WIDTH


class FastTextClassifierConfig(Config):
    """Linear classifier on the mean of word and n-gram vectors (fastText)."""

    name: Literal["fasttext"] = "fasttext"
    width: int = Field(100, ge=1, le=MAX_WIDTH)
    """Width of the word and n-gram vectors."""
    word_ngrams: int = Field(1, ge=1, le=10)
    """Largest number of words of an n-gram."""
    buckets: int = Field(2_000_000, ge=1, le=MAX_COUNT)
    """Number of hash buckets of the n-grams of two words or more."""
    min_count: int = Field(1, ge=1, le=MAX_COUNT)
    """Rarer n-grams of two words or more are ignored; for single words: `data.min_count`."""
    loss: Literal["softmax", "one_vs_all", "hierarchical_softmax"] = "softmax"
    """Loss; `one_vs_all` for texts with several labels."""
    epochs: int = Field(5, ge=1, le=MAX_COUNT)
    """Number of passes over the training texts."""
    learning_rate: float = Field(0.1, gt=0, le=MAX_VALUE)
    """Initial learning rate; it falls linearly to zero."""


class NGramClassifierConfig(Config):
    """Logistic regression on weighted n-grams of words and characters."""

    name: Literal["ngrams"] = "ngrams"
    word_ngrams: int = Field(2, ge=1, le=10)
    """Largest number of words of an n-gram; a character of a script without spaces is a word."""
    char_ngrams: int = Field(0, ge=0, le=10)
    """Largest number of characters of an n-gram inside a word; 0: no n-grams of characters."""
    min_count: int = Field(2, ge=1, le=MAX_COUNT)
    """Rarer n-grams are ignored; single words are always kept."""
    max_features: int = Field(1_000_000, ge=1, le=MAX_COUNT)
    """Largest number of n-grams; the most frequent ones are kept."""
    penalty: float = Field(0.0625, gt=0, le=MAX_VALUE)
    """Strength λ of the regularisation λ/2 ‖W‖²."""
    refit: bool = True
    """Whether the final weights are fitted to train and dev together, after calibration on dev."""
    loss: Literal["softmax", "one_vs_all"] | None = None
    """Loss; `one_vs_all` for texts with several labels. If not set, by the number of labels."""
