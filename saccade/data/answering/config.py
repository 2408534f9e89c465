"""Settings of questions with contexts, and of the windows of contexts. Does not import torch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig
from saccade.types.limits import MAX_LENGTH

_NO_COLUMNS = "questions are divided by article; try data.dev and data.test"


class QuestionsConfig(SplitConfig, DatasetSourceConfig):
    """Source of the questions, their division by article, and the windows of long contexts."""

    REFUSED: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("split_column", "group_by", "time", "stratify"), _NO_COLUMNS
    )

    language: Literal["en", "de", "zh"] = "en"
    """Language of the dataset xquad."""
    window: int = Field(384, ge=8, le=MAX_LENGTH)
    """Tokens that are read together: the question, three special tokens and a part of the context;
    at most the positions of the model."""
    stride: int = Field(128, ge=1, le=MAX_LENGTH)
    """Tokens from the start of one window of a context to the next; at most half of the tokens of
    the context in a window, so that windows overlap."""
    max_question: int = Field(64, ge=1, le=MAX_LENGTH)
    """Tokens after which a question is truncated."""
    max_answer: int = Field(30, ge=1, le=MAX_LENGTH)
    """Tokens of the longest predicted answer."""
    dev_share: float = Field(0.1, ge=0, lt=1)
    """Share of the articles in the dev split."""
    test_share: float = Field(0.1, ge=0, lt=1)
    """Share of the articles in the test split."""
