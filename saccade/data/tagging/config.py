"""Settings of tagged sentences and their splits. Does not import torch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig
from saccade.types.limits import MAX_COUNT, MAX_WIDTH

_NO_COLUMNS = "a file of tagged tokens has no such column of sentences; try data.dev and data.test"

CONLL_SUFFIXES = (".conll", ".conllu", ".bio", ".iob", ".iob2", ".bioes", ".conll2003")
TagScheme = Literal["auto", "bio", "iob1", "bioes", "plain"]


class TaggedTextConfig(SplitConfig, DatasetSourceConfig):
    """Source of the tagged sentences, the columns of a token, and the division."""

    REFUSED: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("split_column", "group_by", "time", "stratify"), _NO_COLUMNS
    )

    token_column: int = Field(1, ge=-MAX_WIDTH, le=MAX_WIDTH)
    """Column of the tokens, counted from 1, or from the end with a minus sign."""
    tag_column: int = Field(-1, ge=-MAX_WIDTH, le=MAX_WIDTH)
    """Column of the tags, counted from 1, or from the end with a minus sign."""
    scheme: TagScheme = "auto"
    """How tags mark spans: `bio`, `iob1`, `bioes`, or `plain` for tags without spans, such as parts
    of speech; `auto` infers one of the first three."""
    split: Literal["words", "whitespace", "jieba"] = "words"
    """Split a text to predict into words and punctuation, only at spaces, or Chinese into words
    with jieba (extra `chinese`)."""
    min_count: int = Field(1, ge=1, le=MAX_COUNT)
    """Number of occurrences below which a word has no vector of its own."""
    dev_share: float = Field(0.1, ge=0, lt=1)
    """Share of the sentences in the dev split."""
    test_share: float = Field(0.1, ge=0, lt=1)
    """Share of the sentences in the test split."""

    @field_validator("token_column", "tag_column")
    @classmethod
    def _is_a_column(cls, value: int) -> int:
        if value == 0:
            raise ValueError("expected a column counted from 1, or from the end with a minus sign")
        return value
