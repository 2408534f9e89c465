"""Settings of n-gram language models. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_COUNT, MAX_NGRAM, MAX_VOCABULARY


class NGramConfig(Config):
    """Settings of an n-gram language model: the context is the last `order` - 1 tokens."""

    name: Literal["ngram"] = "ngram"
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the vocabulary; set from the data."""
    order: int = Field(3, ge=1, le=MAX_NGRAM)
    """n: a token is predicted from the n - 1 tokens before it."""
    smoothing: Literal["none", "laplace", "back-off", "kneser-ney"] = "kneser-ney"
    """Smoothing of n-grams that were not seen."""
    min_count: int = Field(1, ge=1, le=MAX_COUNT)
    """Rarer n-grams are left out; single tokens are always kept."""
    min_count_order: int = Field(2, ge=2, le=MAX_NGRAM)
    """Number of tokens from which on n-grams must occur `min_count` times."""
