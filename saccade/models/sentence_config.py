"""Settings of the encoders of sentences. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.models.bert_config import BertConfig
from saccade.types.limits import MAX_LENGTH, MAX_VOCABULARY, MAX_WIDTH


class WordMeanConfig(Config):
    """Mean of the vectors of the pieces of words: their order does not count."""

    name: Literal["words"] = "words"
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the vocabulary; set from the data."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the vectors."""
    max_length: int = Field(512, ge=3, le=MAX_LENGTH)
    """Number of tokens, [CLS] and [SEP] included, after which a sentence is truncated."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of the word vectors."""


class SentenceBertConfig(BertConfig):
    """BERT, whose vectors of a sentence are those of [CLS] or a mean over its tokens."""

    pretraining_heads: bool = False
    """Has no effect: the heads of pretraining are left out."""
    pooling: Literal["cls", "mean", "first_last_mean"] = "mean"  # type: ignore[assignment]
    """Vector of a sentence: that of [CLS], the mean over its tokens, or the mean of those of the
    first and of the last layer."""
