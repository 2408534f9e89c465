"""Settings of sentence pairs and of tokenizers."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.source import DatasetSourceConfig


class TokenizerConfig(Config):
    """Settings of a tokenizer."""

    kind: Literal["character", "word", "whitespace", "bpe"] = "character"
    size: int | None = Field(None, ge=8)  # maximum size of the vocabulary
    shared: bool = False  # one vocabulary for both sides


class PairsConfig(DatasetSourceConfig):
    """Source, splits and tokenization of sentence pairs; `path` may be two files: a.en,a.de."""

    size: int | None = Field(None, ge=1)  # number of synthetic training pairs
    direction: str | None = None  # of a published dataset, for example en-de or de-en
    dev: str | None = None  # a separate file; None: a share is held out
    test: str | None = None
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    test_share: float = Field(0.05, ge=0, lt=0.5)
    whitespace: Literal["collapse", "keep"] = "collapse"  # runs of white space to one space
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_length: int = Field(1000, ge=1)  # tokens of one side
    on_too_long: Literal["error", "skip"] = "error"
    max_new_tokens: int = Field(200, ge=1)  # tokens after which generation stops
