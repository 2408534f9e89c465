"""Settings of sentence pairs and their tokenizers. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig
from saccade.types.limits import MAX_COUNT, MAX_LENGTH, MAX_VOCABULARY


class TokenizerConfig(Config):
    """Settings of a tokenizer."""

    kind: Literal["character", "word", "whitespace", "bpe"] = "character"
    """Kind of token: characters, words and punctuation, text between spaces, or byte pairs."""
    size: int | None = Field(None, ge=8, le=MAX_VOCABULARY)
    """Largest size of the vocabulary; no limit if not set (byte pairs: chosen from the data)."""
    shared: bool = False
    """Use one vocabulary for source and target."""


class PairsConfig(SplitConfig, DatasetSourceConfig):
    """Source, splits and tokenization of sentence pairs; `path` may be two files: a.en,a.de."""

    source: str | None = None
    """Column of the sources; inferred if not set."""
    target: str | None = None
    """Column of the targets; inferred if not set."""
    size: int | None = Field(None, ge=1, le=MAX_VOCABULARY)
    """Number of synthetic training pairs."""
    direction: str | None = None
    """Direction of a published dataset, for example en-de or de-en."""
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    """Share of the pairs held out for dev."""
    test_share: float = Field(0.05, ge=0, lt=0.5)
    """Share of the pairs held out for test."""
    whitespace: Literal["collapse", "keep"] = "collapse"
    """Collapse runs of white space to one space, or keep them."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_length: int = Field(1000, ge=1, le=MAX_LENGTH)
    """Largest number of tokens of a source or a target."""
    on_too_long: Literal["error", "skip"] = "error"
    """Treatment of training pairs that are longer: an error, or leave them out."""
    max_new_tokens: int = Field(200, ge=1, le=MAX_COUNT)
    """Number of tokens after which generation stops."""
