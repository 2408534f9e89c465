"""Settings of masked language modelling. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.text.config import TextConfig
from saccade.models.bert_config import BertConfig
from saccade.models.choice import ModelChoice
from saccade.models.registry import BERT_MODELS
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_LENGTH, MAX_VOCABULARY


class WordPieceConfig(Config):
    """Settings of a WordPiece tokenizer."""

    size: int | None = Field(None, ge=8, le=MAX_VOCABULARY)
    """Largest size of the vocabulary; 8,000 if not set."""
    lowercase: bool = True
    """Lower-case the text and remove accents."""


class PretrainingTextConfig(TextConfig):
    """Source of the text and its splits, its tokenizer, sequences and masking.

    A blank line, the end of a file or of a cell of a table ends a document.
    """

    dev_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of the text held out for dev."""
    test_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of the text held out for test."""
    tokenizer: WordPieceConfig = WordPieceConfig()
    sequence_length: int = Field(128, ge=8, le=MAX_LENGTH)
    """Number of tokens of a training sequence, with [CLS] and [SEP]; none is padded."""
    pairs: bool = True
    """Sequences of two segments, half of which follow each other, and next-sentence prediction."""
    mask_share: float = Field(0.15, gt=0, le=0.9)
    """Share of the tokens to predict: 80 % of them masked, 10 % random, 10 % left as they are."""
    masking: Literal["dynamic", "static"] = "dynamic"
    """Mask other tokens in each epoch, or the same."""
    whole_words: bool = False
    """Mask all pieces of a word together."""
    chinese_words: str | None = None
    """Words of Chinese for `whole_words`: `jieba` (extra `chinese`), or a file with a word on each
    line; each character is a word if not set."""


class BertRecipe(Recipe):
    """Pretrain BERT on a text."""

    task: Literal["bert"] = "bert"
    data: PretrainingTextConfig = PretrainingTextConfig()
    model: Annotated[Config, ModelChoice(BERT_MODELS)] = BertConfig()
    train: TrainConfig = TrainConfig()
